// Package guard holds the tests about the repository itself: which package may
// import which, how much the core pulls in, that every package is documented and
// has an example, that library code keeps no state of its own, and that the pages
// say what the code does. It has no code.
package guard
