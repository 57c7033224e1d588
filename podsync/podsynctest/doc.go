// Package podsynctest is the test kit of the SDK, for its own tests and for
// those of sites that build on it.
//
// For stages: a Recorder of what ran, stages that play a Script or Block, the
// smallest valid pods (Pod), and the contract that every stage owes (Stage).
//
// For backends: the contracts of Objects, Source, Cleaner and RuntimeView as
// suites, and fakes of them with a function field per method. The suites of the
// runtime, cgroups, network, volumes and status sinks are in critest,
// cgroupstest, cnitest, volumestest and statustest.
//
// For the whole: a Node, which is an agent on an in-memory runtime that can be
// restarted, and whose power can be cut at any call.
package podsynctest
