package rlx

import "unsafe"

type p = unsafe.Pointer

// functions are those of include/rlx/c.h that the package calls, by their names there. A plain address is called
// through purego.SyscallN, without reflection: what runs once per run.
type functions struct {
	VersionString func() string    `c:"rlx_version_string"`
	ErrorMessage  func(e p) string `c:"rlx_error_message"`
	ErrorReport   func(e p) string `c:"rlx_error_report"`
	ErrorFree     func(e p)        `c:"rlx_error_free"`
	TextFree      func(text p)     `c:"rlx_text_free"`

	TensorCreate func(dtype string, dims p, rank uintptr, data p, size uintptr, tensor, e *p) int32                           `c:"rlx_tensor_create"`
	TensorBorrow func(dtype string, dims p, rank uintptr, data p, size uintptr, release, context uintptr, tensor, e *p) int32 `c:"rlx_tensor_borrow"`
	TensorDtype  func(tensor p) string                                                                                        `c:"rlx_tensor_dtype"`
	TensorRank   func(tensor p) uintptr                                                                                       `c:"rlx_tensor_rank"`
	TensorDims   func(tensor p) p                                                                                             `c:"rlx_tensor_dims"`
	TensorSize   func(tensor p) uintptr                                                                                       `c:"rlx_tensor_size"`
	TensorData   func(tensor p) p                                                                                             `c:"rlx_tensor_data"`
	TensorFree   func(tensor p)                                                                                               `c:"rlx_tensor_free"`

	GraphParse    func(text p, size uintptr, graph, e *p) int32                                                                         `c:"rlx_graph_parse"`
	GraphLoad     func(path string, graph, e *p) int32                                                                                  `c:"rlx_graph_load"`
	GraphSave     func(graph p, path string, e *p) int32                                                                                `c:"rlx_graph_save"`
	GraphCreate   func(name string, graph, e *p) int32                                                                                  `c:"rlx_graph_create"`
	GraphInput    func(graph p, name, kind string, value *Value, e *p) int32                                                            `c:"rlx_graph_input"`
	GraphParam    func(graph p, name, kind string, value *Value, e *p) int32                                                            `c:"rlx_graph_param"`
	GraphConstant func(graph, tensor p, value *Value, e *p) int32                                                                       `c:"rlx_graph_constant"`
	GraphEmit     func(graph p, op string, operands p, count uintptr, attrs string, results p, room uintptr, made *uintptr, e *p) int32 `c:"rlx_graph_emit"`
	GraphInline   func(graph, from, inputs p, count uintptr, results p, room uintptr, made *uintptr, e *p) int32                        `c:"rlx_graph_inline"`
	GraphOutput   func(graph p, value uint64, name string, e *p) int32                                                                  `c:"rlx_graph_output"`
	GraphType     func(graph p, value uint64, buffer p, room uintptr, size *uintptr, e *p) int32                                        `c:"rlx_graph_type"`
	GraphText     func(graph p) string                                                                                                  `c:"rlx_graph_text"`
	GraphCount    func(graph p, kind int32) uintptr                                                                                     `c:"rlx_graph_count"`
	GraphSigType  func(graph p, kind int32, index uintptr, buffer p, room uintptr, size *uintptr, e *p) int32                           `c:"rlx_graph_signature_type"`
	GraphVjp      func(graph, wrt, given p, withOutputs int32, result, e *p) int32                                                      `c:"rlx_graph_vjp"`
	GraphJvp      func(graph, active p, result, e *p) int32                                                                             `c:"rlx_graph_jvp"`
	GraphBatch    func(graph, batched p, size string, result, e *p) int32                                                               `c:"rlx_graph_batch"`
	GraphFree     func(graph p)                                                                                                         `c:"rlx_graph_free"`

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

	EncoderLoad  func(folder, device string, options, compile p, encoder, e *p) int32 `c:"rlx_encoder_load"`
	EncoderEmbed func(encoder, texts p, count uintptr, tensor, e *p) int32            `c:"rlx_encoder_embed"`
	EncoderFree  func(encoder p)                                                      `c:"rlx_encoder_free"`
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

type cStepResult struct {
	structSize                              uintptr
	loss, gradNorm, learningRate, lossScale float64
	step                                    int64
	path, skipped                           int32
}
