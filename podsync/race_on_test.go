//go:build race

package podsync_test

// propertyChecks is how many histories TestAgentProperties tries: few with the
// race detector, which with many synctest bubbles in one process now and then
// crashes by itself (golang/go#78156).
const propertyChecks = 20
