package gomlx

import (
	"bytes"
	"strconv"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
)

// Of a state of random numbers all bits count. Where integers of 64 bits are narrowed to 32 it is carried as its words of 32
// bits from the parameter, through one draw after another, to the result: the low word of each number, then the high one.

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

// stateOfWords is a state by its words. What makes numbers of them is written only if an op other than a draw uses them.
func (f *Function) stateOfWords(w *value) (*value, error) {
	state := &value{fn: f, shape: compute.RNGStateShape, words: w}
	half, err := f.halfOfBits(state.shape)
	if err != nil {
		return nil, err
	}
	f.onlyFor = state
	every := func(start int) *value {
		part := f.emit("slice", withDType(state.shape, dtypes.Uint32), []*value{w}, "starts = "+ints([]int{start}), "limits = "+ints(wordsShape.Dimensions), "strides = [2]")
		return f.convert(part, dtypes.Uint64)
	}
	high := f.emit("shift_left", state.shape, []*value{every(1), half})
	state.node = f.emit("bitwise_or", state.shape, []*value{every(0), high}).node
	state.node.results[0] = state
	f.onlyFor = nil
	return state, nil
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
