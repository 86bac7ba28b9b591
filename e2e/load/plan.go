package load

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
)

// plan is a scenario written out: every cohort, every queue, every object, in the order of creation.
type plan struct {
	scenario  *Scenario
	resources []string // index = resource
	classes   []string // index = class
	cohorts   []plannedCohort
	queues    []plannedQueue
	shapes    []shape
	items     []item
}

type plannedCohort struct {
	name, parent string // no name: a queue on its own
	nominal      []int64
}

type plannedQueue struct {
	name, namespace string
	cohort          int
	spec            *Queue
	nominal         []int64
	limit           []int64 // nominal quota and borrowing limit; -1: only the cohort limits
}

// shape is a class in a queue.
type shape struct {
	class, queue int
	spec         *Class
	request      []int64 // of all pods
}

// item is one object to create.
type item struct {
	shape int
	due   time.Duration // since the start
}

// milli is a quantity in thousandths, so that processors stay whole numbers.
func milli(quantity resource.Quantity) int64 { return quantity.MilliValue() }

func newPlan(s *Scenario) *plan {
	p := &plan{scenario: s, resources: s.ResourceNames(), classes: s.ClassNames()}
	for i := range s.Cohorts {
		for number := range s.Cohorts[i].Count {
			p.addCohort(&s.Cohorts[i], number)
		}
	}
	for number := range p.shapes {
		spec := p.shapes[number].spec
		for i := range spec.Count {
			p.items = append(p.items, item{number, time.Duration(i) * spec.Interval.Duration})
		}
	}
	// Equal times keep the order of the file, so the order is the same in each run.
	slices.SortStableFunc(p.items, func(a, b item) int { return int(a.due - b.due) })
	return p
}

func (p *plan) addCohort(cohort *Cohort, number int) {
	name := cohort.Name
	if name != "" {
		name = fmt.Sprintf("%s-%d", name, number)
	}
	shared := -1
	for j := range cohort.Queues {
		for i := range cohort.Queues[j].Count {
			if shared < 0 || name == "" {
				p.cohorts = append(p.cohorts, plannedCohort{name, cohort.Parent, make([]int64, len(p.resources))})
				shared = len(p.cohorts) - 1
			}
			p.addQueue(&cohort.Queues[j], shared, i, number)
		}
	}
}

func (p *plan) addQueue(spec *Queue, cohort, i, number int) {
	queue := plannedQueue{cohort: cohort, spec: spec}
	queue.namespace = p.cohorts[cohort].name
	if queue.namespace == "" {
		queue.namespace = fmt.Sprintf("alone-%d", number)
	}
	queue.name = fmt.Sprintf("%s-%s-%d", queue.namespace, spec.Name, i)
	for at, name := range p.resources {
		nominal := milli(spec.NominalQuota[name])
		limit := nominal
		if p.cohorts[cohort].name != "" {
			limit = -1
			if most, found := spec.BorrowingLimit[name]; found {
				limit = nominal + milli(most)
			}
		}
		queue.nominal = append(queue.nominal, nominal)
		queue.limit = append(queue.limit, limit)
		p.cohorts[cohort].nominal[at] += nominal
	}
	p.queues = append(p.queues, queue)
	for k := range spec.Workloads {
		class := &spec.Workloads[k]
		request := []int64{}
		for _, name := range p.resources {
			request = append(request, milli(class.Request[name])*int64(class.Pods))
		}
		p.shapes = append(p.shapes, shape{slices.Index(p.classes, class.Name), len(p.queues) - 1, class, request})
	}
}

// shapeOf, queueOf and classOf tell what the item with that number is.
func (p *plan) shapeOf(number int) *shape        { return &p.shapes[p.items[number].shape] }
func (p *plan) queueOf(number int) *plannedQueue { return &p.queues[p.shapeOf(number).queue] }

// nominal is the nominal quota of all queues together.
func (p *plan) nominal() []int64 {
	sum := make([]int64, len(p.resources))
	for _, cohort := range p.cohorts {
		for at := range sum {
			sum[at] += cohort.nominal[at]
		}
	}
	return sum
}

// name is the name of the object with that number.
func (p *plan) name(number int) string {
	return fmt.Sprintf("%s-%06d", p.shapeOf(number).spec.Name, number)
}

// numberOf finds the number in a name that name made; -1 if it did not make it.
func (p *plan) numberOf(name string) int {
	number, digits := 0, 0
	for at := len(name) - 1; at >= 0 && name[at] != '-'; at-- {
		if name[at] < '0' || name[at] > '9' {
			return -1
		}
		digits++
	}
	if digits < 6 || digits > 9 {
		return -1
	}
	for _, digit := range name[len(name)-digits:] {
		number = number*10 + int(digit-'0')
	}
	if number >= len(p.items) || p.name(number) != name {
		return -1
	}
	return number
}
