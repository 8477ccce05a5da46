// Generate draws tokens from a transformer of GoMLX whose keys and values are kept from token to token. Its weights are drawn
// by chance; a checkpoint's would be loaded into the store.
package main

import (
	"fmt"
	"log"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/ml/zoo/transformer"
	"github.com/gomlx/gomlx/ml/zoo/transformer/generate"
	"rlx.invalid/go/gomlx"
)

const heads, headSize, longest = 4, 16, 48

// network is one of two layers, with rotary embeddings.
func network(scope *model.Scope) *transformer.Model {
	return transformer.New(scope).WithVocabSize(100).WithEmbedDim(heads * headSize).WithNumLayers(2).WithNumHeads(heads).
		WithHeadDim(headSize).WithFFNDim(128).WithMaxPosEmbed(longest).WithRoPE(10000)
}

// written gives the prompt and what follows it, the likeliest token each time.
func written(backend compute.Backend, store *model.Store, prompt []int32) ([]int32, error) {
	scope := store.RootScope()
	m := network(scope)
	m.PopulateKVCacheConfigs()
	generator := generate.New(transformer.MakeKVCacheModelFn(m)).WithKVCache(m.KVCache, heads, headSize, dtypes.Float32)
	made, err := generator.WithMaxLength(longest).Decode(backend, scope, [][]int32{prompt})
	if err != nil {
		return nil, err
	}
	return made.Value().([][]int32)[0], nil
}

func main() {
	backend, err := gomlx.New("")
	if err != nil {
		log.Fatal(err)
	}
	tokens, err := written(backend, model.NewStore(), []int32{1, 2, 3, 4, 5})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(tokens)
}
