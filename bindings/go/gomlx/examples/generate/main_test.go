package main

import (
	"os"
	"slices"
	"testing"

	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/ml/zoo/transformer"
	"rlx.invalid/go/gomlx"
)

func TestTokensWithTheCacheAreThoseOfTheWholeTextAtOnce(t *testing.T) {
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
	tokens, err := written(backend, store, prompt)
	if err != nil {
		t.Fatal(err)
	}
	if len(tokens) != longest || !slices.Equal(tokens[:len(prompt)], prompt) {
		t.Fatalf("%v", tokens)
	}
	whole, err := model.NewExec(backend, store, func(scope *model.Scope, tokens *Node) *Node {
		return ArgMax(network(scope).Logits(tokens, transformer.CallOptions{}), -1, dtypes.Int32)
	})
	if err != nil {
		t.Fatal(err)
	}
	made, err := whole.Call([][]int32{tokens})
	if err != nil {
		t.Fatal(err)
	}
	at := len(prompt)
	if next := made[0].Value().([][]int32)[0]; !slices.Equal(next[at-1:longest-1], tokens[at:]) {
		t.Errorf("with the cache %v, without %v", tokens[at:], next[at-1:])
	}
}
