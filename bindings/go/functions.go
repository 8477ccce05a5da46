package rlx

import "unsafe"

type p = unsafe.Pointer

// functions are those of include/rlx/c.h that the package calls, by their names there. A plain address is called
// through purego.SyscallN, without reflection: what runs once per run.
type functions struct {
	VersionString func() string                         `c:"rlx_version_string"`
	ErrorMessage  func(e p) string                      `c:"rlx_error_message"`
	ErrorReport   func(e p) string                      `c:"rlx_error_report"`
	ErrorFree     func(e p)                             `c:"rlx_error_free"`
	ErrorTooLarge func(e p, bytes, limit *uint64) int32 `c:"rlx_error_is_too_large"`
	TextFree      func(text p)                          `c:"rlx_text_free"`

	TensorCreate func(dtype string, dims p, rank uintptr, data p, size uintptr, tensor, e *p) int32                           `c:"rlx_tensor_create"`
	TensorBorrow func(dtype string, dims p, rank uintptr, data p, size uintptr, release, context uintptr, tensor, e *p) int32 `c:"rlx_tensor_borrow"`
	TensorDtype  func(tensor p) string                                                                                        `c:"rlx_tensor_dtype"`
	TensorRank   func(tensor p) uintptr                                                                                       `c:"rlx_tensor_rank"`
	TensorDims   func(tensor p) p                                                                                             `c:"rlx_tensor_dims"`
	TensorSize   func(tensor p) uintptr                                                                                       `c:"rlx_tensor_size"`
	TensorData   func(tensor p) p                                                                                             `c:"rlx_tensor_data"`
	TensorFree   func(tensor p)                                                                                               `c:"rlx_tensor_free"`

	GraphParse     func(text p, size uintptr, graph, e *p) int32                                                                         `c:"rlx_graph_parse"`
	GraphParseWith func(text p, size uintptr, names, types, values p, count uintptr, graph, e *p) int32                                  `c:"rlx_graph_parse_with"`
	GraphLoad      func(path string, graph, e *p) int32                                                                                  `c:"rlx_graph_load"`
	GraphSave      func(graph p, path string, e *p) int32                                                                                `c:"rlx_graph_save"`
	GraphCreate    func(name string, graph, e *p) int32                                                                                  `c:"rlx_graph_create"`
	GraphInput     func(graph p, name, kind string, value *Value, e *p) int32                                                            `c:"rlx_graph_input"`
	GraphParam     func(graph p, name, kind string, value *Value, e *p) int32                                                            `c:"rlx_graph_param"`
	GraphConstant  func(graph, tensor p, value *Value, e *p) int32                                                                       `c:"rlx_graph_constant"`
	GraphEmit      func(graph p, op string, operands p, count uintptr, attrs string, results p, room uintptr, made *uintptr, e *p) int32 `c:"rlx_graph_emit"`
	GraphInline    func(graph, from, inputs p, count uintptr, results p, room uintptr, made *uintptr, e *p) int32                        `c:"rlx_graph_inline"`
	GraphOutput    func(graph p, value uint64, name string, e *p) int32                                                                  `c:"rlx_graph_output"`
	GraphType      func(graph p, value uint64, buffer p, room uintptr, size *uintptr, e *p) int32                                        `c:"rlx_graph_type"`
	GraphText      func(graph p) string                                                                                                  `c:"rlx_graph_text"`
	GraphCount     func(graph p, kind int32) uintptr                                                                                     `c:"rlx_graph_count"`
	GraphSigType   func(graph p, kind int32, index uintptr, buffer p, room uintptr, size *uintptr, e *p) int32                           `c:"rlx_graph_signature_type"`
	GraphVjp       func(graph, wrt, given p, withOutputs int32, result, e *p) int32                                                      `c:"rlx_graph_vjp"`
	GraphJvp       func(graph, active p, result, e *p) int32                                                                             `c:"rlx_graph_jvp"`
	GraphBatch     func(graph, batched p, size string, result, e *p) int32                                                               `c:"rlx_graph_batch"`
	GraphFree      func(graph p)                                                                                                         `c:"rlx_graph_free"`

	Devices         func(json, e *p) int32                                                                                                     `c:"rlx_devices"`
	DeviceAvailable func(device string) int32                                                                                                  `c:"rlx_device_available"`
	PickBestDevice  func() string                                                                                                              `c:"rlx_pick_best_device"`
	SessionCreate   func(device string, options *cSessionOptions, session, e *p) int32                                                         `c:"rlx_session_create"`
	SessionFree     func(session p)                                                                                                            `c:"rlx_session_free"`
	Compile         func(session, graph p, options *cCompileOptions, compiled, e *p) int32                                                     `c:"rlx_compile"`
	CompileText     func(session, text p, size uintptr, names, types, values p, count uintptr, options *cCompileOptions, compiled, e *p) int32 `c:"rlx_compile_text"`
	GraphReport     func(graph p, device string, options *cCompileOptions, json, e *p) int32                                                   `c:"rlx_graph_report"`

	CompiledSetParam func(compiled p, name string, tensor p, e *p) int32                                            `c:"rlx_compiled_set_param"`
	CompiledCount    func(compiled p, kind int32) uintptr                                                           `c:"rlx_compiled_count"`
	CompiledName     func(compiled p, kind int32, index uintptr) string                                             `c:"rlx_compiled_name"`
	CompiledType     func(compiled p, kind int32, index uintptr, buffer p, room uintptr, size *uintptr, e *p) int32 `c:"rlx_compiled_type"`
	CompiledRun      func(compiled, inputs p, count uintptr, outputs p, outputCount uintptr, e *p) int32            `c:"rlx_compiled_run"`
	CompiledCall     uintptr                                                                                        `c:"rlx_compiled_call"`
	CompiledReport   func(compiled p, json *p, e *p) int32                                                          `c:"rlx_compiled_report"`
	CompiledFree     func(compiled p)                                                                               `c:"rlx_compiled_free"`
	CompiledSubmit   func(compiled, inputs p, count uintptr, outputs p, outputCount uintptr, run, e *p) int32       `c:"rlx_compiled_submit"`
	CompiledAsync    func(compiled, inputs p, count uintptr, outputs p, outputCount uintptr, run, e *p) int32       `c:"rlx_compiled_run_async"`

	EventIsDone func(event p) int32                                       `c:"rlx_event_is_done"`
	EventWait   func(event p, nanoseconds int64, done *int32, e *p) int32 `c:"rlx_event_wait"`
	EventOnDone func(event p, done, context uintptr, e *p) int32          `c:"rlx_event_on_done"`
	EventFree   func(event p)                                             `c:"rlx_event_free"`
	RunEvent    func(run p, event, e *p) int32                            `c:"rlx_run_event"`
	RunCancel   func(run p, e *p) int32                                   `c:"rlx_run_cancel"`
	RunFree     func(run p)                                               `c:"rlx_run_free"`

	DevicePut           func(tensor p, device string, result, e *p) int32 `c:"rlx_device_put"`
	DeviceTensorDtype   func(tensor p) string                             `c:"rlx_device_tensor_dtype"`
	DeviceTensorRank    func(tensor p) uintptr                            `c:"rlx_device_tensor_rank"`
	DeviceTensorDims    func(tensor p) p                                  `c:"rlx_device_tensor_dims"`
	DeviceTensorDevice  func(tensor p) string                             `c:"rlx_device_tensor_device"`
	DeviceTensorWhyGone func(tensor p) string                             `c:"rlx_device_tensor_why_gone"`
	DeviceTensorReady   func(tensor p, event, e *p) int32                 `c:"rlx_device_tensor_ready"`
	DeviceTensorToHost  func(tensor p, result, e *p) int32                `c:"rlx_device_tensor_to_host"`
	DeviceTensorTo      func(tensor p, device string, result, e *p) int32 `c:"rlx_device_tensor_to"`
	DeviceTensorWrite   func(tensor, value p, e *p) int32                 `c:"rlx_device_tensor_write"`
	DeviceTensorFree    func(tensor p)                                    `c:"rlx_device_tensor_free"`

	CoremlLoad        func(path string, options *cCoremlOptions, model, e *p) int32                                              `c:"rlx_coreml_load"`
	CoremlDescription func(model p, json, e *p) int32                                                                            `c:"rlx_coreml_description"`
	CoremlMakeState   func(model p, state, e *p) int32                                                                           `c:"rlx_coreml_make_state"`
	CoremlStateRead   func(state p, name string, tensor, e *p) int32                                                             `c:"rlx_coreml_state_read"`
	CoremlStateWrite  func(state p, name string, tensor p, e *p) int32                                                           `c:"rlx_coreml_state_write"`
	CoremlStateFree   func(state p)                                                                                              `c:"rlx_coreml_state_free"`
	CoremlOutputCount func(model p) uintptr                                                                                      `c:"rlx_coreml_output_count"`
	CoremlOutputName  func(model p, index uintptr) string                                                                        `c:"rlx_coreml_output_name"`
	CoremlPredict     func(model, names, inputs p, count uintptr, state, outputs p, outputCount uintptr, e *p) int32             `c:"rlx_coreml_predict"`
	CoremlWrite       func(path string, graph, names, params p, count uintptr, options *cCoremlWriteOptions, report, e *p) int32 `c:"rlx_coreml_write"`
	CoremlFree        func(model p)                                                                                              `c:"rlx_coreml_free"`

	TrainingCreate      func(session, loss, names, values p, count uintptr, config *byte, training, e *p) int32                                           `c:"rlx_training_create"`
	TrainingStep        func(training, names, values p, count uintptr, accumulate int32, result *cStepResult, outputs p, outputCount uintptr, e *p) int32 `c:"rlx_training_step"`
	TrainingAccumulated func(training p, count *int64, e *p) int32                                                                                        `c:"rlx_training_step_accumulated"`
	TrainingEvaluate    func(training, names, values p, count uintptr, averaged int32, outputs p, outputCount uintptr, e *p) int32                        `c:"rlx_training_evaluate"`
	TrainingSetRate     func(training p, rate float64, e *p) int32                                                                                        `c:"rlx_training_set_learning_rate"`
	TrainingParam       func(training p, name string, averaged int32, tensor, e *p) int32                                                                 `c:"rlx_training_param"`
	TrainingSave        func(training p, path string, names, texts p, count uintptr, e *p) int32                                                          `c:"rlx_training_save"`
	TrainingLoad        func(training p, path string, notes, e *p) int32                                                                                  `c:"rlx_training_load"`
	TrainingFree        func(training p)                                                                                                                  `c:"rlx_training_free"`

	EncoderLoad      func(folder, device string, options, compile p, encoder, e *p) int32 `c:"rlx_encoder_load"`
	EncoderEmbed     func(encoder, texts p, count uintptr, tensor, e *p) int32            `c:"rlx_encoder_embed"`
	EncoderFree      func(encoder p)                                                      `c:"rlx_encoder_free"`
	EncoderTokenizer func(encoder p, tokenizer, e *p) int32                               `c:"rlx_encoder_tokenizer"`

	TokenizerLoad          func(path string, tokenizer, e *p) int32                                                     `c:"rlx_tokenizer_load"`
	TokenizerSet           func(tokenizer, truncation, padding p, e *p) int32                                           `c:"rlx_tokenizer_set"`
	TokenizerDescribe      func(tokenizer p, json, e *p) int32                                                          `c:"rlx_tokenizer_describe"`
	TokenizerEncode        func(tokenizer, texts p, count uintptr, pair, addSpecial int32, encodings, e *p) int32       `c:"rlx_tokenizer_encode"`
	TokenizerDecode        func(tokenizer, ids p, count uintptr, skipSpecial int32, text *p, size *uintptr, e *p) int32 `c:"rlx_tokenizer_decode"`
	TokenizerTokenToID     func(tokenizer p, token string, id *int32, e *p) int32                                       `c:"rlx_tokenizer_token_to_id"`
	TokenizerIDToToken     func(tokenizer p, id int32, text *p, size *uintptr, e *p) int32                              `c:"rlx_tokenizer_id_to_token"`
	TokenizerSpecialAsText func(tokenizer p, asText int32, e *p) int32                                                  `c:"rlx_tokenizer_set_encode_special_tokens"`
	TokenizerFree          func(tokenizer p)                                                                            `c:"rlx_tokenizer_free"`
	EncodingsCount         func(encodings p) uintptr                                                                    `c:"rlx_encodings_count"`
	EncodingsTensor        func(encodings p, index uintptr, what string, tensor, e *p) int32                            `c:"rlx_encodings_tensor"`
	EncodingsToken         func(encodings p, index, place uintptr, size *uintptr) p                                     `c:"rlx_encodings_token"`
	EncodingsOverflow      func(encodings p, index uintptr, overflow, e *p) int32                                       `c:"rlx_encodings_overflow"`
	EncodingsFree          func(encodings p)                                                                            `c:"rlx_encodings_free"`
	DecodeStreamNew        func(tokenizer p, skipSpecial int32, stream, e *p) int32                                     `c:"rlx_decode_stream_new"`
	DecodeStreamPut        func(stream p, id int32, text *p, size *uintptr, e *p) int32                                 `c:"rlx_decode_stream_put"`
	DecodeStreamFinish     func(stream p, text *p, size *uintptr, e *p) int32                                           `c:"rlx_decode_stream_finish"`
	DecodeStreamFree       func(stream p)                                                                               `c:"rlx_decode_stream_free"`

	ChatTemplateParse    func(text p, size uintptr, chat, e *p) int32                                `c:"rlx_chat_template_parse"`
	ChatTemplateLoad     func(path string, chat, e *p) int32                                         `c:"rlx_chat_template_load"`
	ChatTemplateDescribe func(chat p, json, e *p) int32                                              `c:"rlx_chat_template_describe"`
	ChatTemplateApply    func(chat p, messages, settings string, text *p, size *uintptr, e *p) int32 `c:"rlx_chat_template_apply"`
	ChatTemplateFree     func(chat p)                                                                `c:"rlx_chat_template_free"`

	LanguageModelLoad         func(path, device string, options *cLanguageModelOptions, compile *cCompileOptions, model, e *p) int32 `c:"rlx_language_model_load"`
	LanguageModelDescribe     func(model p, json, e *p) int32                                                                        `c:"rlx_language_model_describe"`
	LanguageModelTokenizer    func(model p, tokenizer, e *p) int32                                                                   `c:"rlx_language_model_tokenizer"`
	LanguageModelChatTemplate func(model p, chat, e *p) int32                                                                        `c:"rlx_language_model_chat_template"`
	LanguageModelPrompt       func(model, text p, size uintptr, kind int32, tensor, e *p) int32                                      `c:"rlx_language_model_prompt"`
	LanguageModelAllLogits    func(model, ids p, count uintptr, tensor, e *p) int32                                                  `c:"rlx_language_model_all_logits"`
	LanguageModelReport       func(model p, json, e *p) int32                                                                        `c:"rlx_language_model_report"`
	LanguageModelToGGUF       func(folder, path, options string, notes, e *p) int32                                                  `c:"rlx_language_model_to_gguf"`
	LanguageModelToFolder     func(path, folder, options string, notes, e *p) int32                                                  `c:"rlx_language_model_to_folder"`
	LanguageModelFree         func(model p)                                                                                          `c:"rlx_language_model_free"`

	SequenceNew         func(model p, sequence, e *p) int32                      `c:"rlx_sequence_new"`
	SequenceCopy        func(sequence p, made, e *p) int32                       `c:"rlx_sequence_copy"`
	SequenceLogits      func(sequence, ids p, count uintptr, tensor, e *p) int32 `c:"rlx_sequence_logits"`
	SequenceAllLogits   func(sequence, ids p, count uintptr, tensor, e *p) int32 `c:"rlx_sequence_all_logits"`
	SequencePosition    func(sequence p) int64                                   `c:"rlx_sequence_position"`
	SequenceRewind      func(sequence p, tokens int64, e *p) int32               `c:"rlx_sequence_rewind"`
	SequenceMemoryBytes func(sequence p) uintptr                                 `c:"rlx_sequence_memory_bytes"`
	SequenceFree        func(sequence p)                                         `c:"rlx_sequence_free"`

	SamplerNew     func(settings string, sampler, e *p) int32                                                            `c:"rlx_sampler_new"`
	SamplerSee     func(sampler, ids p, count uintptr, e *p) int32                                                       `c:"rlx_sampler_see"`
	SamplerSample  func(sampler, logits p, count uintptr, id *int32, e *p) int32                                         `c:"rlx_sampler_sample"`
	SamplerChances func(sampler, logits p, count uintptr, ids, probabilities p, room uintptr, made *uintptr, e *p) int32 `c:"rlx_sampler_chances"`
	SamplerReset   func(sampler p, e *p) int32                                                                           `c:"rlx_sampler_reset"`
	SamplerFree    func(sampler p)                                                                                       `c:"rlx_sampler_free"`

	GeneratorNew      func(model p, settings string, generator, e *p) int32 `c:"rlx_generator_new"`
	GeneratorBegin    func(generator, ids p, count uintptr, e *p) int32     `c:"rlx_generator_begin"`
	GeneratorCancel   func(generator p, e *p) int32                         `c:"rlx_generator_cancel"`
	GeneratorNext     func(generator p, text *p, size *uintptr, e *p) int32 `c:"rlx_generator_next"`
	GeneratorDescribe func(generator p, json, e *p) int32                   `c:"rlx_generator_describe"`
	GeneratorReset    func(generator p, e *p) int32                         `c:"rlx_generator_reset"`
	GeneratorFree     func(generator p)                                     `c:"rlx_generator_free"`
}

// buffer is rlx_buffer.
type buffer struct {
	data unsafe.Pointer
	size uintptr
}

type cSessionOptions struct {
	structSize      uintptr
	threads, narrow int32
}

type cCompileOptions struct {
	structSize                                     uintptr
	strict, common, mode, accuracy, batchInvariant int32
	donate                                         unsafe.Pointer
	donateCount                                    uintptr
	more                                           *byte
}

type cCoremlOptions struct {
	structSize           uintptr
	function             *byte
	f32, threads, seeded int32
	seed                 uint64
}

type cCoremlWriteOptions struct {
	structSize                                  uintptr
	minimumIOS, narrow                          int32
	dims, description, author, version, license *byte
	precision, shapes, features                 *byte
	nearest                                     int32
}

type cLanguageModelOptions struct {
	structSize              uintptr
	threads, copied         int32
	context, chunk          int64
	cache                   *byte
	adapters, adapterScales unsafe.Pointer
	adapterCount            uintptr
}

type cStepResult struct {
	structSize                              uintptr
	loss, gradNorm, learningRate, lossScale float64
	step                                    int64
	path, skipped                           int32
}
