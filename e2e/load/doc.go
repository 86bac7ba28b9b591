// Package load puts a described load on a real API server and measures what the controller, the API
// server and etcd make of it.
//
// A scenario (see Scenario, and the files in scenarios/) says which queues there are and which work
// comes into them. Run creates Workloads directly, without Jobs, and plays the part that a Job's
// controller would have: it marks a Workload finished when its run time has passed since Admitted,
// and gives the quota back after an eviction. Scenarios with real Jobs leave that to the Job
// controller, kube-scheduler and fake nodes.
//
// The generator shares the processors with what it measures, so it is kept lean: everything to be
// created is laid out before the clock starts, there is one watch, nothing is polled, requests are
// bytes that are sent as they are, and of an answer only what is needed is read.
//
// With Floor the controller stands by and a few lines in this package admit each Workload with one
// status write: no controller that stores its decisions in the API server can do with fewer writes.
// For a Job they create the Workload, let the Job go and end the Workload as well.
package load
