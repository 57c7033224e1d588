//go:build race

package e2e_test

// raceEnabled makes the agent be built as the tests are.
const raceEnabled = true
