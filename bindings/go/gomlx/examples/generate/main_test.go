package main

import (
	"os"
	"slices"
	"testing"

	"github.com/gomlx/gomlx/ml/model"
	"rlx.invalid/go/gomlx"
)

func TestTokensWithACacheAreThoseWithout(t *testing.T) {
	if os.Getenv("RLX_LIBRARY") == "" {
		t.Skip("RLX_LIBRARY does not name the library to test")
	}
	backend, err := gomlx.New("")
	if err != nil {
		t.Fatal(err)
	}
	defer backend.Finalize()
	store := model.NewStore()
	store.SetParam(model.ParamInitialSeed, int64(7))
	prompt := []int32{1, 2, 3, 4, 5}
	with, err := written(backend, store, prompt, true)
	if err != nil {
		t.Fatal(err)
	}
	without, err := written(backend, store, prompt, false)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(with[0], without[0]) || len(with[0]) != longest || !slices.Equal(with[0][:len(prompt)], prompt) {
		t.Errorf("with a cache %v, without %v", with[0], without[0])
	}
}
