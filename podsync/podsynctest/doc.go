// Package podsynctest is the test kit of the SDK, for its own tests and for
// those of sites that build on it: a Recorder of what ran, stages that play a
// Script or Block, the smallest valid pods, the contract that every stage owes
// (Stage), and a whole agent on an in-memory runtime (Node).
package podsynctest
