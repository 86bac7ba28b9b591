package load

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Result is what a run has measured. Times are seconds, memory is MB (2^20 bytes).
type Result struct {
	Scenario    string
	Description string
	// ScenarioSum tells apart results of different states of a scenario's file.
	ScenarioSum string
	Kind        string
	Floor       bool
	Started     time.Time
	Processors  int

	Planned, Created, Admitted, Admissions, Finished int
	Evictions                                        map[string]int
	Classes                                          []ClassResult
	Quota                                            []QuotaResult
	Processes                                        []ProcessResult
	Requests                                         []Request
	// Figures are the measures that are compared with goals and with others.
	Figures map[string]float64
	Series  Series
	// Problems are things that must not happen; the run has failed if there are any.
	Problems []string

	workloads []workloadRow
}

// ClassResult is what came of the work of one class.
type ClassResult struct {
	Name                  string
	Planned, Finished     int
	Evictions             int
	ToAdmission, ToFinish Distribution
	// Waits is the curve of the share of workloads that were admitted after at most that time.
	Waits [][2]float64
}

// QuotaResult is how much of a resource's quota was in use.
type QuotaResult struct {
	Resource      string
	Nominal, Peak float64
	MeanShare     float64 // of the nominal quota, over the whole run
}

// ProcessResult is what a process took.
type ProcessResult struct {
	Name       string
	CPUSeconds float64
	PeakMB     float64
}

// Series are curves over time, one value for each of Seconds.
type Series struct {
	Seconds                                []float64
	Created, Admissions, Finished, Evicted []float64
	Waiting                                map[string][]float64            // by class
	InUse                                  map[string]map[string][]float64 // by resource and class
	Cores, ResidentMB                      map[string][]float64            // by process
}

type workloadRow struct {
	name, class, queue                string
	created, admitted, finished       float64
	admissions, evictions             int
	neverCreated, waiting, unfinished bool
}

// ---- measures --------------------------------------------------------------------------------

// measure is a row of the table of figures.
type measure struct {
	key, title string
	unit       string
	more       bool // more is better
	decimals   int
}

const classWait = "meanWaitSeconds/"

// measures are the rows in their order.
func measures(classes []string) []measure {
	all := []measure{{"wallSeconds", "wall time, from the first creation to the last finish", "s", false, 1},
		{"createSeconds", "time to create everything", "s", false, 1}}
	for _, class := range classes {
		all = append(all, measure{classWait + class, "mean time to admission, " + class, "s", false, 2})
	}
	return append(all,
		measure{"admittedPerSecond", "admissions a second, from the first to the last", "/s", true, 1},
		measure{"admittedPerSecondBest", "admissions a second, best 10 s", "/s", true, 1},
		measure{"quotaUsePercent", "quota in use, mean over the run", "%", true, 1},
		measure{"evictions", "evictions", "", false, 0},
		measure{"busyAfterSeconds", "controller busy after the last finish", "s", false, 0},
		measure{"controllerCPUSeconds", "controller, processor time", "s", false, 1},
		measure{"controllerPeakMB", "controller, peak memory", "MB", false, 0},
		measure{"workloadWrites", "writes to Workloads by the controller", "", false, 0},
		measure{"workloadWritesPerAdmitted", "writes to Workloads by the controller, an admitted workload", "", false, 3},
		measure{"writesPerAdmitted", "all writes by the controller, an admitted workload", "", false, 3},
		measure{"queueStatusWrites", "writes to ClusterQueues and LocalQueues", "", false, 0},
		measure{"eventWrites", "Events written", "", false, 0},
		measure{"apiServerCPUSeconds", "API server, processor time", "s", false, 1},
		measure{"apiServerCPUMillisPerWorkload", "API server, processor time a workload", "ms", false, 1},
		measure{"apiServerPeakMB", "API server, peak memory", "MB", false, 0},
		measure{"etcdCPUSeconds", "etcd, processor time", "s", false, 1},
		measure{"etcdPeakMB", "etcd, peak memory", "MB", false, 0},
		measure{"webhookConnections", "connections opened to the webhooks", "", false, 0},
		measure{"generatorCPUSeconds", "load generator and forwarding to the webhooks, processor time", "s", false, 1})
}

// measures are the rows of a result, in the words of what it created.
func (r *Result) measures() []measure {
	all := measures(r.classNames())
	for i := range all {
		if r.Kind == KindJob {
			all[i].title = strings.Replace(all[i].title, "admissions a second", "Jobs unsuspended a second", 1)
		}
	}
	return all
}

func (m measure) format(value float64, found bool) string {
	if !found {
		return ""
	}
	return strings.TrimSpace(strconv.FormatFloat(value, 'f', m.decimals, 64) + " " + m.unit)
}

// classNames are the classes of a result, in their order.
func (r *Result) classNames() []string {
	names := []string{}
	for _, class := range r.Classes {
		names = append(names, class.Name)
	}
	return names
}

// ---- the table -------------------------------------------------------------------------------

// Report is a run and what it is compared with. Run or Limit may be missing, not both.
type Report struct {
	Scenario *Scenario
	Run      *Result
	Limit    *Result // the run with Floor
}

// Main is the run, or the limit if there is no run.
func (r *Report) Main() *Result {
	if r.Run != nil {
		return r.Run
	}
	return r.Limit
}

// FiguresTable is the head and the rows of the table of figures.
func (r *Report) FiguresTable() [][]string {
	head := []string{"measure"}
	if r.Run != nil {
		head = append(head, "this run")
	}
	if r.Limit != nil {
		head = append(head, "limit")
	}
	both := r.Run != nil && r.Limit != nil
	if both {
		head = append(head, "run / limit")
	}
	others := slices.Sorted(maps.Keys(r.Scenario.References))
	head = append(head, others...)
	if len(r.Scenario.Goals) > 0 {
		head = append(head, "goal", "")
	}
	rows := [][]string{head}
	for _, measure := range r.Main().measures() {
		value, found := r.Main().Figures[measure.key]
		if !found {
			continue
		}
		row := []string{measure.title}
		if r.Run != nil {
			row = append(row, measure.format(value, true))
		}
		if r.Limit != nil {
			limit, known := r.Limit.Figures[measure.key]
			row = append(row, measure.format(limit, known))
			if both {
				row = append(row, quotient(value, limit, known))
			}
		}
		for _, other := range others {
			figure, known := r.Scenario.References[other][measure.key]
			row = append(row, measure.format(figure, known))
		}
		if len(r.Scenario.Goals) > 0 {
			row = append(row, r.goalCells(measure, value)...)
		}
		rows = append(rows, row)
	}
	return rows
}

func quotient(value, by float64, known bool) string {
	if !known || by == 0 {
		return ""
	}
	return strconv.FormatFloat(value/by, 'f', 2, 64)
}

func (r *Report) goalCells(measure measure, value float64) []string {
	goal, known := r.Scenario.Goals[measure.key]
	if !known {
		return []string{"", ""}
	}
	sign, reached := "<= ", value <= goal
	if measure.more {
		sign, reached = ">= ", value >= goal
	}
	cell := sign + measure.format(goal, true)
	switch {
	case r.Run == nil: // goals are for the controller
		return []string{cell, ""}
	case r.Run.Finished < r.Run.Planned: // a part of the work is cheaper than the whole
		return []string{cell, "not finished"}
	case reached:
		return []string{cell, "reached"}
	}
	return []string{cell, "missed"}
}

// ClassesTable is the table of times by class.
func (r *Result) ClassesTable() [][]string {
	rows := [][]string{{"class", "finished", "evictions", "to admission: mean", "p50", "p95", "max",
		"to finish: mean", "p50", "p95", "max"}}
	for _, class := range r.Classes {
		row := []string{class.Name, fmt.Sprintf("%d of %d", class.Finished, class.Planned), strconv.Itoa(class.Evictions)}
		for _, times := range []Distribution{class.ToAdmission, class.ToFinish} {
			for _, value := range []float64{times.Mean, times.P50, times.P95, times.Max} {
				row = append(row, strconv.FormatFloat(value, 'f', 2, 64)+" s")
			}
		}
		rows = append(rows, row)
	}
	return rows
}

// ProcessesTable is the table of processes.
func (r *Result) ProcessesTable() [][]string {
	rows := [][]string{{"process", "processor time", "cores, mean", "peak memory"}}
	for _, process := range r.Processes {
		rows = append(rows, []string{process.Name, fmt.Sprintf("%.1f s", process.CPUSeconds),
			fmt.Sprintf("%.2f", process.CPUSeconds/math.Max(r.Figures["measuredSeconds"], 1e-9)),
			fmt.Sprintf("%.0f MB", process.PeakMB)})
	}
	return rows
}

// RequestsTable is the table of the most frequent requests.
func (r *Result) RequestsTable(most int) [][]string {
	rows := [][]string{{"request", "resource", "count", "refused", "a workload"}}
	for _, request := range r.Requests[:min(most, len(r.Requests))] {
		resource := request.Resource
		if request.Subresource != "" {
			resource += "/" + request.Subresource
		}
		rows = append(rows, []string{request.Verb, resource, strconv.FormatInt(request.Count, 10),
			strconv.FormatInt(request.Failed, 10), fmt.Sprintf("%.3f", float64(request.Count)/float64(max(1, r.Planned)))})
	}
	return rows
}

// PrintTable prints rows as a table with lines of "|".
func PrintTable(out io.Writer, rows [][]string) {
	widths := []int{}
	for _, row := range rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], len(cell))
		}
	}
	for number, row := range rows {
		for i, cell := range row {
			fmt.Fprintf(out, "| %-*s ", widths[i], cell)
		}
		fmt.Fprintln(out, "|")
		for i := 0; number == 0 && i < len(row); i++ {
			fmt.Fprintf(out, "| %s ", strings.Repeat("-", widths[i]))
		}
		if number == 0 {
			fmt.Fprintln(out, "|")
		}
	}
}

// Print prints the figures, and the details of one of the two results, as text.
func (r *Report) Print(out io.Writer, details *Result) {
	main := details
	fmt.Fprintf(out, "%s, %s: %s\n\n", main.Scenario, main.title(), strings.Join(strings.Fields(main.Description), " "))
	PrintTable(out, r.FiguresTable())
	for _, table := range [][][]string{main.ClassesTable(), main.ProcessesTable(), main.RequestsTable(15)} {
		fmt.Fprintln(out)
		PrintTable(out, table)
	}
	for _, reason := range slices.Sorted(maps.Keys(main.Evictions)) {
		fmt.Fprintf(out, "\nevictions, %s: %d\n", reason, main.Evictions[reason])
	}
	for number, problem := range main.Problems {
		if number == 10 {
			fmt.Fprintf(out, "\nand %d more problems, see result.json\n", len(main.Problems)-number)
			break
		}
		fmt.Fprintf(out, "\nPROBLEM: %.600s\n", problem)
	}
}

// ---- files -----------------------------------------------------------------------------------

// Save writes result.json and the tables as CSV files into a directory.
func (r *Result) Save(directory string) error {
	if err := os.MkdirAll(directory, 0o755); err != nil {
		return err
	}
	text, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(directory, "result.json"), append(text, '\n'), 0o644); err != nil {
		return err
	}
	for name, rows := range map[string][][]string{"figures": r.figureRows(), "classes": r.classRows(),
		"workloads": r.workloadRows(), "series": r.Series.rows(), "requests": r.requestRows()} {
		if err := writeCSV(filepath.Join(directory, name+".csv"), rows); err != nil {
			return err
		}
	}
	return nil
}

// Load reads a result that Save wrote; nil if there is none or if it is of another state of the
// scenario.
func Load(directory, scenarioSum string) (*Result, error) {
	text, err := os.ReadFile(filepath.Join(directory, "result.json"))
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	result := &Result{}
	if err := json.Unmarshal(text, result); err != nil {
		return nil, fmt.Errorf("%s: %w", directory, err)
	}
	if result.ScenarioSum != scenarioSum {
		return nil, nil
	}
	return result, nil
}

func writeCSV(path string, rows [][]string) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer file.Close()
	return csv.NewWriter(file).WriteAll(rows)
}

func number(value float64) string { return strconv.FormatFloat(value, 'f', 3, 64) }

func (r *Result) figureRows() [][]string {
	rows := [][]string{{"measure", "value", "unit"}}
	for _, measure := range r.measures() {
		if value, found := r.Figures[measure.key]; found {
			rows = append(rows, []string{measure.key, number(value), measure.unit})
		}
	}
	return rows
}

func (r *Result) classRows() [][]string {
	rows := [][]string{{"class", "planned", "finished", "evictions", "admission_mean_s", "admission_p50_s",
		"admission_p95_s", "admission_max_s", "finish_mean_s", "finish_p50_s", "finish_p95_s", "finish_max_s"}}
	for _, class := range r.Classes {
		row := []string{class.Name, strconv.Itoa(class.Planned), strconv.Itoa(class.Finished), strconv.Itoa(class.Evictions)}
		for _, times := range []Distribution{class.ToAdmission, class.ToFinish} {
			row = append(row, number(times.Mean), number(times.P50), number(times.P95), number(times.Max))
		}
		rows = append(rows, row)
	}
	return rows
}

func (r *Result) workloadRows() [][]string {
	rows := [][]string{{"name", "class", "queue", "created_s", "admitted_s", "finished_s", "admissions", "evictions"}}
	unless := func(missing bool, value float64) string {
		if missing {
			return ""
		}
		return number(value)
	}
	for _, row := range r.workloads {
		rows = append(rows, []string{row.name, row.class, row.queue, unless(row.neverCreated, row.created),
			unless(row.waiting, row.admitted), unless(row.unfinished, row.finished),
			strconv.Itoa(row.admissions), strconv.Itoa(row.evictions)})
	}
	return rows
}

func (r *Result) requestRows() [][]string {
	rows := [][]string{{"verb", "resource", "subresource", "count", "refused"}}
	for _, request := range r.Requests {
		rows = append(rows, []string{request.Verb, request.Resource, request.Subresource,
			strconv.FormatInt(request.Count, 10), strconv.FormatInt(request.Failed, 10)})
	}
	return rows
}

func (s *Series) rows() [][]string {
	head, columns := []string{"seconds", "created", "admissions", "finished", "evictions"},
		[][]float64{s.Seconds, s.Created, s.Admissions, s.Finished, s.Evicted}
	add := func(prefix string, curves map[string][]float64) {
		for _, name := range slices.Sorted(maps.Keys(curves)) {
			head, columns = append(head, prefix+name), append(columns, curves[name])
		}
	}
	add("waiting ", s.Waiting)
	for _, resource := range slices.Sorted(maps.Keys(s.InUse)) {
		add(resource+" in use by ", s.InUse[resource])
	}
	add("cores of ", s.Cores)
	add("MB of ", s.ResidentMB)
	rows := [][]string{head}
	for i := range s.Seconds {
		row := []string{}
		for _, column := range columns {
			row = append(row, number(column[i]))
		}
		rows = append(rows, row)
	}
	return rows
}
