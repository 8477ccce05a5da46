package bench

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/dataset"
	"github.com/gomlx/gomlx/ml/layers"
	"github.com/gomlx/gomlx/ml/layers/activation"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/ml/train"
	"github.com/gomlx/gomlx/ml/train/loss"
	"github.com/gomlx/gomlx/ml/train/optimizer"
)

// The network of bindings/go/gomlx/examples/mnist, and one with convolutions.
func dense(scope *model.Scope, _ any, inputs []*Node) []*Node {
	hidden := activation.Relu(layers.DenseWithBias(scope.In("hidden"), inputs[0], 128))
	return []*Node{layers.DenseWithBias(scope.In("readout"), hidden, 10)}
}

func convolutional(scope *model.Scope, _ any, inputs []*Node) []*Node {
	x := Reshape(inputs[0], -1, 28, 28, 1)
	for i, channels := range []int{16, 32} {
		x = layers.Convolution(scope.In("conv%d", i), x).Channels(channels).KernelSize(3).PadSame().Done()
		x = MaxPool(activation.Relu(x)).Window(2).Done()
	}
	x = Reshape(x, x.Shape().Dimensions[0], -1)
	return []*Node{layers.DenseWithBias(scope.In("readout"), x, 10)}
}

// measureTraining prints how long a step takes, of batches of 128 made-up images of MNIST's size that the dataset gathers, by Adam.
func measureTraining(b *testing.B, made compute.Backend, network func(*model.Scope, any, []*Node) []*Node) {
	const count = 2048
	draw := rand.New(rand.NewPCG(1, 2))
	images, labels := make([]float32, count*28*28), make([]int32, count)
	for i := range images {
		images[i] = draw.Float32()
	}
	for i := range labels {
		labels[i] = int32(draw.IntN(10))
	}
	seen, err := dataset.InMemoryFromData(made, "images", []any{tensors.FromFlatDataAndDimensions(images, count, 28*28)},
		[]any{tensors.FromFlatDataAndDimensions(labels, count, 1)})
	if err != nil {
		b.Fatal(err)
	}
	trainer := train.NewTrainer(made, model.NewStore(), network, loss.SparseCategoricalCrossEntropyLogits,
		optimizer.Adam().LearningRate(0.001).Done(), nil, nil)
	steps := func(least time.Duration) (time.Duration, int) {
		done, start := 0, processorTime()
		for batch, err := range seen.BatchSize(128, true).Shuffle().Infinite(true).Iter() {
			if err != nil {
				b.Fatal(err)
			}
			if _, err := trainer.TrainStep(batch); err != nil {
				b.Fatal(err)
			}
			done++
			if spent := processorTime() - start; done >= 20 && spent >= least {
				return spent, done
			}
		}
		panic("an infinite dataset has ended")
	}
	steps(0)
	spent, done := steps(time.Second)
	fmt.Printf("\nprocessor ns: %.1f\n", float64(spent.Nanoseconds())/float64(done))
}

// measureCall runs what has nearly nothing to compute: what a run costs beyond its kernels. For a backend of shared buffers
// the result's memory is what the backend has at hand.
func measureCall(b *testing.B, made compute.Backend) {
	builder := made.Builder("call")
	f := builder.Main()
	shape := shapes.Make(dtypes.Float32, 1)
	x, err := f.Parameter("x", shape, nil)
	if err != nil {
		b.Fatal(err)
	}
	y := must(f.Neg(x))
	if err := f.Return([]compute.Value{y}, nil); err != nil {
		b.Fatal(err)
	}
	input := must(made.BufferFromFlatData(0, []float32{1}, shape))
	executable := must((timedBuilder{builder}).Compile())
	must(executable.Execute([]compute.Buffer{input}, nil, 0))
}
