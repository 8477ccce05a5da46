// Kan fits exp(sin(pi x) + y) by a Kolmogorov-Arnold network of B-splines, whose edges are functions that are learned.
package main

import (
	"fmt"
	"iter"
	"log"
	"math"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/layers/kan"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/ml/train"
	"github.com/gomlx/gomlx/ml/train/loss"
	"github.com/gomlx/gomlx/ml/train/optimizer"
	"rlx.invalid/go/gomlx"
)

const points = 128

// drawn gives batches without end: the points are drawn in the graph.
type drawn struct{}

func (drawn) Name() string { return "points" }

func (d drawn) Iter() iter.Seq2[train.Batch, error] {
	return func(yield func(train.Batch, error) bool) {
		for yield(train.Batch{Spec: d, Inputs: []*tensors.Tensor{tensors.FromShape(shapes.Make(dtypes.Float32, points, 2))}}, nil) {
		}
	}
}

// network gives what is predicted, and what it should be.
func network(scope *model.Scope, _ any, inputs []*Node) []*Node {
	at := AddScalar(MulScalar(scope.RandomUniform(inputs[0].Graph(), inputs[0].Shape()), 2), -1)
	x, y := Slice(at, AxisRange(), AxisElem(0)), Slice(at, AxisRange(), AxisElem(1))
	wanted := Exp(Add(Sin(MulScalar(x, math.Pi)), y))
	return []*Node{kan.New(scope, at, 1).NumHiddenLayers(1, 2).NumControlPoints(30).BSpline().Done(), wanted}
}

// fitted is the mean squared error of the last step's points.
func fitted(backend compute.Backend, steps int) (float64, error) {
	store := model.NewStore()
	store.SetParam(model.ParamInitialSeed, int64(42))
	trainer := train.NewTrainer(backend, store, network, func(_, made []*Node) *Node {
		return loss.MeanSquaredError(made[1:], made[:1])
	}, optimizer.Adam().LearningRate(0.01).Done(), nil, nil)
	found, err := train.NewLoop(trainer).RunSteps(drawn{}, steps)
	if err != nil {
		return 0, err
	}
	return float64(found[1].Value().(float32)), nil
}

func main() {
	backend, err := gomlx.New("")
	if err != nil {
		log.Fatal(err)
	}
	left, err := fitted(backend, 3000)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("mean squared error %.4f\n", left)
}
