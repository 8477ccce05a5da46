// All 64 bits of the numbers of a random state count. If the backend narrows 64-bit integers to 32 bits, a state is carried as
// 32-bit words from the parameter, through each draw, to the result: of each number the low word, then the high one. Random bits
// that are drawn as u64 are carried as words too, until an op needs them as numbers.

package gomlx

import (
	"bytes"
	"strconv"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
)

var wordsShape = shapes.Make(dtypes.Uint32, 2*compute.RNGStateShape.Size())

func (b *Builder) carriesWords() bool { return b.backend.options.narrow }

// words are those of a state.
func (f *Function) words(s *value) (*value, error) {
	if s.words != nil {
		s.drawn = true
		return s.words, nil
	}
	if isConstant(s) && f.builder.carriesWords() {
		place, err := strconv.Atoi(s.node.constant[1:])
		if err != nil {
			return nil, err
		}
		return f.constant(f.builder.constants[place].Bytes, wordsShape)
	}
	return f.wordsOfNumbers(s)
}

// wordsOfNumbers are made by a shift and not by a bitcast: Core ML, which holds u64 as two words, takes the one and not the other.
func (f *Function) wordsOfNumbers(s *value) (*value, error) {
	half, err := f.halfOfBits(s.shape)
	if err != nil {
		return nil, err
	}
	low := f.convert(s, dtypes.Uint32)
	high := f.convert(f.emit("shift_right_logical", s.shape, []*value{s, half}), dtypes.Uint32)
	var all []*value
	for i := range s.shape.Size() {
		all = append(all, f.slice(low, 0, i, i+1), f.slice(high, 0, i, i+1))
	}
	return f.emit("concatenate", wordsShape, all, "axis = 0"), nil
}

// halfOfBits is a constant: 32 everywhere.
func (f *Function) halfOfBits(shape shapes.Shape) (*value, error) {
	return f.constant(bytes.Repeat([]byte{32, 0, 0, 0, 0, 0, 0, 0}, shape.Size()), shape)
}

// part gives the low words (0) or the high ones (1) of what has that shape: those of a state lie in one row, of bits that are
// drawn along a last axis.
func (f *Function) part(w *value, which int, shape shapes.Shape) (*value, error) {
	words := withDType(shape, dtypes.Uint32)
	if w.shape.Equal(wordsShape) {
		return f.emit("slice", words, []*value{w}, "starts = "+ints([]int{which}), "limits = "+ints(w.shape.Dimensions), "strides = [2]"), nil
	}
	return f.reshape(f.slice(w, shape.Rank(), which, which+1), words)
}

// numbersOf is what has these words. What makes numbers of them is written only if an op asks for those.
func (f *Function) numbersOf(w *value, shape shapes.Shape) (*value, error) {
	made := &value{fn: f, shape: shape, words: w}
	half, err := f.halfOfBits(shapes.Make(dtypes.Uint64))
	if err != nil {
		return nil, err
	}
	f.onlyFor = made
	defer func() { f.onlyFor = nil }()
	low, err := f.part(w, 0, shape)
	if err != nil {
		return nil, err
	}
	high, err := f.part(w, 1, shape)
	if err != nil {
		return nil, err
	}
	half = f.emit("broadcast_in_dim", shape, []*value{half}, "dims = "+ints(shape.Dimensions), "axes = []")
	above := f.emit("shift_left", shape, []*value{f.convert(high, dtypes.Uint64), half})
	made.node = f.emit("bitwise_or", shape, []*value{f.convert(low, dtypes.Uint64), above}).node
	made.node.results[0] = made
	return made, nil
}

// floatsOf converts what has words to a float dtype: GoMLX's random numbers in f64 are u64 before.
func (f *Function) floatsOf(v *value, dtype dtypes.DType) (*value, error) {
	low, err := f.part(v.words, 0, v.shape)
	if err != nil {
		return nil, err
	}
	high, err := f.part(v.words, 1, v.shape)
	if err != nil {
		return nil, err
	}
	scale, err := f.scalar(1<<32, dtype)
	if err != nil {
		return nil, err
	}
	shape := withDType(v.shape, dtype)
	scale = f.emit("broadcast_in_dim", shape, []*value{scale}, "dims = "+ints(shape.Dimensions), "axes = []")
	above := f.emit("mul", shape, []*value{f.convert(high, dtype), scale})
	return f.emit("add", shape, []*value{above, f.convert(low, dtype)}), nil
}

// counted are the words of a state after so many blocks: its last two numbers are one of 128 bits.
func (f *Function) counted(w, blocks *value) *value {
	next := []*value{f.slice(w, 0, 0, 2)}
	more := f.convert(blocks, dtypes.Uint32)
	for i := 2; i < wordsShape.Size(); i++ {
		sum := f.emit("add", more.shape, []*value{f.slice(w, 0, i, i+1), more})
		carry := f.emit("compare", withDType(more.shape, dtypes.Bool), []*value{sum, more}, "direction = lt")
		next, more = append(next, sum), f.convert(carry, dtypes.Uint32)
	}
	return f.emit("concatenate", wordsShape, next, "axis = 0")
}

// inputs are the parameters of the main function as they are written: a state by its words, unless an op takes its numbers.
func (b *Builder) inputs() []*value {
	made := make([]*value, len(b.main.params))
	for i, each := range b.main.params {
		made[i] = each
		if each.words != nil && !each.plain {
			made[i] = each.words
		}
	}
	return made
}

// settleStates makes the words, before all else, of those states whose numbers are asked for too.
func (b *Builder) settleStates() error {
	for _, each := range b.main.params {
		if each.words == nil || !each.plain || !each.drawn {
			continue
		}
		nodes := b.main.nodes
		b.main.nodes, b.main.returned = nil, false
		made, err := b.main.wordsOfNumbers(each)
		b.main.nodes, b.main.returned = append(b.main.nodes, nodes...), true
		if err != nil {
			return err
		}
		each.words.node, made.node.results[0] = made.node, each.words
	}
	return nil
}
