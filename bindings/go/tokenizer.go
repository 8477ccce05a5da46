package rlx

import (
	"encoding/json"
	"runtime"
	"strings"
	"unsafe"
)

// Tokenizer makes token ids of text and text of ids, as the Python package tokenizers does by the same file.
type Tokenizer struct {
	handle
	lib *Library
}

func (l *Library) tokenizerFrom(call func(made, e *unsafe.Pointer) int32) (*Tokenizer, error) {
	made, err := l.made(call)
	if err != nil {
		return nil, err
	}
	k := &Tokenizer{lib: l}
	own(k, &k.handle, made, l.c.TokenizerFree)
	return k, nil
}

// LoadTokenizer reads a tokenizer.json or a vocab.txt, a folder that holds one, or a .gguf file. Fails with [NotFound]
// where there is none, with [Unsupported] for a kind that is not built, and with [ParseError] for a file that is damaged.
func (l *Library) LoadTokenizer(path string) (*Tokenizer, error) {
	return l.tokenizerFrom(func(made, e *unsafe.Pointer) int32 { return l.c.TokenizerLoad(path, made, e) })
}

// Encoding is a text, or a pair of texts, as tokens. Its slices have one element for each token.
type Encoding struct {
	// IDs of the tokens, which a model is given.
	IDs []int32
	// Tokens are their texts.
	Tokens []string
	// TypeIDs say which of the texts a token is of, as the model was trained with it.
	TypeIDs []int32
	// AttentionMask is 1, or 0 for padding.
	AttentionMask []int32
	// SpecialTokensMask is 1 for what the text did not have: [CLS], [SEP], padding.
	SpecialTokensMask []int32
	// Words are the numbers of the words that the tokens are part of; -1 for special tokens.
	Words []int32
	// Offsets are the bytes of its text where a token begins and ends: text[offset[0]:offset[1]].
	Offsets [][2]int
	// Overflow is what truncation cut off, with [Truncation.KeepOverflow].
	Overflow []Encoding
}

// Encode gives the ids of a text's tokens, with or without those that the tokenizer adds ([CLS], <s>). What is no UTF-8
// is read as U+FFFD.
func (k *Tokenizer) Encode(text string, addSpecialTokens bool) ([]int32, error) {
	var ids []int32
	err := k.encode([]string{text}, false, addSpecialTokens, func(encodings unsafe.Pointer) (err error) {
		ids, err = encoded[int32](k.lib, encodings, 0, "ids")
		return err
	})
	return ids, err
}

// EncodeAll gives all that is known of the tokens of each text, in their order; of one length if the tokenizer pads.
func (k *Tokenizer) EncodeAll(texts []string, addSpecialTokens bool) ([]Encoding, error) {
	var all []Encoding
	err := k.encode(texts, false, addSpecialTokens, func(encodings unsafe.Pointer) (err error) {
		all, err = k.lib.encodings(encodings)
		return err
	})
	return all, err
}

// EncodePairs is [Tokenizer.EncodeAll] for pairs of texts, such as a question and what may answer it.
func (k *Tokenizer) EncodePairs(pairs [][2]string, addSpecialTokens bool) ([]Encoding, error) {
	var texts []string
	for _, pair := range pairs {
		texts = append(texts, pair[0], pair[1])
	}
	var all []Encoding
	err := k.encode(texts, true, addSpecialTokens, func(encodings unsafe.Pointer) (err error) {
		all, err = k.lib.encodings(encodings)
		return err
	})
	return all, err
}

// encode has encodings read by `read`, and frees them.
func (k *Tokenizer) encode(texts []string, pairs, addSpecialTokens bool, read func(encodings unsafe.Pointer) error) error {
	defer runtime.KeepAlive(k)
	given := make([]buffer, len(texts))
	for i, text := range texts {
		given[i] = buffer{unsafe.Pointer(unsafe.StringData(text)), uintptr(len(text))}
	}
	made, err := k.lib.made(func(made, e *unsafe.Pointer) int32 {
		return k.lib.c.TokenizerEncode(k.pointerOf(), firstOf(given), uintptr(len(given)), number(pairs), number(addSpecialTokens), made, e)
	})
	runtime.KeepAlive(texts)
	if err != nil {
		return err
	}
	defer k.lib.c.EncodingsFree(made)
	return read(made)
}

// encoded copies one of the tensors of an encoding.
func encoded[T Element](l *Library, encodings unsafe.Pointer, index int, what string) ([]T, error) {
	return elements[T](l, func(made, e *unsafe.Pointer) int32 {
		return l.c.EncodingsTensor(encodings, uintptr(index), what, made, e)
	})
}

// elements copies those of a tensor that the library makes, and frees it.
func elements[T Element](l *Library, call func(made, e *unsafe.Pointer) int32) ([]T, error) {
	made, err := l.made(call)
	if err != nil {
		return nil, err
	}
	t := l.tensor(made)
	defer t.Close()
	shared, err := Data[T](t)
	return append([]T{}, shared...), err
}

// encodings copies all that a handle of the library holds.
func (l *Library) encodings(pointer unsafe.Pointer) ([]Encoding, error) {
	all := make([]Encoding, l.c.EncodingsCount(pointer))
	for i := range all {
		if err := l.encoding(pointer, i, &all[i]); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func (l *Library) encoding(pointer unsafe.Pointer, index int, to *Encoding) (err error) {
	for what, list := range map[string]*[]int32{"ids": &to.IDs, "type_ids": &to.TypeIDs, "attention_mask": &to.AttentionMask,
		"special_tokens_mask": &to.SpecialTokensMask, "words": &to.Words} {
		if *list, err = encoded[int32](l, pointer, index, what); err != nil {
			return err
		}
	}
	offsets, err := encoded[int64](l, pointer, index, "offsets")
	if err != nil {
		return err
	}
	to.Tokens, to.Offsets = make([]string, len(to.IDs)), make([][2]int, len(to.IDs))
	for i := range to.IDs {
		var size uintptr
		token := l.c.EncodingsToken(pointer, uintptr(index), uintptr(i), &size)
		to.Tokens[i] = string(unsafe.Slice((*byte)(token), size))
		to.Offsets[i] = [2]int{int(offsets[2*i]), int(offsets[2*i+1])}
	}
	overflow, err := l.made(func(made, e *unsafe.Pointer) int32 { return l.c.EncodingsOverflow(pointer, uintptr(index), made, e) })
	if err != nil {
		return err
	}
	defer l.c.EncodingsFree(overflow)
	to.Overflow, err = l.encodings(overflow)
	return err
}

// Decode gives text that reads like what was encoded, as far as the tokens still tell: special tokens stand in it or are
// left out, and an id without a token adds nothing.
func (k *Tokenizer) Decode(ids []int32, skipSpecialTokens bool) (string, error) {
	defer runtime.KeepAlive(k)
	return k.lib.madeSizedText(func(text *unsafe.Pointer, size *uintptr, e *unsafe.Pointer) int32 {
		return k.lib.c.TokenizerDecode(k.pointerOf(), placeOf(ids), uintptr(len(ids)), number(skipSpecialTokens), text, size, e)
	})
}

// TokenToID is the id of a token, and whether there is one.
func (k *Tokenizer) TokenToID(token string) (id int32, found bool, err error) {
	defer runtime.KeepAlive(k)
	if strings.Contains(token, "\x00") {
		return -1, false, &Error{Status: InvalidArgument, Message: "a token with a NUL cannot be asked for"}
	}
	id = -1
	var e unsafe.Pointer
	err = k.lib.failure(k.lib.c.TokenizerTokenToID(k.pointerOf(), token, &id, &e), e)
	return id, id >= 0, err
}

// IDToToken is the token of an id; fails with [NotFound] if there is none.
func (k *Tokenizer) IDToToken(id int32) (string, error) {
	defer runtime.KeepAlive(k)
	return k.lib.madeSizedText(func(text *unsafe.Pointer, size *uintptr, e *unsafe.Pointer) int32 {
		return k.lib.c.TokenizerIDToToken(k.pointerOf(), id, text, size, e)
	})
}

// Truncation limits the tokens of an encoding, special ones included.
type Truncation struct {
	MaxLength int `json:"max_length"`
	// Strategy says from which of two texts tokens are taken away: "longest_first", as "" too, "only_first" or
	// "only_second".
	Strategy string `json:"strategy"`
	// Side on which they are taken away: "right", as "" too, or "left".
	Side string `json:"side"`
	// KeepOverflow keeps them, in Encoding.Overflow, in pieces of which neighbours have Stride tokens in common.
	KeepOverflow bool `json:"keep_overflow"`
	Stride       int  `json:"stride"`
}

// Padding makes encodings longer.
type Padding struct {
	// Length to which; 0 for that of the longest of the texts that are encoded together.
	Length int `json:"length"`
	// MultipleOf rounds it up to a multiple; 0 does not.
	MultipleOf int `json:"pad_to_multiple_of"`
	// Side on which padding stands: "right", as "" too, or "left".
	Side string `json:"side"`
	// ID, TypeID and Token are what it consists of; "" is "[PAD]".
	ID     int32  `json:"id"`
	TypeID int32  `json:"type_id"`
	Token  string `json:"token"`
}

// SetTruncation sets how encodings are cut; nil turns it off.
func (k *Tokenizer) SetTruncation(t *Truncation) error {
	if t == nil {
		return k.set(new(""), nil)
	}
	attrs := Attrs{"max_length": t.MaxLength, "keep_overflow": t.KeepOverflow, "stride": t.Stride}
	for name, word := range map[string]string{"strategy": t.Strategy, "side": t.Side} {
		if word != "" {
			attrs[name] = Word(word)
		}
	}
	text, err := attrs.text()
	if err != nil {
		return err
	}
	return k.set(&text, nil)
}

// SetPadding sets how encodings are padded; nil turns it off.
func (k *Tokenizer) SetPadding(p *Padding) error {
	if p == nil {
		return k.set(nil, new(""))
	}
	attrs := Attrs{"pad_to_multiple_of": p.MultipleOf, "id": int(p.ID), "type_id": int(p.TypeID)}
	if p.Length != 0 {
		attrs["length"] = p.Length
	}
	if p.Side != "" {
		attrs["side"] = Word(p.Side)
	}
	if p.Token != "" {
		attrs["token"] = p.Token
	}
	text, err := attrs.text()
	if err != nil {
		return err
	}
	return k.set(nil, &text)
}

func (k *Tokenizer) set(truncation, padding *string) error {
	defer runtime.KeepAlive(k)
	place := func(text *string) unsafe.Pointer {
		if text == nil {
			return nil
		}
		return unsafe.Pointer(cString(*text))
	}
	var e unsafe.Pointer
	return k.lib.failure(k.lib.c.TokenizerSet(k.pointerOf(), place(truncation), place(padding), &e), e)
}

// SetEncodeSpecialTokens sets whether the text of a special token ("<|im_end|>") in what is encoded is text like any
// other, as what users write should be; else it is that token, as it is until this is set.
func (k *Tokenizer) SetEncodeSpecialTokens(asText bool) error {
	defer runtime.KeepAlive(k)
	var e unsafe.Pointer
	return k.lib.failure(k.lib.c.TokenizerSpecialAsText(k.pointerOf(), number(asText), &e), e)
}

// TokenizerDescription is what a tokenizer says of itself.
type TokenizerDescription struct {
	// Vocabulary is the number of tokens, added ones included.
	Vocabulary int `json:"vocab_size"`
	// Truncation and Padding as they were set, or as the file has them; nil for none.
	Truncation *Truncation `json:"truncation"`
	Padding    *Padding    `json:"padding"`
}

// Describe tells the size of the vocabulary and the settings.
func (k *Tokenizer) Describe() (TokenizerDescription, error) {
	defer runtime.KeepAlive(k)
	var described TokenizerDescription
	text, err := k.lib.made(func(text, e *unsafe.Pointer) int32 { return k.lib.c.TokenizerDescribe(k.pointerOf(), text, e) })
	if err != nil {
		return described, err
	}
	return described, json.Unmarshal([]byte(goString(text)), &described)
}

// DecodeStream makes text of ids as they come: pieces of whole characters, which together are what [Tokenizer.Decode]
// gives of all ids.
type DecodeStream struct {
	handle
	lib *Library
}

// NewDecodeStream makes a stream, which keeps what it needs of the tokenizer.
func (k *Tokenizer) NewDecodeStream(skipSpecialTokens bool) (*DecodeStream, error) {
	defer runtime.KeepAlive(k)
	made, err := k.lib.made(func(made, e *unsafe.Pointer) int32 {
		return k.lib.c.DecodeStreamNew(k.pointerOf(), number(skipSpecialTokens), made, e)
	})
	if err != nil {
		return nil, err
	}
	s := &DecodeStream{lib: k.lib}
	own(s, &s.handle, made, k.lib.c.DecodeStreamFree)
	return s, nil
}

// Put gives what an id adds to the text, often nothing yet.
func (s *DecodeStream) Put(id int32) (string, error) {
	defer runtime.KeepAlive(s)
	return s.lib.madeSizedText(func(text *unsafe.Pointer, size *uintptr, e *unsafe.Pointer) int32 {
		return s.lib.c.DecodeStreamPut(s.pointerOf(), id, text, size, e)
	})
}

// Finish gives what still waits, with U+FFFD for what was not completed; the stream begins anew.
func (s *DecodeStream) Finish() (string, error) {
	defer runtime.KeepAlive(s)
	return s.lib.madeSizedText(func(text *unsafe.Pointer, size *uintptr, e *unsafe.Pointer) int32 {
		return s.lib.c.DecodeStreamFinish(s.pointerOf(), text, size, e)
	})
}
