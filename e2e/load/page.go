package load

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"maps"
	"slices"
	"strings"
)

//go:embed page.html
var pageText string

var pageTemplate = template.Must(template.New("page").Parse(pageText))

// pageTable is a table of the page; its first row is the head.
type pageTable struct {
	Title      string
	Head       []string
	Rows       [][]string
	Annotation string
}

func newPageTable(title string, rows [][]string, annotation string) pageTable {
	return pageTable{title, rows[0], rows[1:], annotation}
}

type pageChart struct {
	Title string
	SVG   template.HTML
}

// WritePage writes the report as one HTML page that needs nothing else.
func (r *Report) WritePage(out io.Writer) error {
	main := r.Main()
	tables := []pageTable{
		newPageTable("Figures", r.FiguresTable(), r.annotation()),
		newPageTable("Times by class", main.ClassesTable(), "A wait counts from sending the create request to seeing Admitted in a watch."),
		newPageTable("Processes", main.ProcessesTable(), ""),
		newPageTable("Requests to the API server", main.RequestsTable(30),
			"From everybody, counted by the API server; watches are not in the list."),
	}
	charts := []pageChart{}
	for _, one := range r.charts() {
		charts = append(charts, pageChart{one.title, one.svg()})
	}
	return pageTemplate.Execute(out, map[string]any{
		"Name": main.Scenario, "Description": strings.Join(strings.Fields(main.Description), " "), "What": main.title(),
		"Started": main.Started.Format("2006-01-02 15:04:05 MST"), "Processors": main.Processors,
		"Planned": main.Planned, "Finished": main.Finished, "Problems": main.Problems,
		"Tables": tables, "Charts": charts,
	})
}

func (r *Report) annotation() string {
	texts := []string{}
	if r.Limit != nil {
		texts = append(texts, "The limit is the same load with a few lines in the place of the controller that admit each Workload with one status write and do nothing else: no preemption, no queue status, no Events.")
	}
	if len(r.Scenario.References) > 0 {
		texts = append(texts, fmt.Sprintf("The figures of %s are those published with the scenario, taken on another day.",
			strings.Join(slices.Sorted(maps.Keys(r.Scenario.References)), ", ")))
	}
	return strings.Join(texts, " ")
}

func over(seconds, values []float64) []point {
	points := make([]point, len(seconds))
	for i := range seconds {
		points[i] = point{seconds[i], values[i]}
	}
	return points
}

// charts are the drawings of the page.
func (r *Report) charts() []chart {
	main := r.Main()
	s := &main.Series
	const time = "seconds since the start"
	all := []chart{}
	for _, quota := range main.Quota {
		one := chart{title: "Quota in use: " + quota.Resource, xTitle: time, yTitle: quota.Resource, stacked: true}
		for _, class := range main.classNames() {
			one.curves = append(one.curves, curve{name: class, points: over(s.Seconds, s.InUse[quota.Resource][class])})
		}
		if last := len(s.Seconds) - 1; last >= 0 {
			one.curves = append(one.curves, curve{name: "nominal quota", dashed: true,
				points: []point{{0, quota.Nominal}, {s.Seconds[last], quota.Nominal}}})
		}
		all = append(all, one)
	}
	progress := chart{title: "Created, admitted, finished", xTitle: time, yTitle: "workloads", curves: []curve{
		{name: "created", points: over(s.Seconds, s.Created)},
		{name: "admissions", points: over(s.Seconds, s.Admissions)},
		{name: "finished", points: over(s.Seconds, s.Finished)},
		{name: "evictions", points: over(s.Seconds, s.Evicted)}}}
	if r.Run != nil && r.Limit != nil {
		progress.curves = append(progress.curves, curve{name: "finished, limit", dashed: true,
			points: over(r.Limit.Series.Seconds, r.Limit.Series.Finished)})
	}
	waiting := chart{title: "Waiting for quota", xTitle: time, yTitle: "workloads"}
	waits := chart{title: "Time to admission", xTitle: "seconds", yTitle: "share admitted", steps: true}
	for _, class := range main.Classes {
		waiting.curves = append(waiting.curves, curve{name: class.Name, points: over(s.Seconds, s.Waiting[class.Name])})
		one := curve{name: class.Name}
		for _, at := range class.Waits {
			one.points = append(one.points, point{at[0], at[1]})
		}
		waits.curves = append(waits.curves, one)
	}
	cores := chart{title: "Processors in use", xTitle: time, yTitle: "cores"}
	held := chart{title: "Memory held", xTitle: time, yTitle: "MB"}
	for _, process := range main.Processes {
		cores.curves = append(cores.curves, curve{name: process.Name, points: over(s.Seconds, s.Cores[process.Name])})
		held.curves = append(held.curves, curve{name: process.Name, points: over(s.Seconds, s.ResidentMB[process.Name])})
	}
	return append(all, progress, waiting, waits, cores, held)
}
