package rlx

import (
	"context"
	"iter"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
	"unsafe"
)

// GenerateOptions say how a text is written; the zero value is as the model's files advise. A pointer that is nil is as
// they advise too, or where they say nothing the default in brackets; new(0.7) gives one. docs/generation.md of RLX
// explains how a token is drawn.
type GenerateOptions struct {
	// MaxTokens of the text, at most; 0: 512.
	MaxTokens int
	// Temperature divides the logits; 0 takes the likeliest token (1).
	Temperature *float64
	// TopK draws from so many of the likeliest tokens; 0 from all (0).
	TopK *int
	// TopP draws from the likeliest that have this probability together (1).
	TopP *float64
	// MinP draws from tokens that are at least so likely as this share of the likeliest (0).
	MinP *float64
	// TypicalP draws from the most typical tokens that have this probability together (1).
	TypicalP *float64
	// RepetitionPenalty divides the positive logits of tokens that were there, and multiplies the others (1).
	RepetitionPenalty *float64
	// PresencePenalty and FrequencyPenalty are taken from the logits of tokens that were written: once, and for each time.
	PresencePenalty, FrequencyPenalty float64
	// LogitBias is added to the logits of these tokens.
	LogitBias map[int32]float64
	// Seed of the random numbers, from 0 on: the same one gives the same text.
	Seed int64
	// Stop are texts, none of them "": the text ends before the first of them.
	Stop []string
}

// text writes the options as the library takes them; what is left out is as the model's files advise.
func (o GenerateOptions) text() (string, error) {
	attrs := Attrs{}
	for name, value := range map[string]*float64{"temperature": o.Temperature, "top_p": o.TopP, "min_p": o.MinP,
		"typical_p": o.TypicalP, "repetition_penalty": o.RepetitionPenalty} {
		if value != nil {
			attrs[name] = *value
		}
	}
	for name, value := range map[string]float64{"presence_penalty": o.PresencePenalty, "frequency_penalty": o.FrequencyPenalty} {
		if value != 0 {
			attrs[name] = value
		}
	}
	if o.TopK != nil {
		attrs["top_k"] = *o.TopK
	}
	if o.MaxTokens != 0 {
		attrs["max_tokens"] = o.MaxTokens
	}
	if o.Seed != 0 {
		attrs["seed"] = o.Seed
	}
	if len(o.Stop) > 0 {
		attrs["stop"] = o.Stop
	}
	if len(o.LogitBias) > 0 {
		var ids []int64
		var biases []float64
		for _, id := range slices.Sorted(maps.Keys(o.LogitBias)) {
			ids, biases = append(ids, int64(id)), append(biases, o.LogitBias[id])
		}
		attrs["biased_ids"], attrs["biases"] = ids, biases
	}
	return attrs.text()
}

// Generator writes texts, one at a time, and keeps what it read: of a prompt that begins as the last one and its text only
// the rest is read, so that a conversation is not read again with each turn.
type Generator struct {
	handle
	lib *Library
	// begun counts texts, so that a stream knows whether its text is still the one that is written.
	begun int
}

// NewGenerator makes a generator, which goes on when the model was closed. Fails with [InvalidArgument] for options that
// mean nothing, and with the first text if the model has no tokenizer.
func (m *LanguageModel) NewGenerator(options GenerateOptions) (*Generator, error) {
	defer runtime.KeepAlive(m)
	settings, err := options.text()
	if err != nil {
		return nil, err
	}
	made, err := m.lib.made(func(made, e *unsafe.Pointer) int32 { return m.lib.c.GeneratorNew(m.pointerOf(), settings, made, e) })
	if err != nil {
		return nil, err
	}
	g := &Generator{lib: m.lib}
	own(g, &g.handle, made, m.lib.c.GeneratorFree)
	return g, nil
}

// Stream goes on with a prompt, at least one token: pieces of text as they come, each of whole characters and none empty.
//
//	for piece, err := range generator.Stream(ctx, prompt) {
//		if err != nil {
//			return err
//		}
//		fmt.Print(piece)
//	}
//
// The loop begins the text, each loop anew, and leaving it ends the text. An error is the last thing that comes, with "":
// that of the context if it has ended, between two tokens or two pieces of the prompt
// ([LanguageModelOptions].Chunk), as a token that is on its way is not interrupted; [InvalidArgument] for a prompt that leaves no room in the context of the model, or if another text
// of this generator was begun within the loop. [Generator.Describe] tells what ended the text.
func (g *Generator) Stream(ctx context.Context, prompt []int32) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		if err := g.begin(ctx, prompt); err != nil {
			yield("", err)
			return
		}
		for text := g.begun; ; {
			piece, err := g.next(ctx, text)
			if err != nil {
				yield("", err)
				return
			}
			if piece == "" || !yield(piece, nil) {
				return
			}
		}
	}
}

func (g *Generator) begin(ctx context.Context, prompt []int32) error {
	defer runtime.KeepAlive(g)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var e unsafe.Pointer
	ended := g.cancelledBy(ctx)
	err := g.lib.failure(g.lib.c.GeneratorBegin(g.pointerOf(), placeOf(prompt), uintptr(len(prompt)), &e), e)
	ended()
	if err == nil {
		g.begun++
	} else if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// cancelledBy cancels the reading of a prompt once ctx is done, until the function that it returns was called.
func (g *Generator) cancelledBy(ctx context.Context) func() {
	if ctx.Done() == nil {
		return func() {}
	}
	ended := make(chan struct{})
	var watcher sync.WaitGroup
	watcher.Add(1)
	go func() {
		defer watcher.Done()
		select {
		case <-ended:
			return
		case <-ctx.Done():
		}
		for { // again, as what was said before the reading began is forgotten
			var e unsafe.Pointer
			_ = g.lib.failure(g.lib.c.GeneratorCancel(g.pointerOf(), &e), e)
			select {
			case <-ended:
				return
			case <-time.After(5 * time.Millisecond):
			}
		}
	}()
	return func() {
		close(ended)
		watcher.Wait()
	}
}

// next is what comes next of a text; "" once it has ended.
func (g *Generator) next(ctx context.Context, text int) (string, error) {
	defer runtime.KeepAlive(g)
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	if g.begun != text {
		return "", &Error{Status: InvalidArgument, Message: "another text was begun by this generator; the first one cannot go on"}
	}
	return g.lib.madeSizedText(func(text *unsafe.Pointer, size *uintptr, e *unsafe.Pointer) int32 {
		return g.lib.c.GeneratorNext(g.pointerOf(), text, size, e)
	})
}

// Finish is what ended a text.
type Finish string

const (
	// FinishEnd is one of the model's StopIDs.
	FinishEnd Finish = "end"
	// FinishStop is one of the texts of GenerateOptions.Stop.
	FinishStop Finish = "stop"
	// FinishLength is MaxTokens.
	FinishLength Finish = "length"
	// FinishContext is the model's context, which is full.
	FinishContext Finish = "context"
)

// GeneratorDescription is what became of the last text of a generator.
type GeneratorDescription struct {
	// Tokens are all that were drawn, with the one that ended the text and those of a stop text.
	Tokens []int32 `json:"tokens"`
	// Finish is what ended the text; "" until it has ended.
	Finish Finish `json:"finish"`
	// ReadTokens is how many of the prompt's tokens were read: the others were known from the text before.
	ReadTokens int `json:"read_tokens"`
}

// Describe tells what became of the last text.
func (g *Generator) Describe() (GeneratorDescription, error) {
	defer runtime.KeepAlive(g)
	return described[GeneratorDescription](g.lib, func(text, e *unsafe.Pointer) int32 {
		return g.lib.c.GeneratorDescribe(g.pointerOf(), text, e)
	})
}

// Reset forgets what was seen and drawn, for the penalties; the random numbers begin anew.
func (g *Generator) Reset() error {
	defer runtime.KeepAlive(g)
	var e unsafe.Pointer
	return g.lib.failure(g.lib.c.GeneratorReset(g.pointerOf(), &e), e)
}

// Stream is [Generator.Stream] of a generator of its own for each loop; several goroutines may have one at once.
func (m *LanguageModel) Stream(ctx context.Context, prompt []int32, options GenerateOptions) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		g, err := m.NewGenerator(options)
		if err != nil {
			yield("", err)
			return
		}
		defer g.Close()
		g.Stream(ctx, prompt)(yield)
	}
}

// Text joins the pieces of a stream; beside an error stands what came before it.
func Text(pieces iter.Seq2[string, error]) (string, error) {
	var text strings.Builder
	for piece, err := range pieces {
		if err != nil {
			return text.String(), err
		}
		text.WriteString(piece)
	}
	return text.String(), nil
}
