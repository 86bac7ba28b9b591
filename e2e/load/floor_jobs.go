package load

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// The least that can be written for a Job that must wait for quota: its Workload, the status with
// the admission, the Job's suspend, and the end of the Workload, without which its quota would be
// held for ever by who reads only Workloads.

// ownerPlace stands in the body of a Job's Workload for the uid of the Job.
const ownerPlace = "@uid@"

// absorbJob takes a Job as it is now and writes what follows from it.
func (a *admitter) absorbJob(ctx context.Context, number int, job *watched) {
	switch {
	case job.is("Complete"):
		if admitted, news := a.decide(number, true); news {
			go a.finish(ctx, number)
			a.writeAll(ctx, admitted)
		}
	case a.begin(number):
		go a.create(ctx, number, job.Metadata.UID)
	}
}

// begin tells whether this is the first sight of a Job.
func (a *admitter) begin(number int) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.known[number] != floorUnknown {
		return false
	}
	a.known[number] = floorCreating
	return true
}

func (a *admitter) create(ctx context.Context, number int, owner string) {
	body, name := a.bodies[a.plan.items[number].shape], a.plan.name(number)
	path := a.plan.workloadPath(a.plan.queueOf(number).namespace)
	if err := a.client.create(ctx, path, filledIn(body, name, owner)); err != nil {
		a.tell(ctx, number, err)
		return
	}
	admitted, _ := a.decide(number, false)
	a.writeAll(ctx, admitted)
}

func (a *admitter) unsuspend(ctx context.Context, number int) error {
	path := a.plan.path(a.plan.queueOf(number).namespace) + "/" + a.plan.name(number)
	_, err := a.client.patch(ctx, types.MergePatchType, path, []byte(`{"spec":{"suspend":false}}`))
	return err
}

func (a *admitter) finish(ctx context.Context, number int) {
	path := a.plan.workloadPath(a.plan.queueOf(number).namespace) + "/" + a.plan.name(number) + "/status"
	_, err := a.client.patch(ctx, types.JSONPatchType, path, finishPatch(time.Now()))
	a.tell(ctx, number, err)
}
