package rlx

import (
	"fmt"
	"runtime"
	"unsafe"
)

// LanguageModel is a decoder of text with its weights. Several goroutines may use it at once. Sequences, generators and
// what else was made of it go on when it was closed.
type LanguageModel struct {
	handle
	lib *Library
}

// LanguageModelOptions say how a model is loaded; the zero value is the default.
type LanguageModelOptions struct {
	// Threads that runs use; 0: as many as the process may use.
	Threads int
	// Copied reads the weights into memory; else they are the pages of the files, which nobody may write or shorten as long
	// as the model is in use.
	Copied bool
	// Context is the most tokens of a sequence; 0: what the model promises.
	Context int
	// Chunk is how many tokens run at once while a longer text is read; 0: 512. Memory grows with it, not with the text.
	Chunk int
	// Cache is the type of keys and values: "f32", as "" too, or "f16" or "bf16", which take half the memory, or
	// blocks of "q8_0" or "q4_0", which take 34/128 and 18/128 of it.
	Cache DType
	// Adapters are low-rank ones (LoRA), which stand beside the weights: folders that the package PEFT saved, or .gguf
	// files beside a .gguf file.
	Adapters []string
	// AdapterScales are what each of them is multiplied by; nil for 1.
	AdapterScales []float64
	// Compile says how the model's graphs are compiled.
	Compile CompileOptions
}

// LoadLanguageModel reads a folder with config.json and safetensors, or a .gguf file, for a device; "" as of
// [Library.NewSession]. Fails with [NotFound] where nothing lies there, with [Unsupported] for an architecture that is not
// built, and, naming the tensor, for one that is missing or of no use.
func (l *Library) LoadLanguageModel(path, device string, options LanguageModelOptions) (*LanguageModel, error) {
	c := &cLanguageModelOptions{structSize: unsafe.Sizeof(cLanguageModelOptions{}), threads: int32(options.Threads),
		copied: number(options.Copied), context: int64(options.Context), chunk: int64(options.Chunk)}
	if options.Cache != "" {
		c.cache = cString(string(options.Cache))
	}
	if given, scales := len(options.Adapters), options.AdapterScales; scales != nil && len(scales) != given {
		return nil, &Error{Status: InvalidArgument, Message: fmt.Sprintf("there are %d adapters and %d scales; each has one", given, len(scales))}
	} else if given > 0 {
		c.adapters, c.adapterScales, c.adapterCount = firstOf(cStrings(options.Adapters)), firstOf(scales), uintptr(given)
	}
	compile := options.Compile.c()
	made, err := l.made(func(made, e *unsafe.Pointer) int32 { return l.c.LanguageModelLoad(path, device, c, compile, made, e) })
	runtime.KeepAlive(c)
	runtime.KeepAlive(compile)
	if err != nil {
		return nil, err
	}
	m := &LanguageModel{lib: l}
	own(m, &m.handle, made, l.c.LanguageModelFree)
	return m, nil
}

// LanguageModelDescription is what a model is, by its files. Sizes are numbers of elements.
type LanguageModelDescription struct {
	// Architecture as the files call it: "llama", "qwen3", "gemma2".
	Architecture string `json:"architecture"`
	// Vocabulary is the number of tokens, which is the length of a row of logits.
	Vocabulary int `json:"vocabulary"`
	// Hidden is the width of what goes from layer to layer; Layers, Heads, KVHeads of keys and values, HeadDim and
	// Intermediate are the sizes of the layers.
	Hidden       int `json:"hidden"`
	Layers       int `json:"layers"`
	Heads        int `json:"heads"`
	KVHeads      int `json:"kv_heads"`
	HeadDim      int `json:"head_dim"`
	Intermediate int `json:"intermediate"`
	// Experts of a mixture; 0 if there is none.
	Experts int `json:"experts"`
	// Window of layers that see a window alone; 0 if there are none.
	Window int `json:"window"`
	// PromisedContext is the most positions that the model was made for, Context the most tokens of a sequence here.
	PromisedContext int `json:"promised_context"`
	Context         int `json:"context"`
	// BOSID is the token with which a text begins that has no others; nil if there is none.
	BOSID *int32 `json:"bos_id"`
	// StopIDs are tokens of which each ends an answer.
	StopIDs []int32 `json:"stop_ids"`
	// Advice is what the files say of how to draw tokens, which [GenerateOptions] leave as it is.
	Advice Advice `json:"advice"`
}

// Advice is what a model's files say of how tokens are to be drawn; nil where they say nothing.
type Advice struct {
	Temperature       *float64 `json:"temperature"`
	TopK              *int     `json:"top_k"`
	TopP              *float64 `json:"top_p"`
	MinP              *float64 `json:"min_p"`
	RepetitionPenalty *float64 `json:"repetition_penalty"`
}

// Describe tells what the model is: architecture, vocabulary, context, the tokens that end a text, advice.
func (m *LanguageModel) Describe() (LanguageModelDescription, error) {
	defer runtime.KeepAlive(m)
	return described[LanguageModelDescription](m.lib, func(text, e *unsafe.Pointer) int32 {
		return m.lib.c.LanguageModelDescribe(m.pointerOf(), text, e)
	})
}

// Tokenizer is the model's, a copy whose settings may be changed. Fails with [NotFound] if the files have none, and with
// [Unsupported] for a kind that is not built.
func (m *LanguageModel) Tokenizer() (*Tokenizer, error) {
	defer runtime.KeepAlive(m)
	return m.lib.tokenizerFrom(func(made, e *unsafe.Pointer) int32 { return m.lib.c.LanguageModelTokenizer(m.pointerOf(), made, e) })
}

// ChatTemplate is the model's. Fails with [NotFound] if the files have none.
func (m *LanguageModel) ChatTemplate() (*ChatTemplate, error) {
	defer runtime.KeepAlive(m)
	return m.lib.chatTemplateFrom(func(made, e *unsafe.Pointer) int32 { return m.lib.c.LanguageModelChatTemplate(m.pointerOf(), made, e) })
}

// PromptKind is how text becomes the tokens of a prompt.
type PromptKind int32

const (
	// PromptText is text to which the tokenizer adds its special tokens; the text of one ("<|im_end|>") is that token.
	PromptText PromptKind = iota
	// PromptPlain is text that gets none, and in which the text of one is text like any other.
	PromptPlain
	// PromptTemplated is what [ChatTemplate.Apply] gave: none are added, those in it are recognized.
	PromptTemplated
)

// Prompt gives the tokens of a text, at least one: of no tokens, the one with which the model begins a text. Fails with
// [NotFound] if the model has no tokenizer.
func (m *LanguageModel) Prompt(text string, kind PromptKind) ([]int32, error) {
	defer runtime.KeepAlive(m)
	return elements[int32](m.lib, func(made, e *unsafe.Pointer) int32 {
		return m.lib.c.LanguageModelPrompt(m.pointerOf(), placeOf(bytesOfText(text)), uintptr(len(text)), int32(kind), made, e)
	})
}

// ChatPrompt gives the tokens of a conversation up to where the model's answer begins, by the model's own template; what
// it takes is told at [ChatTemplate.Apply], of the options AddGenerationPrompt is taken as set. Fails with [NotFound] if the
// model has no template.
func (m *LanguageModel) ChatPrompt(messages any, options ChatOptions) ([]int32, error) {
	template, err := m.ChatTemplate()
	if err != nil {
		return nil, err
	}
	defer template.Close()
	options.AddGenerationPrompt = true
	text, err := template.Apply(messages, options)
	if err != nil {
		return nil, err
	}
	return m.Prompt(text, PromptTemplated)
}

// AllLogits gives the logits of what follows each of the tokens, at least one, of a sequence of its own:
// f32[tokens, vocabulary]. Fails for a token that is not in the vocabulary, and for more than the context holds.
func (m *LanguageModel) AllLogits(ids []int32) (*Tensor, error) {
	defer runtime.KeepAlive(m)
	made, err := m.lib.made(func(made, e *unsafe.Pointer) int32 {
		return m.lib.c.LanguageModelAllLogits(m.pointerOf(), placeOf(ids), uintptr(len(ids)), made, e)
	})
	if err != nil {
		return nil, err
	}
	return m.lib.tensor(made), nil
}

// Report is the dispatch report as JSON: where each node of the model runs, and why there.
func (m *LanguageModel) Report() (string, error) {
	defer runtime.KeepAlive(m)
	return m.lib.madeText(func(text, e *unsafe.Pointer) int32 { return m.lib.c.LanguageModelReport(m.pointerOf(), text, e) })
}

// ConvertOptions say what a model becomes in the other format; the zero value keeps what it is.
type ConvertOptions struct {
	// Quantize is the kind of block, "q8_0", that matrices of floats become in a GGUF file.
	Quantize DType
	// Dequantize is what packed matrices of a folder, or blocks of a file, become: "f32", "f16" or "bf16". Without it they
	// stay packed with the same numbers, or are refused.
	Dequantize DType
	// MostFileBytes begins a new file where one would have more bytes of tensors; 0: all in one.
	MostFileBytes int64
}

func (o ConvertOptions) text() (string, error) {
	return Attrs{"quantize": string(o.Quantize), "dequantize": string(o.Dequantize), "most_file_bytes": o.MostFileBytes}.text()
}

// Converted is what was written.
type Converted struct {
	// Tensors is their number, Bytes theirs.
	Tensors int   `json:"tensors"`
	Bytes   int64 `json:"bytes"`
	// Notes say what could not be carried over.
	Notes []string `json:"notes"`
}

// ConvertToGGUF writes the Hugging Face folder of a language model as a GGUF file, with its tokenizer, as llama.cpp's
// converter does. One tensor after the other is read and written. Fails with [Unsupported], naming the key, the tensor or
// the part of the tokenizer, for what GGUF has no word for.
func (l *Library) ConvertToGGUF(folder, path string, options ConvertOptions) (Converted, error) {
	text, err := options.text()
	if err != nil {
		return Converted{}, err
	}
	return described[Converted](l, func(notes, e *unsafe.Pointer) int32 { return l.c.LanguageModelToGGUF(folder, path, text, notes, e) })
}

// ConvertToFolder writes a GGUF file as a Hugging Face folder, which must not be there or be empty: as [Library.ConvertToGGUF],
// the other way round.
func (l *Library) ConvertToFolder(path, folder string, options ConvertOptions) (Converted, error) {
	text, err := options.text()
	if err != nil {
		return Converted{}, err
	}
	return described[Converted](l, func(notes, e *unsafe.Pointer) int32 { return l.c.LanguageModelToFolder(path, folder, text, notes, e) })
}
