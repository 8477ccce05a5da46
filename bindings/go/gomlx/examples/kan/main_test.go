package main

import (
	"os"
	"testing"

	"rlx.invalid/go/gomlx"
)

func TestTheFunctionIsLearned(t *testing.T) {
	if os.Getenv("RLX_LIBRARY") == "" {
		t.Skip("RLX_LIBRARY does not name the library to test")
	}
	backend, err := gomlx.New("")
	if err != nil {
		t.Fatal(err)
	}
	defer backend.Finalize()
	left, err := fitted(backend, 1500)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("mean squared error %.4f", left)
	if !(left < 0.2) { // the variance of the function is 2.5
		t.Errorf("a mean squared error of %g", left)
	}
}
