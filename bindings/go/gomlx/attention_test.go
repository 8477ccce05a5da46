package gomlx

import (
	"encoding/json"
	"math"
	"os"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/pkg/errors"
)

// attentionCases are NumPy's: testdata/attention.py wrote them, all as [batch, heads, positions, size].
type attentionCases struct {
	Given    map[string][]float32   `json:"given"`
	Expected map[string][][]float64 `json:"expected"`
}

// permuted swaps the two middle axes.
func permuted(flat []float32, a, b, c, d int) []float32 {
	out := make([]float32, len(flat))
	for i := range a {
		for j := range b {
			for k := range c {
				copy(out[((i*c+k)*b+j)*d:][:d], flat[((i*b+j)*c+k)*d:][:d])
			}
		}
	}
	return out
}

func TestAttentionAndItsCotangentsAreNumPys(t *testing.T) {
	const batch, heads, kvHeads, queries, size = 2, 4, 2, 4, 3
	text, err := os.ReadFile("testdata/attention.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases attentionCases
	if err := json.Unmarshal(text, &cases); err != nil {
		t.Fatal(err)
	}
	b := backend(t, "")
	for name, expected := range cases.Expected {
		for _, layout := range []compute.AttentionAxesLayout{compute.AttentionAxesLayoutBHSD, compute.AttentionAxesLayoutBSHD} {
			t.Run(name+" "+layout.String(), func(t *testing.T) {
				builder := b.Builder(t.Name())
				f := builder.Main()
				var params []compute.Value
				var buffers []compute.Buffer
				give := func(flat any, shape shapes.Shape) compute.Value {
					p, err := f.Parameter(string(rune('a'+len(params))), shape, nil)
					if err != nil {
						t.Fatal(err)
					}
					u, err := b.BufferFromFlatData(0, flat, shape)
					if err != nil {
						t.Fatal(err)
					}
					params, buffers = append(params, p), append(buffers, u)
					return p
				}
				arranged := func(flat []float32, n int) ([]float32, shapes.Shape) {
					if layout == compute.AttentionAxesLayoutBHSD {
						return flat, shapes.Make(dtypes.Float32, batch, n, queries, size)
					}
					return permuted(flat, batch, n, queries, size), shapes.Make(dtypes.Float32, batch, queries, n, size)
				}
				for _, each := range []struct {
					name  string
					heads int
				}{{"q", heads}, {"k", kvHeads}, {"v", kvHeads}, {"ct", heads}} {
					flat, shape := arranged(cases.Given[each.name], each.heads)
					give(flat, shape)
				}
				config := &compute.ScaledDotProductAttentionConfig{Causal: name == "causal"}
				switch name {
				case "bias":
					bias, err := f.Constant(cases.Given["bias"], heads, queries, queries)
					if err != nil {
						t.Fatal(err)
					}
					config.Bias = bias
				case "lengths":
					config.QuerySeqLen = give([]int32{3, 2}, shapes.Make(dtypes.Int32, batch))
					config.KeyValueSeqLen = give([]int32{2, 4}, shapes.Make(dtypes.Int32, batch))
				}
				output, states, err := f.FusedScaledDotProductAttention(params[0], params[1], params[2], layout, config)
				if err != nil {
					t.Fatal(err)
				}
				dq, dk, dv, err := f.FusedScaledDotProductAttentionVJP(params[0], params[1], params[2], layout, config, output, states, params[3])
				if err != nil {
					t.Fatal(err)
				}
				if err := f.Return([]compute.Value{output, dq, dk, dv}, nil); err != nil {
					t.Fatal(err)
				}
				e, err := builder.Compile()
				if err != nil {
					t.Fatal(err)
				}
				results, err := e.Execute(buffers, nil, 0)
				if err != nil {
					t.Fatal(err)
				}
				for i, each := range results {
					flat, err := each.Data()
					if err != nil {
						t.Fatal(err)
					}
					got, n := flat.([]float32), []int{heads, heads, kvHeads, kvHeads}[i]
					if layout == compute.AttentionAxesLayoutBSHD {
						got = permuted(got, batch, queries, n, size)
					}
					for k, want := range expected[i] {
						if !(math.Abs(float64(got[k])-want) <= 1e-5) {
							t.Fatalf("element %d of result %d is %v, NumPy has %v", k, i, got[k], want)
						}
					}
				}
			})
		}
	}
}

func TestMasksThatMayBeReadInTwoWaysAndBiasesThatAreTrainedAreComposed(t *testing.T) {
	f := backend(t, "").Builder("masks").Main()
	parameter := func(name string, dtype dtypes.DType, dims ...int) compute.Value {
		p, err := f.Parameter(name, shapes.Make(dtype, dims...), nil)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	q := parameter("q", dtypes.Float32, 2, 4, 4, 3)
	rows := parameter("rows", dtypes.Bool, 1, 4, 1, 4) // of queries for GoMLX's layers, of heads for the op
	batches := parameter("batches", dtypes.Bool, 2, 4, 4)
	keys := parameter("keys", dtypes.Bool, 2, 1, 1, 4)
	trained := parameter("bias", dtypes.Float32, 4, 4, 4)
	doubled, err := f.Add(trained, trained)
	if err != nil {
		t.Fatal(err)
	}
	for _, each := range []struct {
		name     string
		layout   compute.AttentionAxesLayout
		config   compute.ScaledDotProductAttentionConfig
		composed bool
	}{
		{"rows BSHD", compute.AttentionAxesLayoutBSHD, compute.ScaledDotProductAttentionConfig{Mask: rows}, true},
		{"rows BHSD", compute.AttentionAxesLayoutBHSD, compute.ScaledDotProductAttentionConfig{Mask: rows}, false},
		{"batches", compute.AttentionAxesLayoutBHSD, compute.ScaledDotProductAttentionConfig{Mask: batches}, true},
		{"keys BSHD", compute.AttentionAxesLayoutBSHD, compute.ScaledDotProductAttentionConfig{Mask: keys}, false},
		{"trained", compute.AttentionAxesLayoutBHSD, compute.ScaledDotProductAttentionConfig{Bias: trained}, true},
		{"of a trained one", compute.AttentionAxesLayoutBHSD, compute.ScaledDotProductAttentionConfig{Bias: doubled}, true},
	} {
		_, _, err := f.FusedScaledDotProductAttention(q, q, q, each.layout, &each.config)
		if errors.Is(err, compute.ErrNotImplemented) != each.composed || err != nil && !each.composed {
			t.Errorf("%s: got %v", each.name, err)
		}
	}
}
