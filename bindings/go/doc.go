// Package rlx is RLX, a compiler and runtime for machine learning, from Go: tensors over shared memory, graphs,
// sessions on any device, device tensors and events, Core ML packages, training, sentence encoders, and language models
// with their tokenizers and chat templates.
//
// It stands on the C ABI of the shared library, include/rlx/c.h, which it loads when [New] is called, without cgo. Where
// the library is looked for is told there; a library that is missing is an error of New.
//
// # Ownership
//
// What a call gives is freed by its Close, or some time after the last reference to it is gone. Close may be called
// twice. An object that was closed makes calls fail with [InvalidArgument]. A [Tensor] whose elements are used through
// [Data] has to be kept, by runtime.KeepAlive if by nothing else, as long as they are.
//
// # Concurrency
//
// An object may be used by one goroutine at a time, but for [Event] and [LanguageModel], and for the runs of one
// [Compiled], which several goroutines may start at once.
//
// # Errors
//
// What the library reports is an [*Error]; errors.Is(err, rlx.NotFound) asks for its [Status].
package rlx
