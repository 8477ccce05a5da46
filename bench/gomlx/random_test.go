package bench

import (
	"encoding/json"
	"math"
	"os"
	"reflect"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
)

// draw is what a state draws, and the state that is next.
type draw struct {
	State [3]uint64
	DType string
	Count int
	Next  []uint64
	Bits  []uint64
}

// TestBitsOfXLA writes what XLA's plugin draws (PJRT_PLUGIN=... RLX_UPDATE=1 go test -run BitsOfXLA), for the tests of
// bindings/go/gomlx, which have no plugin.
func TestBitsOfXLA(t *testing.T) {
	if os.Getenv("PJRT_PLUGIN") == "" || os.Getenv("RLX_UPDATE") == "" {
		t.Skip("PJRT_PLUGIN and RLX_UPDATE do not say that XLA's bits are to be written")
	}
	made, err := opened("xla")
	if err != nil {
		t.Fatal(err)
	}
	made = untouched(made)
	var all []draw
	for _, state := range [][3]uint64{{1, 2, 3}, {0x0123456789abcdef, 0xfedcba9876543210, 0x8000000000000001},
		{math.MaxUint64, math.MaxUint64 - 1, 5}, {7, math.MaxUint64 - 2, math.MaxUint64}, {0, 0xfffffffe, 0}} {
		for _, each := range []struct {
			dtype dtypes.DType
			count int
		}{{dtypes.Uint8, 5}, {dtypes.Uint16, 9}, {dtypes.Uint32, 1}, {dtypes.Uint32, 37}, {dtypes.Uint64, 11}} {
			builder := made.Builder("bits")
			f := builder.Main()
			x := must(f.Parameter("state", compute.RNGStateShape, nil))
			next, bits, err := f.RNGBitGenerator(x, shapes.Make(each.dtype, each.count))
			if err != nil {
				t.Fatal(err)
			}
			if err := f.Return([]compute.Value{next, bits}, nil); err != nil {
				t.Fatal(err)
			}
			executable := must(builder.Compile())
			input := must(made.BufferFromFlatData(0, state[:], compute.RNGStateShape))
			results := must(executable.Execute([]compute.Buffer{input}, nil, 0))
			d := draw{State: state, DType: each.dtype.String(), Count: each.count, Next: make([]uint64, 3)}
			if err := results[0].ToFlatData(d.Next); err != nil {
				t.Fatal(err)
			}
			flat := reflect.MakeSlice(reflect.SliceOf(each.dtype.GoType()), each.count, each.count)
			if err := results[1].ToFlatData(flat.Interface()); err != nil {
				t.Fatal(err)
			}
			for i := range each.count {
				d.Bits = append(d.Bits, flat.Index(i).Uint())
			}
			all = append(all, d)
		}
	}
	text := "[\n"
	for i, each := range all {
		line, _ := json.Marshal(each)
		text += string(line)
		if i+1 < len(all) {
			text += ","
		}
		text += "\n"
	}
	if err := os.WriteFile("../../bindings/go/gomlx/testdata/random.json", []byte(text+"]\n"), 0o644); err != nil {
		t.Fatal(err)
	}
}
