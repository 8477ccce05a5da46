package rlx

import (
	"runtime"
	"unsafe"
)

// Sequence is tokens that a model has read, and what it keeps of them. If a call fails it is as long as before.
type Sequence struct {
	handle
	lib *Library
}

func (l *Library) sequenceFrom(call func(made, e *unsafe.Pointer) int32) (*Sequence, error) {
	made, err := l.made(call)
	if err != nil {
		return nil, err
	}
	s := &Sequence{lib: l}
	own(s, &s.handle, made, l.c.SequenceFree)
	return s, nil
}

// NewSequence makes a sequence without tokens.
func (m *LanguageModel) NewSequence() (*Sequence, error) {
	defer runtime.KeepAlive(m)
	return m.lib.sequenceFrom(func(made, e *unsafe.Pointer) int32 { return m.lib.c.SequenceNew(m.pointerOf(), made, e) })
}

// Copy makes another sequence with the same tokens, which goes on by itself. They share memory until one of them does.
func (s *Sequence) Copy() (*Sequence, error) {
	defer runtime.KeepAlive(s)
	return s.lib.sequenceFrom(func(made, e *unsafe.Pointer) int32 { return s.lib.c.SequenceCopy(s.pointerOf(), made, e) })
}

// Logits appends tokens, at least one, and gives the logits of the token that follows: as many as the vocabulary has. Fails
// for a token that is not in the vocabulary, and for more than the context holds.
func (s *Sequence) Logits(ids ...int32) ([]float32, error) {
	defer runtime.KeepAlive(s)
	return elements[float32](s.lib, func(made, e *unsafe.Pointer) int32 {
		return s.lib.c.SequenceLogits(s.pointerOf(), placeOf(ids), uintptr(len(ids)), made, e)
	})
}

// AllLogits is the same with the logits of what follows each of the tokens: f32[tokens, vocabulary].
func (s *Sequence) AllLogits(ids ...int32) (*Tensor, error) {
	defer runtime.KeepAlive(s)
	made, err := s.lib.made(func(made, e *unsafe.Pointer) int32 {
		return s.lib.c.SequenceAllLogits(s.pointerOf(), placeOf(ids), uintptr(len(ids)), made, e)
	})
	if err != nil {
		return nil, err
	}
	return s.lib.tensor(made), nil
}

// Position is the number of tokens so far.
func (s *Sequence) Position() int {
	defer runtime.KeepAlive(s)
	return int(s.lib.c.SequencePosition(s.pointerOf()))
}

// Rewind takes the last tokens back; fails if there are fewer. A model with recurrent layers reads what is left again with
// the next call.
func (s *Sequence) Rewind(tokens int) error {
	defer runtime.KeepAlive(s)
	var e unsafe.Pointer
	return s.lib.failure(s.lib.c.SequenceRewind(s.pointerOf(), int64(tokens), &e), e)
}

// MemoryBytes are those of what the model keeps for the sequence; copies that did not go on share them.
func (s *Sequence) MemoryBytes() int {
	defer runtime.KeepAlive(s)
	return int(s.lib.c.SequenceMemoryBytes(s.pointerOf()))
}

// Sampler draws tokens from logits, and remembers them for the penalties.
type Sampler struct {
	handle
	lib *Library
}

// NewSampler makes a sampler. MaxTokens and Stop are no options of it; what is nil is the default that stands at
// [GenerateOptions], as there is no model that advises.
func (l *Library) NewSampler(options GenerateOptions) (*Sampler, error) {
	settings, err := options.text()
	if err != nil {
		return nil, err
	}
	made, err := l.made(func(made, e *unsafe.Pointer) int32 { return l.c.SamplerNew(settings, made, e) })
	if err != nil {
		return nil, err
	}
	s := &Sampler{lib: l}
	own(s, &s.handle, made, l.c.SamplerFree)
	return s, nil
}

// See tells of tokens that the model was given: RepetitionPenalty counts them, the other penalties do not.
func (s *Sampler) See(ids ...int32) error {
	defer runtime.KeepAlive(s)
	var e unsafe.Pointer
	return s.lib.failure(s.lib.c.SamplerSee(s.pointerOf(), placeOf(ids), uintptr(len(ids)), &e), e)
}

// Sample draws a token from logits, one for each token of the vocabulary, and remembers it. Fails with [InvalidArgument] for
// NaN, for +Inf, and if all are -Inf.
func (s *Sampler) Sample(logits []float32) (int32, error) {
	defer runtime.KeepAlive(s)
	var id int32
	var e unsafe.Pointer
	err := s.lib.failure(s.lib.c.SamplerSample(s.pointerOf(), placeOf(logits), uintptr(len(logits)), &id, &e), e)
	return id, err
}

// Chance is a token and the probability with which it is drawn.
type Chance struct {
	ID          int32
	Probability float64
}

// Chances tell what would be drawn from now, the likeliest first. Nothing is drawn.
func (s *Sampler) Chances(logits []float32) ([]Chance, error) {
	defer runtime.KeepAlive(s)
	ids, probabilities := make([]int32, len(logits)), make([]float64, len(logits))
	var made uintptr
	var e unsafe.Pointer
	status := s.lib.c.SamplerChances(s.pointerOf(), placeOf(logits), uintptr(len(logits)), placeOf(ids), placeOf(probabilities),
		uintptr(len(logits)), &made, &e)
	if err := s.lib.failure(status, e); err != nil {
		return nil, err
	}
	all := make([]Chance, made)
	for i := range all {
		all[i] = Chance{ids[i], probabilities[i]}
	}
	return all, nil
}

// Reset makes it as it was at first: nothing seen or drawn, the random numbers from their beginning.
func (s *Sampler) Reset() error {
	defer runtime.KeepAlive(s)
	var e unsafe.Pointer
	return s.lib.failure(s.lib.c.SamplerReset(s.pointerOf(), &e), e)
}
