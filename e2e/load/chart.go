package load

import (
	"fmt"
	"html"
	"html/template"
	"math"
	"strconv"
	"strings"
)

// curve is one line of a chart.
type curve struct {
	name   string
	points []point
	dashed bool
}

// chart is a drawing of curves over a common axis.
type chart struct {
	title, xTitle, yTitle string
	curves                []curve
	stacked               bool // the curves have the same x; each stands on those before it
	steps                 bool
}

// Colours that can be told apart, also by those who see few of them.
var colours = []string{"#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#999999", "#6a3d9a"}

const (
	chartWidth, chartHeight = 720.0, 260.0
	marginLeft, marginRight = 64.0, 12.0
	marginTop, marginBottom = 10.0, 40.0
	mostPoints              = 600
)

// ticks are round numbers from 0 to at least most, about five of them.
func ticks(most float64) []float64 {
	if most <= 0 || math.IsNaN(most) || math.IsInf(most, 0) {
		return []float64{0, 1}
	}
	step := math.Pow(10, math.Floor(math.Log10(most/5)))
	for _, factor := range []float64{1, 2, 5, 10} {
		if most/(step*factor) <= 6 {
			step *= factor
			break
		}
	}
	all := []float64{}
	for i := 0; ; i++ {
		all = append(all, step*float64(i))
		if step*float64(i) >= most {
			return all
		}
	}
}

func label(value float64) string {
	if value >= 10000 {
		return strconv.FormatFloat(value/1000, 'f', -1, 64) + "k"
	}
	return strconv.FormatFloat(math.Round(value*1e6)/1e6, 'f', -1, 64)
}

// stack lets each curve stand on those before it.
func stack(curves []curve) []curve {
	all, base := []curve{}, []float64{}
	for _, one := range curves {
		raised := curve{name: one.name, points: append([]point{}, one.points...)}
		for i := range raised.points {
			if i == len(base) {
				base = append(base, 0)
			}
			base[i] += raised.points[i].y
			raised.points[i].y = base[i]
		}
		all = append(all, raised)
	}
	return all
}

// svg draws the chart.
func (c chart) svg() template.HTML {
	curves := []curve{}
	for _, one := range c.curves {
		if !c.stacked {
			one.points = thin(one.points, mostPoints)
		}
		if len(one.points) > 0 {
			curves = append(curves, one)
		}
	}
	solid := curves
	if c.stacked {
		plain, rest := []curve{}, []curve{}
		for _, one := range curves {
			if one.dashed {
				rest = append(rest, one)
			} else {
				plain = append(plain, one)
			}
		}
		solid = append(stack(plain), rest...)
	}
	xMost, yMost := 0.0, 0.0
	for _, one := range solid {
		for _, at := range one.points {
			xMost, yMost = max(xMost, at.x), max(yMost, at.y)
		}
	}
	var out strings.Builder
	fmt.Fprintf(&out, `<svg viewBox="0 0 %g %g" role="img" aria-label="%s">`, chartWidth, chartHeight, html.EscapeString(c.title))
	yTicks, xTicks := ticks(yMost), ticks(xMost)
	yTop, xTop := yTicks[len(yTicks)-1], math.Max(xMost, 1e-9)
	x := func(value float64) float64 {
		return marginLeft + value/xTop*(chartWidth-marginLeft-marginRight)
	}
	y := func(value float64) float64 {
		return chartHeight - marginBottom - value/yTop*(chartHeight-marginTop-marginBottom)
	}
	c.axes(&out, xTicks, yTicks, x, y, xTop)
	for i := len(solid) - 1; i >= 0; i-- { // the lowest of a stack last, so that it is not covered
		c.draw(&out, solid[i], colours[i%len(colours)], x, y)
	}
	out.WriteString(`</svg>`)
	out.WriteString(`<div class="legend">`)
	for i, one := range solid {
		kind := ""
		if one.dashed {
			kind = ` class="dashed"`
		}
		fmt.Fprintf(&out, `<span%s><i style="background:%s"></i>%s</span>`, kind, colours[i%len(colours)], html.EscapeString(one.name))
	}
	out.WriteString(`</div>`)
	return template.HTML(out.String())
}

func (c chart) axes(out *strings.Builder, xTicks, yTicks []float64, x, y func(float64) float64, xTop float64) {
	for _, value := range yTicks {
		fmt.Fprintf(out, `<line class="grid" x1="%g" x2="%g" y1="%.1f" y2="%.1f"/><text class="y" x="%g" y="%.1f">%s</text>`,
			marginLeft, chartWidth-marginRight, y(value), y(value), marginLeft-6, y(value)+4, label(value))
	}
	for _, value := range xTicks {
		if value <= xTop {
			fmt.Fprintf(out, `<text class="x" x="%.1f" y="%g">%s</text>`, x(value), chartHeight-marginBottom+16, label(value))
		}
	}
	fmt.Fprintf(out, `<text class="x" x="%g" y="%g">%s</text>`, (marginLeft+chartWidth-marginRight)/2, chartHeight-6, html.EscapeString(c.xTitle))
	fmt.Fprintf(out, `<text class="x" transform="translate(14 %g) rotate(-90)">%s</text>`,
		(marginTop+chartHeight-marginBottom)/2, html.EscapeString(c.yTitle))
}

func (c chart) draw(out *strings.Builder, one curve, colour string, x, y func(float64) float64) {
	var path strings.Builder
	for i, at := range one.points {
		switch {
		case i == 0:
			fmt.Fprintf(&path, "M%.1f %.1f", x(at.x), y(at.y))
		case c.steps:
			fmt.Fprintf(&path, "H%.1fV%.1f", x(at.x), y(at.y))
		default:
			fmt.Fprintf(&path, "L%.1f %.1f", x(at.x), y(at.y))
		}
	}
	if c.stacked && !one.dashed {
		first, last := one.points[0], one.points[len(one.points)-1]
		fmt.Fprintf(out, `<path d="%sL%.1f %.1fL%.1f %.1fZ" fill="%s" stroke="none"/>`,
			path.String(), x(last.x), y(0), x(first.x), y(0), colour)
		return
	}
	dash := ""
	if one.dashed {
		dash = ` stroke-dasharray="6 4"`
	}
	fmt.Fprintf(out, `<path d="%s" fill="none" stroke="%s" stroke-width="1.8"%s/>`, path.String(), colour, dash)
}
