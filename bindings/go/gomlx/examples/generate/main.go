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

// written gives the prompt and what follows it, the likeliest token each time, with the cache or by all that is there anew.
func written(backend compute.Backend, store *model.Store, prompt []int32, cached bool) ([][]int32, error) {
	scope := store.RootScope()
	network := transformer.New(scope).WithVocabSize(100).WithEmbedDim(heads * headSize).WithNumLayers(2).WithNumHeads(heads).
		WithHeadDim(headSize).WithFFNDim(128).WithMaxPosEmbed(longest).WithRoPE(10000)
	generator := generate.New(transformer.MakeNaiveModelFn(network))
	if cached {
		network.PopulateKVCacheConfigs()
		generator = generate.New(transformer.MakeKVCacheModelFn(network)).WithKVCache(network.KVCache, heads, headSize, dtypes.Float32)
	}
	made, err := generator.WithMaxLength(longest).Decode(backend, scope, [][]int32{prompt})
	if err != nil {
		return nil, err
	}
	return made.Value().([][]int32), nil
}

func main() {
	backend, err := gomlx.New("")
	if err != nil {
		log.Fatal(err)
	}
	tokens, err := written(backend, model.NewStore(), []int32{1, 2, 3, 4, 5}, true)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(tokens[0])
}
