package load

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

const (
	kueueVersion = "kueue.x-k8s.io/v1beta2"
	flavorName   = "load"
	topologyName = "load"
	image        = "registry.example/work"
)

type object = map[string]any

func manifest(version, kind, namespace, name string, spec object) *unstructured.Unstructured {
	metadata := object{"name": name}
	if namespace != "" {
		metadata["namespace"] = namespace
	}
	return &unstructured.Unstructured{Object: object{
		"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec}}
}

// nodes are ready at once; nobody looks after them.
func (r *Racks) nodes() []*unstructured.Unstructured {
	all := []*unstructured.Unstructured{}
	allocatable := object{"pods": "110"}
	for name, quantity := range r.Allocatable {
		allocatable[name] = quantity.String()
	}
	for i := range r.Count {
		for j := range r.Hosts {
			name := fmt.Sprintf("rack-%03d-host-%03d", i, j)
			node := manifest("v1", "Node", "", name, object{})
			node.SetLabels(map[string]string{labelPool: "racks", labelBlock: "block-0",
				labelRack: fmt.Sprintf("rack-%03d", i), "kubernetes.io/hostname": name})
			node.Object["status"] = object{"allocatable": allocatable, "capacity": allocatable,
				"conditions": []any{object{"type": "Ready", "status": "True", "reason": "KubeletReady",
					"lastHeartbeatTime": "2026-01-01T00:00:00Z", "lastTransitionTime": "2026-01-01T00:00:00Z"}}}
			all = append(all, node)
		}
	}
	return all
}

// surroundings are the objects that exist before the clock starts, in the order to create them.
func (p *plan) surroundings() []*unstructured.Unstructured {
	all := []*unstructured.Unstructured{}
	flavor := object{}
	if levels := p.scenario.TopologyLevels; len(levels) > 0 {
		list := []any{}
		for _, label := range levels {
			list = append(list, object{"nodeLabel": label})
		}
		all = append(all, manifest(kueueVersion, "Topology", "", topologyName, object{"levels": list}))
		flavor["topologyName"] = topologyName
		flavor["nodeLabels"] = object{labelPool: "racks"}
		all = append(all, p.scenario.Racks.nodes()...)
	}
	all = append(all, manifest(kueueVersion, "ResourceFlavor", "", flavorName, flavor))
	namespaces := map[string]bool{}
	for _, cohort := range p.cohorts {
		if cohort.parent != "" {
			all = append(all, manifest(kueueVersion, "Cohort", "", cohort.name, object{"parentName": cohort.parent}))
		}
	}
	for i := range p.queues {
		queue := &p.queues[i]
		if !namespaces[queue.namespace] {
			namespaces[queue.namespace] = true
			all = append(all, manifest("v1", "Namespace", "", queue.namespace, object{}))
		}
		all = append(all, p.clusterQueue(queue), manifest(kueueVersion, "LocalQueue", queue.namespace, queue.name,
			object{"clusterQueue": queue.name}))
	}
	return all
}

func (p *plan) clusterQueue(queue *plannedQueue) *unstructured.Unstructured {
	covered, quotas := []any{}, []any{}
	for _, name := range p.resources {
		nominal, found := queue.spec.NominalQuota[name]
		if !found {
			continue
		}
		quota := object{"name": name, "nominalQuota": nominal.String()}
		if limit, found := queue.spec.BorrowingLimit[name]; found {
			quota["borrowingLimit"] = limit.String()
		}
		if limit, found := queue.spec.LendingLimit[name]; found {
			quota["lendingLimit"] = limit.String()
		}
		covered, quotas = append(covered, name), append(quotas, quota)
	}
	spec := object{
		"namespaceSelector": object{},
		"resourceGroups": []any{object{"coveredResources": covered, "flavors": []any{
			object{"name": flavorName, "resources": quotas}}}},
	}
	for field, value := range map[string]object{"preemption": queue.spec.Preemption,
		"fairSharing": queue.spec.FairSharing, "flavorFungibility": queue.spec.FlavorFungibility} {
		if len(value) > 0 {
			spec[field] = value
		}
	}
	for field, value := range map[string]string{"cohortName": p.cohorts[queue.cohort].name,
		"queueingStrategy": queue.spec.QueueingStrategy} {
		if value != "" {
			spec[field] = value
		}
	}
	if p.scenario.Hold {
		spec["stopPolicy"] = "Hold"
	}
	return manifest(kueueVersion, "ClusterQueue", "", queue.name, spec)
}

// namePlace stands in a body for the name, which is put in when the object is sent.
const namePlace = "@name@"

// bodies are the objects to create, one for each shape, cut where the name belongs.
func (p *plan) bodies() ([][2][]byte, error) {
	if p.scenario.Kind == KindJob {
		return p.bodiesOf(p.job)
	}
	return p.bodiesOf(p.workload)
}

func (p *plan) bodiesOf(manifest func(shape *shape) *unstructured.Unstructured) ([][2][]byte, error) {
	all := [][2][]byte{}
	for number := range p.shapes {
		text, err := json.Marshal(manifest(&p.shapes[number]).Object)
		if err != nil {
			return nil, err
		}
		before, after, found := strings.Cut(string(text), namePlace)
		if !found {
			return nil, fmt.Errorf("no place for the name in %s", text)
		}
		all = append(all, [2][]byte{[]byte(before), []byte(after)})
	}
	return all, nil
}

// filledIn is a body with the name in its place, and the uid of its owner if it has one.
func filledIn(body [2][]byte, name, owner string) []byte {
	text := make([]byte, 0, len(body[0])+len(name)+len(body[1])+len(owner))
	text = append(append(append(text, body[0]...), name...), body[1]...)
	if owner != "" {
		text = bytes.ReplaceAll(text, []byte(ownerPlace), []byte(owner))
		text = bytes.ReplaceAll(text, []byte(namePlace), []byte(name))
	}
	return text
}

func podSpec(class *Class) object {
	requests := object{}
	for name, quantity := range class.Request {
		requests[name] = quantity.String()
	}
	return object{"restartPolicy": "Never", "containers": []any{
		object{"name": "main", "image": image, "resources": object{"requests": requests}}}}
}

func (p *plan) workload(shape *shape) *unstructured.Unstructured {
	queue, class := &p.queues[shape.queue], shape.spec
	podSet := object{"name": "main", "count": class.Pods, "template": object{"spec": podSpec(class)}}
	if len(class.Topology) > 0 {
		podSet["topologyRequest"] = class.Topology
	}
	return manifest(kueueVersion, "Workload", queue.namespace, namePlace, object{
		"queueName": queue.name, "priority": class.Priority, "podSets": []any{podSet}})
}

// workloadOfJob is the Workload of a Job; name and uid of the Job are put in when it is sent.
func (p *plan) workloadOfJob(shape *shape) *unstructured.Unstructured {
	workload := p.workload(shape)
	workload.Object["metadata"].(object)["ownerReferences"] = []any{object{"apiVersion": "batch/v1",
		"kind": "Job", "name": namePlace, "uid": ownerPlace, "controller": true}}
	return workload
}

func (p *plan) job(shape *shape) *unstructured.Unstructured {
	queue, class := &p.queues[shape.queue], shape.spec
	seconds := strconv.FormatFloat(class.RunTime.Seconds(), 'f', -1, 64)
	job := manifest("batch/v1", "Job", queue.namespace, namePlace, object{
		"parallelism": class.Pods, "completions": class.Pods,
		"template": object{"spec": podSpec(class), "metadata": object{
			"annotations": object{"sluice.dev/run-seconds": seconds}}}})
	labels := map[string]string{"kueue.x-k8s.io/queue-name": queue.name}
	if class.Priority != 0 {
		labels["kueue.x-k8s.io/priority-class"] = priorityClass(class.Priority)
	}
	job.SetLabels(labels)
	return job
}

// priorityClass is the name of the WorkloadPriorityClass of that value.
func priorityClass(value int32) string {
	return strings.ReplaceAll(fmt.Sprintf("load-%d", value), "--", "-minus-")
}

// priorityClasses are the WorkloadPriorityClasses that Jobs need; Workloads carry the number.
func (p *plan) priorityClasses() []*unstructured.Unstructured {
	all, have := []*unstructured.Unstructured{}, map[int32]bool{0: true}
	for _, shape := range p.shapes {
		value := shape.spec.Priority
		if p.scenario.Kind != KindJob || have[value] {
			continue
		}
		have[value] = true
		class := manifest(kueueVersion, "WorkloadPriorityClass", "", priorityClass(value), nil)
		delete(class.Object, "spec")
		class.Object["value"] = int64(value)
		all = append(all, class)
	}
	return all
}

// ---- writes to the status of a Workload ------------------------------------------------------

type condition struct {
	Type               string `json:"type"`
	Status             string `json:"status"`
	Reason             string `json:"reason"`
	Message            string `json:"message"`
	LastTransitionTime string `json:"lastTransitionTime"`
	ObservedGeneration int64  `json:"observedGeneration,omitempty"`
}

type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

func timestamp(now time.Time) string { return now.UTC().Format(time.RFC3339) }

// finishPatch adds the condition Finished at the end of the conditions, without reading them.
func finishPatch(now time.Time) []byte {
	return encode([]operation{{"add", "/status/conditions/-", condition{
		"Finished", "True", "Succeeded", "Job finished successfully", timestamp(now), 1}}})
}

// releasePatch is the second phase of an eviction, as the owner of the pods writes it when they are
// gone: the quota is given back and the Workload is ready to be queued again. The conditions are
// those last seen; if they have moved in the meantime, the server refuses the whole patch.
func releasePatch(seen []condition, now time.Time) []byte {
	evicted := condition{}
	for _, one := range seen {
		if one.Type == "Evicted" {
			evicted = one
		}
	}
	requeued := "False"
	if evicted.Reason == "Preempted" || evicted.Reason == "NodeFailures" {
		requeued = "True"
	}
	operations := []operation{{Op: "remove", Path: "/status/admission"}}
	for _, wanted := range []condition{
		{"Requeued", requeued, evicted.Reason, evicted.Message, timestamp(now), 1},
		{"QuotaReserved", "False", "PendingEvaluation", evicted.Message, timestamp(now), 1},
		{"Admitted", "False", "NoReservation", "The workload has no reservation", timestamp(now), 1},
	} {
		at := -1
		for i, one := range seen {
			if one.Type == wanted.Type {
				at = i
			}
		}
		switch {
		case at >= 0:
			path := "/status/conditions/" + strconv.Itoa(at)
			if seen[at].Status == wanted.Status {
				wanted.LastTransitionTime = seen[at].LastTransitionTime
			}
			operations = append(operations,
				operation{"test", path + "/type", wanted.Type}, operation{"replace", path, wanted})
		case wanted.Type != "Admitted": // a Workload that never was admitted has no such condition
			operations = append(operations, operation{"add", "/status/conditions/-", wanted})
		}
	}
	return encode(operations)
}

// admitPatch is the one write that admits a Workload (a JSON merge patch): what a controller writes,
// and no more.
func (p *plan) admitPatch(shape *shape, now time.Time) []byte {
	queue := &p.queues[shape.queue]
	flavors, usage := object{}, object{}
	for name, quantity := range shape.spec.Request {
		flavors[name] = flavorName
		total := quantity.DeepCopy()
		total.Mul(int64(shape.spec.Pods))
		usage[name] = total.String()
	}
	message := "Quota reserved in ClusterQueue " + queue.name
	return encode(object{"status": object{
		"admission": object{"clusterQueue": queue.name, "podSetAssignments": []any{object{
			"name": "main", "count": shape.spec.Pods, "flavors": flavors, "resourceUsage": usage}}},
		"conditions": []condition{
			{"QuotaReserved", "True", "QuotaReserved", message, timestamp(now), 1},
			{"Admitted", "True", "Admitted", "The workload is admitted", timestamp(now), 1},
		}}})
}

func encode(value any) []byte {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err) // maps and texts can always be encoded
	}
	return text
}
