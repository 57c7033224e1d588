// Package e2e holds the end-to-end tests: the example agent, as a process of its
// own, on a private containerd.
//
// They need root, Linux and the programs of `make runtime`, and say so when they
// are skipped. Nothing of the machine's own is touched and nothing is left: what
// a test leaves fails it, and what all of them leave fails the package.
package e2e
