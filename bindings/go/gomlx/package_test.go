package gomlx

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	rlx "rlx.invalid/go"
)

func TestComputationsAreSavedAsPackagesWithTheirWeightsBeside(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "packages")
	b := backend(t, "cpu,save="+folder)
	const rows, columns = 64, 32
	weights := make([]float32, rows*columns)
	for i := range weights {
		weights[i] = float32(i%7) - 3
	}
	for _, name := range []string{"dense: layer", "dense: layer", "dense: layer_1"} { // none is written over another
		builder := b.Builder(name)
		f := builder.Main()
		x, err := f.Parameter("x/0", shapes.Make(dtypes.Float32, 1, rows), nil)
		if err != nil {
			t.Fatal(err)
		}
		w, err := f.Constant(weights, rows, columns)
		if err != nil {
			t.Fatal(err)
		}
		y, err := f.DotGeneral(x, []int{1}, nil, w, []int{0}, nil, compute.DotGeneralConfig{})
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Return([]compute.Value{y}, nil); err != nil {
			t.Fatal(err)
		}
		if _, err := builder.Compile(); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"dense__layer", "dense__layer_1", "dense__layer_1_1"} {
		path := filepath.Join(folder, name+".mlpackage")
		blob, err := os.Stat(filepath.Join(path, "Data", "com.apple.CoreML", "weights", "weight.bin"))
		if err != nil || blob.Size() < 4*rows*columns {
			t.Fatalf("the weights are not in the blob file: %v", err)
		}
		model, err := b.lib.LoadCoreML(path, rlx.CoreMLOptions{})
		if err != nil {
			t.Fatal(err)
		}
		ones := make([]float32, rows)
		for i := range ones {
			ones[i] = 1
		}
		x, err := rlx.NewTensor(b.lib, []int{1, rows}, ones)
		if err != nil {
			t.Fatal(err)
		}
		results, err := model.Predict(map[string]*rlx.Tensor{"x_0": x}, nil)
		if err != nil {
			t.Fatal(err)
		}
		got, err := rlx.Data[float32](results["o0"])
		if err != nil {
			t.Fatal(err)
		}
		for column := range columns {
			var want float32
			for row := range rows {
				want += weights[row*columns+column]
			}
			if got[column] != want {
				t.Errorf("column %d is %v, want %v", column, got[column], want)
			}
		}
	}
}
