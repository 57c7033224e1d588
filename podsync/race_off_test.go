//go:build !race

package podsync_test

// propertyChecks is how many histories TestAgentProperties tries.
const propertyChecks = 1 << 30
