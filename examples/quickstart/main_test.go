package main

func Example() {
	main()
	// Output:
	// web Running 10.88.0.2 <nil>
	// agent stopped: <nil>
}
