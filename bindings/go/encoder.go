package rlx

import (
	"runtime"
	"unsafe"
)

// Encoder makes vectors of sentences, by a model folder such as that of all-MiniLM-L6-v2.
type Encoder struct {
	handle
	lib *Library
}

// LoadEncoder reads a model folder for a device; "" as of [Library.NewSession].
func (l *Library) LoadEncoder(folder, device string) (*Encoder, error) {
	var made, e unsafe.Pointer
	if err := l.failure(l.c.EncoderLoad(folder, device, nil, nil, &made, &e), e); err != nil {
		return nil, err
	}
	encoder := &Encoder{lib: l}
	own(encoder, &encoder.handle, made, l.c.EncoderFree)
	return encoder, nil
}

// Embed gives one row for each text: f32[texts, width].
func (n *Encoder) Embed(texts ...string) (*Tensor, error) {
	defer runtime.KeepAlive(n)
	given := make([]buffer, len(texts))
	for i, text := range texts {
		given[i] = buffer{unsafe.Pointer(unsafe.StringData(text)), uintptr(len(text))}
	}
	var made, e unsafe.Pointer
	status := n.lib.c.EncoderEmbed(n.pointerOf(), firstOf(given), uintptr(len(given)), &made, &e)
	if err := n.lib.failure(status, e); err != nil {
		return nil, err
	}
	return n.lib.tensor(made), nil
}

// Tokenizer is the encoder's, a copy whose settings may be changed.
func (n *Encoder) Tokenizer() (*Tokenizer, error) {
	defer runtime.KeepAlive(n)
	return n.lib.tokenizerFrom(func(made, e *unsafe.Pointer) int32 { return n.lib.c.EncoderTokenizer(n.pointerOf(), made, e) })
}
