// Mnist trains a network of two layers on images of digits, in the files that MNIST comes as (idx, perhaps .gz):
//
//	go run ./mnist train-images-idx3-ubyte.gz train-labels-idx1-ubyte.gz t10k-images-idx3-ubyte.gz t10k-labels-idx1-ubyte.gz
package main

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"io"
	"log"
	"os"

	"github.com/gomlx/compute"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/dataset"
	"github.com/gomlx/gomlx/ml/layers"
	"github.com/gomlx/gomlx/ml/layers/activation"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/ml/train"
	"github.com/gomlx/gomlx/ml/train/loss"
	"github.com/gomlx/gomlx/ml/train/metric"
	"github.com/gomlx/gomlx/ml/train/optimizer"
	"rlx.invalid/go/gomlx"
)

// bytesOf reads an idx file of bytes: two zeros, 8 for bytes, how many dims there are, and each as 4 bytes.
func bytesOf(path string) (dims []int, content []byte, err error) {
	given, err := os.ReadFile(path)
	if err != nil {
		return nil, nil, err
	}
	if bytes.HasPrefix(given, []byte{0x1f, 0x8b}) {
		unpacked, err := gzip.NewReader(bytes.NewReader(given))
		if err != nil {
			return nil, nil, err
		}
		if given, err = io.ReadAll(unpacked); err != nil {
			return nil, nil, err
		}
	}
	size := 1
	if len(given) < 4 || given[2] != 8 || len(given) < 4+4*int(given[3]) {
		return nil, nil, fmt.Errorf("'%s' is no idx file of bytes", path)
	}
	for i := range int(given[3]) {
		dims = append(dims, int(binary.BigEndian.Uint32(given[4+4*i:])))
		size *= dims[i]
	}
	content = given[4+4*len(dims):]
	if len(content) != size {
		return nil, nil, fmt.Errorf("'%s' has %d bytes, its dims are %v", path, len(content), dims)
	}
	return dims, content, nil
}

// digits reads images as floats from 0 to 1, and their labels.
func digits(backend compute.Backend, name, imagesPath, labelsPath string) (*dataset.InMemoryDataset, error) {
	dims, pixels, err := bytesOf(imagesPath)
	if err != nil {
		return nil, err
	}
	_, digits, err := bytesOf(labelsPath)
	if err != nil {
		return nil, err
	}
	if len(dims) != 3 || dims[0] != len(digits) {
		return nil, fmt.Errorf("images of dims %v and %d labels do not go together", dims, len(digits))
	}
	images, labels := make([]float32, len(pixels)), make([]int32, len(digits))
	for i, each := range pixels {
		images[i] = float32(each) / 255
	}
	for i, each := range digits {
		labels[i] = int32(each)
	}
	return dataset.InMemoryFromData(backend, name, []any{tensors.FromFlatDataAndDimensions(images, len(digits), dims[1]*dims[2])},
		[]any{tensors.FromFlatDataAndDimensions(labels, len(digits), 1)})
}

func network(scope *model.Scope, _ any, inputs []*Node) []*Node {
	hidden := activation.Relu(layers.DenseWithBias(scope.In("hidden"), inputs[0], 128))
	return []*Node{layers.DenseWithBias(scope.In("readout"), hidden, 10)}
}

// accuracy trains for some steps, and gives the part of the digits held out that are told.
func accuracy(backend compute.Backend, paths []string, steps int) (float64, error) {
	seen, err := digits(backend, "train", paths[0], paths[1])
	if err != nil {
		return 0, err
	}
	heldOut, err := digits(backend, "held out", paths[2], paths[3])
	if err != nil {
		return 0, err
	}
	trainer := train.NewTrainer(backend, model.NewStore(), network, loss.SparseCategoricalCrossEntropyLogits,
		optimizer.Adam().LearningRate(0.001).Done(), nil, []metric.Interface{metric.NewSparseCategoricalAccuracy("accuracy", "acc")})
	if _, err := train.NewLoop(trainer).RunSteps(seen.BatchSize(128, true).Shuffle().Infinite(true), steps); err != nil {
		return 0, err
	}
	found, err := trainer.Eval(heldOut.BatchSize(100, false))
	if err != nil {
		return 0, err
	}
	return float64(found[len(found)-1].Value().(float32)), nil
}

func main() {
	if len(os.Args) != 5 {
		log.Fatal("usage: mnist IMAGES LABELS HELD_OUT_IMAGES HELD_OUT_LABELS")
	}
	backend, err := gomlx.New("")
	if err != nil {
		log.Fatal(err)
	}
	told, err := accuracy(backend, os.Args[1:], 2000)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%.2f %% of the digits held out are told\n", 100*told)
}
