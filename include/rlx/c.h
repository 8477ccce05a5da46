/* The C ABI: the only one, and what every binding stands on. Plain C11.

   Objects are opaque and freed by their own rlx_<noun>_free, which takes NULL. A call that can fail returns an
   rlx_status; on anything but RLX_OK it leaves its results alone and, if `error` is not NULL, stores there an error to
   be freed by rlx_error_free. No exception crosses this boundary. Strings are UTF-8 and end in NUL unless a size is
   given; those returned belong to the object they were asked of. A pointer that may be NULL is said to be so; any other
   that is NULL is RLX_INVALID_ARGUMENT, as is a count that no memory holds. A function without a status gives 0, "" or
   NULL for a NULL. An object may be used by one thread at a time, but for
   events, states and language models, and for rlx_compiled_run, rlx_compiled_run_async, rlx_compiled_submit and what
   makes states and runs with them of one compiled graph, which may be called from several threads at once. */
#ifndef RLX_C_H
#define RLX_C_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum rlx_status {
  RLX_OK = 0,
  RLX_INVALID_ARGUMENT = 1,
  RLX_SHAPE_MISMATCH = 2,
  RLX_UNSUPPORTED = 3,
  RLX_PARSE_ERROR = 4,
  RLX_NOT_FOUND = 5,
  RLX_IO_ERROR = 6,
  RLX_OUT_OF_MEMORY = 7,
  RLX_INTERNAL = 8,
  RLX_CANCELLED = 9,
  RLX_DEVICE_LOST = 10,
  RLX_TOO_LARGE = 11
} rlx_status;

typedef struct rlx_error rlx_error;                 /* freed by rlx_error_free */
typedef struct rlx_tensor rlx_tensor;               /* freed by rlx_tensor_free */
typedef struct rlx_graph rlx_graph;                 /* freed by rlx_graph_free */
typedef struct rlx_session rlx_session;             /* freed by rlx_session_free */
typedef struct rlx_compiled rlx_compiled;           /* freed by rlx_compiled_free */
typedef struct rlx_training rlx_training;           /* freed by rlx_training_free */
typedef struct rlx_quantization rlx_quantization;   /* freed by rlx_quantization_free */
typedef struct rlx_device_tensor rlx_device_tensor; /* freed by rlx_device_tensor_free */
typedef struct rlx_event rlx_event;                 /* freed by rlx_event_free */
typedef struct rlx_run rlx_run;                     /* freed by rlx_run_free */
typedef struct rlx_state rlx_state;                 /* freed by rlx_state_free */

/* ---- the library ---- */
/* "0.1.0" */
const char* rlx_version_string(void);
/* Loads a shared library that brings backends (rlx/backend.h), ops or kernels, as rlx::load_plugin (rlx/plugin.h) does;
   it stays loaded until the process ends. */
rlx_status rlx_load_plugin(const char* path, rlx_error** error);

/* ---- errors ---- */
/* The message, then one line for each thing that was being done. Belongs to the error. */
const char* rlx_error_message(const rlx_error* error);
rlx_status rlx_error_status(const rlx_error* error);
void rlx_error_free(rlx_error* error);
/* An error of a caller's own, for functions that the library calls back. NULL if there is no memory for it. */
rlx_error* rlx_error_create(rlx_status status, const char* message);
/* The dispatch report as JSON, of a compile that failed because the device does not run all of the graph; "" of any
   other error. Belongs to the error. */
const char* rlx_error_report(const rlx_error* error);
/* Whether the error is of a file that would be larger than what reads it can take. If so, the bytes that it would have
   and the most that it may have are stored; either pointer may be NULL. */
int rlx_error_is_too_large(const rlx_error* error, uint64_t* bytes, uint64_t* limit);

/* ---- messages: what RLX says while it works, beside errors (rlx/log.h) ---- */
typedef enum rlx_log_level {
  RLX_LOG_OFF = -1,
  RLX_LOG_ERROR = 0,   /* something failed where no call could tell it */
  RLX_LOG_WARNING = 1, /* the result is right, and something was not as it should be */
  RLX_LOG_INFO = 2,    /* what was compiled or read, and how long it took */
  RLX_LOG_DEBUG = 3    /* each pass of a compile */
} rlx_log_level;
/* Gets one message, without a newline at its end, on whichever thread says it, several at once. It must not call
   rlx_log_set_sink; what is said while it runs, on its thread, goes to standard error. */
typedef void (*rlx_log_sink)(void* context, rlx_log_level level, const char* message);
/* Sends messages to `sink`; NULL: to standard error, as before the first call. When it returns, no thread is in the
   sink of before. */
rlx_status rlx_log_set_sink(rlx_log_sink sink, void* context, rlx_error** error);
/* The level up to which messages are made, an rlx_log_level; at first RLX_LOG_WARNING, or what the environment variable
   RLX_LOG says. */
rlx_status rlx_log_set_level(int most, rlx_error** error);
rlx_log_level rlx_log_get_level(void);

/* ---- tensors: dense, row-major; `dtype` is a name: "f32", "i64", "bool", ... ----
   An element of "bool" is a byte that is 0 or 1. Any other is refused with an error that names the element, here and in
   rlx_compiled_call: what compares as true in C is written as `x != 0`. */
/* Copies `size` bytes from `data`; NULL gives zeros. */
rlx_status rlx_tensor_create(const char* dtype, const int64_t* dims, size_t rank, const void* data, size_t size,
                             rlx_tensor** tensor, rlx_error** error);
/* Shares the bytes, without a copy: they must stay and not change until `release(context)` is called, which happens
   once, on any thread, when nothing refers to them any more. `release` may be NULL. */
rlx_status rlx_tensor_borrow(const char* dtype, const int64_t* dims, size_t rank, const void* data, size_t size,
                             void (*release)(void* context), void* context, rlx_tensor** tensor, rlx_error** error);
const char* rlx_tensor_dtype(const rlx_tensor* tensor);
size_t rlx_tensor_rank(const rlx_tensor* tensor);
const int64_t* rlx_tensor_dims(const rlx_tensor* tensor);
size_t rlx_tensor_size(const rlx_tensor* tensor); /* in bytes */
const void* rlx_tensor_data(const rlx_tensor* tensor);
void rlx_tensor_free(rlx_tensor* tensor);

/* ---- graphs ---- */
/* A value in a graph being built: valid as long as its graph. */
typedef struct rlx_value {
  int32_t node, result;
} rlx_value;

/* Parses the textual IR, with or without the version line. */
rlx_status rlx_graph_parse(const char* text, size_t size, rlx_graph** graph, rlx_error** error);
rlx_status rlx_graph_load(const char* path, rlx_graph** graph, rlx_error** error);
rlx_status rlx_graph_save(const rlx_graph* graph, const char* path, rlx_error** error);
rlx_status rlx_graph_create(const char* name, rlx_graph** graph, rlx_error** error);
/* `type` as in the textual IR: "f32[N, 4]". */
rlx_status rlx_graph_input(rlx_graph* graph, const char* name, const char* type, rlx_value* value, rlx_error** error);
rlx_status rlx_graph_param(rlx_graph* graph, const char* name, const char* type, rlx_value* value, rlx_error** error);
rlx_status rlx_graph_constant(rlx_graph* graph, const rlx_tensor* tensor, rlx_value* value, rlx_error** error);
/* Adds a node. `attrs` as in the textual IR, "{axis = -1}", or NULL. Stores the op's results in `results`, which has
   room for `room` of them, and how many there are in *count (if not NULL); with too little room nothing is added. */
rlx_status rlx_graph_emit(rlx_graph* graph, const char* op, const rlx_value* operands, size_t operand_count,
                          const char* attrs, rlx_value* results, size_t room, size_t* count, rlx_error** error);
/* The same for bindings that trace: stores the types of the results too, as text, one after another with ';' between
   them, written like snprintf: at most `types_room` bytes with the NUL, *types_size (if not NULL) is what it needs. */
rlx_status rlx_graph_trace(rlx_graph* graph, const char* op, const rlx_value* operands, size_t operand_count,
                           const char* attrs, rlx_value* results, size_t room, size_t* count, char* types,
                           size_t types_room, size_t* types_size, rlx_error** error);
/* Emits the nodes of `from`, which has no params, with these values for its inputs; stores its outputs. `from` may be
   `graph` itself, as it is before the call. */
rlx_status rlx_graph_inline(rlx_graph* graph, const rlx_graph* from, const rlx_value* inputs, size_t input_count,
                            rlx_value* results, size_t room, size_t* count, rlx_error** error);
/* `name` may be NULL. */
rlx_status rlx_graph_output(rlx_graph* graph, rlx_value value, const char* name, rlx_error** error);
/* The type of a value as text, written like snprintf: at most `room` bytes with the NUL, *size (if not NULL) is set to
   what it needs. */
rlx_status rlx_graph_type(const rlx_graph* graph, rlx_value value, char* buffer, size_t room, size_t* size,
                          rlx_error** error);
/* The textual IR. The string belongs to the graph, until the next call for it. */
const char* rlx_graph_text(rlx_graph* graph);
/* Inputs, params, outputs: `kind` is 0, 1 or 2, as for rlx_compiled_count. */
size_t rlx_graph_count(const rlx_graph* graph, int kind);
/* Its type as text, like rlx_graph_type. */
rlx_status rlx_graph_signature_type(const rlx_graph* graph, int kind, size_t index, char* buffer, size_t room,
                                    size_t* size, rlx_error** error);
void rlx_graph_free(rlx_graph* graph);

/* ---- transforms: graph in, graph out; the graph has no params ----
   A mask has one byte for each input, or output, of the graph: 0 or 1. Inputs and outputs keep their order. */
/* Reverse mode. Inputs: those of the graph, then a cotangent for each output in `given`. Outputs: those of the graph if
   `with_outputs`, then a cotangent for each input in `wrt`. */
rlx_status rlx_graph_vjp(const rlx_graph* graph, const uint8_t* wrt, const uint8_t* given, int with_outputs,
                         rlx_graph** result, rlx_error** error);
/* Forward mode. Inputs: those of the graph, then a tangent for each input in `active`. Outputs: those of the graph,
   then a tangent for each float or complex one. */
rlx_status rlx_graph_jvp(const rlx_graph* graph, const uint8_t* active, rlx_graph** result, rlx_error** error);
/* The inputs in `batched`, and all outputs, get a dim in front; `size` is a dim as in the textual IR: "8", "N". */
rlx_status rlx_graph_batch(const rlx_graph* graph, const uint8_t* batched, const char* size, rlx_graph** result,
                           rlx_error** error);

/* ---- custom ops ----
   A registered op is one like those of the library: rlx_graph_emit and the textual IR know it by its name, derivatives
   go through it, devices run its decomposition, and `rlx ops` lists it. Its rules are functions of the caller, which
   the library calls on any thread, several at once. A rule ends with RLX_OK, or stores an error of rlx_error_create;
   what it is given is valid until it returns. */

/* What every rule is told. */
typedef struct rlx_op_call {
  size_t struct_size;
  const char* op;
  const char* attributes; /* JSON, every attribute by its name: {"limit": 0.5, "axes": [0, 1]}; floats that JSON has no
                             number for are "inf", "-inf" and "nan" */
  const char* const* types; /* of the operands, as text: "f32[N, 4]" */
  size_t count;
} rlx_op_call;

/* The types that a shape rule gives. */
typedef struct rlx_op_results rlx_op_results;
rlx_status rlx_op_add_result(rlx_op_results* results, const char* type, rlx_error** error);

/* One run of a kernel. Operands and results are dense and row-major; operands must not be written. */
typedef struct rlx_kernel_run rlx_kernel_run;
typedef struct rlx_kernel_arguments {
  size_t struct_size;
  const void* const* operands; /* as many as the call has types, which are without symbols */
  void* const* results;
  const char* const* result_types; /* as text */
  size_t result_count;
  int threads;               /* the most that the run may use, the calling thread included */
  const rlx_kernel_run* run; /* for rlx_kernel_parallel_for */
} rlx_kernel_arguments;
/* Calls part(context, 0) ... part(context, parts - 1) on the threads of the run, and returns when all have returned. */
rlx_status rlx_kernel_parallel_for(const rlx_kernel_run* run, int64_t parts, void (*part)(void* context, int64_t index),
                                   void* context, rlx_error** error);

typedef struct rlx_op_definition {
  size_t struct_size;     /* sizeof(rlx_op_definition) */
  const char* name;       /* letters, digits and '_' */
  const char* doc;        /* a line; NULL: none */
  const char* source;     /* where it is described; NULL: none */
  const char* operands;   /* names with spaces between them: "x weight bias?"; the last ones may end in '?' (may be left
                             out), and the very last in "..." (any number) */
  const char* attributes; /* names, kinds and defaults, NULL for none: "limit: float = 1, axes: list of int = []". Kinds
                             are bool, int, float, string, list of int, list of float */
  const char* samples;    /* operands that exercise it, for `rlx test-device`, a line for each: "f64[3, 5], i32[5]
                             {axis = 1} in [-1, 1]"; f64: each dtype that it takes. NULL: none */
  int elementwise;        /* each element of a result depends on the operands' elements at its index alone */
  int not_differentiable; /* its derivatives are zero, which is no error */
  void* context;          /* given to every function below; all must stay as long as the process */
  /* Calls rlx_op_add_result for each result, in order, or refuses the operands. Dims may be symbols. */
  rlx_status (*infer)(void* context, const rlx_op_call* call, rlx_op_results* results, rlx_error** error);
  /* Computes: stores a new tensor of the type that `infer` gave in each of `count` results, which the library frees.
     NULL if there is a decomposition. */
  rlx_status (*reference)(void* context, const rlx_op_call* call, const rlx_tensor* const* operands,
                          rlx_tensor** results, size_t count, rlx_error** error);
  /* Stores a new graph of the library's ops, whose inputs are the operands and whose outputs are the results; the
     library frees it. NULL: the op is a primitive, which the CPU alone runs, by its kernel or its reference. */
  rlx_status (*decompose)(void* context, const rlx_op_call* call, rlx_graph** graph, rlx_error** error);
  /* Stores a new graph whose inputs are the operands, the results, and a cotangent for each float or complex result,
     and whose outputs are a cotangent for each float or complex operand. NULL: derivatives go through the
     decomposition. */
  rlx_status (*vjp)(void* context, const rlx_op_call* call, rlx_graph** graph, rlx_error** error);
  /* Computes on the CPU, natively; NULL for none. A reference or a decomposition is needed beside it. */
  rlx_status (*kernel)(void* context, const rlx_op_call* call, const rlx_kernel_arguments* arguments,
                       rlx_error** error);
  const char* kernel_name;   /* for reports and profiles; NULL: as the op's */
  const char* kernel_dtypes; /* of which all operands must be, with spaces between them; NULL: any whose elements have
                                addresses */
} rlx_op_definition;
/* Fails if the name is taken, if `infer` or both of `reference` and `decompose` are NULL, or if a text has another
   form. What it points to is copied, but for `context` and the functions. */
rlx_status rlx_op_register(const rlx_op_definition* definition, rlx_error** error);
/* Its name is free again. Graphs that have the op, and what was compiled of them, still run; a graph that was compiled
   with its kernel is an error once it meets new shapes. */
rlx_status rlx_op_unregister(const char* name, rlx_error** error);

/* ---- devices and sessions ---- */
/* 1 if the device, "cpu" for one, can run here; else 0. */
int rlx_device_available(const char* device);
/* The name of the default device: an accelerator if one can run here, else the processor; a constant. */
const char* rlx_pick_best_device(void);

/* Memory of the caller, dense and row-major. */
typedef struct rlx_buffer {
  void* data;
  size_t size; /* in bytes */
} rlx_buffer;

typedef struct rlx_session_options {
  size_t struct_size; /* sizeof(rlx_session_options) */
  int threads; /* 0: those of rlx_set_thread_pool, else as many as the process may use, or `rlx calibrate` found of use
                */
  int narrow;  /* every compile may narrow i64 and f64 to i32 and f32 on a device without numbers of 64 bits */
} rlx_session_options;
/* `device` as `rlx devices` names it, "cpu" or "coreml:ane"; "" is the device that the environment variable RLX_DEVICE
   names, else the processor. `options` may be NULL. */
rlx_status rlx_session_create(const char* device, const rlx_session_options* options, rlx_session** session,
                              rlx_error** error);
void rlx_session_free(rlx_session* session);

typedef struct rlx_compile_options {
  size_t struct_size;  /* sizeof(rlx_compile_options) */
  int strict;          /* a node that is not native is an error */
  int common;          /* decompose every composite */
  int mode;            /* 0 eager, 1 lazy, 2 ahead of time */
  int accuracy;        /* of products of f32: 0 as sums of f32 are, 1 exact, 2 relative to a row's largest number */
  int batch_invariant; /* a row's bits do not depend on how many rows are multiplied with it */
  const char* const* donate; /* names of inputs whose memory a run may overwrite; NULL for none */
  size_t donate_count;
  /* The other members of CompileOptions in rlx/compile.h as text in the form of attributes, or NULL; each may be left
     out: {rounding = relaxed, compute = bf16, force_common = ["softmax"], force_native = ["gelu"], skip_passes =
     ["fuse_elementwise"], narrow = true, cache_dir = "/tmp/programs", isa = "avx2", bounds = ["S=512"],
     fallback = ["cpu"], placement = ["encoder.*=tiny", "op:sort=cpu"]}: the most that the CPU uses of the processor's
     instructions, by the names of the environment variable RLX_ISA; the most that symbols can be; devices that may
     run what the session's does not take, and where nodes are to run, each as "PATTERN=DEVICE". */
  const char* more;
} rlx_compile_options;
/* `options` may be NULL. The graph may be freed afterwards. */
rlx_status rlx_compile(rlx_session* session, const rlx_graph* graph, const rlx_compile_options* options,
                       rlx_compiled** compiled, rlx_error** error);
/* Compiles a graph that stands in text: rlx_graph_parse and rlx_compile in one call, for bindings that record a graph
   themselves. A constant may stand elsewhere, as in a .rlx file, `%1 = constant() {value = f32[2] @"c1"} : f32[2]`:
   then `names` has its name, `types` its type as text, "f32[2]", and `values` its bytes, which are copied. */
rlx_status rlx_compile_text(rlx_session* session, const char* text, size_t size, const char* const* names,
                            const char* const* types, const rlx_buffer* values, size_t count,
                            const rlx_compile_options* options, rlx_compiled** compiled, rlx_error** error);
/* The graph alone that rlx_compile_text compiles, to be saved, or written as a package. */
rlx_status rlx_graph_parse_with(const char* text, size_t size, const char* const* names, const char* const* types,
                                const rlx_buffer* values, size_t count, rlx_graph** graph, rlx_error** error);
/* Every device that there may be, as JSON, to be freed by rlx_text_free: [{"name", "available", "accelerates",
   "description"}]; the description of one that is not available says why. */
rlx_status rlx_devices(char** json, rlx_error** error);
/* What the compiler knows of a device, as JSON, to be freed by rlx_text_free: {"absent_dtypes", "memory", "limits",
   "convolution_layout", "fuses", "updates_in_place", "passes", "facts", "registered_kernels", "ops", "claims"};
   docs/runtime.md explains them. The hardware need not be there. `device` as for rlx_session_create. */
rlx_status rlx_device_target(const char* device, char** json, rlx_error** error);
/* The dispatch report that a compile would give, as JSON, to be freed by rlx_text_free; nothing is compiled, and an op
   that is missing is a line and no error. `options` may be NULL. */
rlx_status rlx_graph_report(const rlx_graph* graph, const char* device, const rlx_compile_options* options, char** json,
                            rlx_error** error);

/* How long a run of the graph takes on each device that can run here, by what `rlx calibrate` has
   measured: JSON, to be freed by rlx_text_free, [{"device", "us", "why"}], the fastest first; "us" is null of a device
   without a prediction. `numbers` are for the symbols, as "B=1 S=128", or NULL. `options` may be NULL. */
rlx_status rlx_predict_devices(const rlx_graph* graph, const char* numbers, int threads,
                               const rlx_compile_options* options, char** json, rlx_error** error);

/* ---- what a graph is made of, and how it is to be executed ---- */
/* The layers of a graph with their ops, params, shapes, flops and bytes moved, to be freed by rlx_text_free: as JSON
   (docs/manifest.md describes it) with the format "json", as a picture with "svg". `numbers` are for the symbols, as
   "B=1 S=128", or NULL; a picture needs one for each. */
rlx_status rlx_graph_manifest(const rlx_graph* graph, const char* numbers, const char* format, char** text,
                              rlx_error** error);
/* The names of the phases of an execution profile, a file of TOML (docs/profiles.md), as a JSON array in the order of
   the file, to be freed by rlx_text_free. The whole file is read and checked. */
rlx_status rlx_profile_phases(const char* path, char** json, rlx_error** error);
/* What a phase of it means on this machine, as JSON, to be freed by rlx_text_free: {"phase", "device", "passed_over",
   "threads", "narrow", "shapes", "bounds", "compile": {"strict", "accuracy", "batch_invariant", "rounding",
   "kernel_dispatch", "mode", "compute", "isa", "fallback", "placement"}, "cache", "context", "chunk"}. "device" is the
   first one of the profile's that is available, "passed_over" says of those before it why they are not. `phase` may be
   NULL where the profile has one phase or none. */
rlx_status rlx_profile_options(const char* path, const char* phase, char** json, rlx_error** error);

/* ---- compiled graphs ---- */
/* On which of the device's processors each operation runs, as JSON, to be freed by rlx_text_free: {"predicted", "ops":
   [{"op", "name", "device", "reason"}]}. Of "coreml" it is what MLComputePlan says on Apple's systems, and a prediction
   elsewhere. All params must be bound. Fails for devices with one processor. */
rlx_status rlx_compiled_placement(const rlx_compiled* compiled, char** json, rlx_error** error);
/* Stores 1 if runs replay functions that the device has traced once, which "mlx" does in its mode "compiled", else 0.
 */
rlx_status rlx_compiled_is_compiled(const rlx_compiled* compiled, int* is_compiled, rlx_error** error);
/* Shares the tensor, which may be freed afterwards. */
rlx_status rlx_compiled_set_param(rlx_compiled* compiled, const char* name, const rlx_tensor* tensor,
                                  rlx_error** error);
/* What the graph takes and gives: `kind` is 0 for inputs, 1 for params, 2 for outputs. The name belongs to `compiled`;
   NULL beyond the last one. */
size_t rlx_compiled_count(const rlx_compiled* compiled, int kind);
const char* rlx_compiled_name(const rlx_compiled* compiled, int kind, size_t index);
/* Its type as text, like rlx_graph_type. */
rlx_status rlx_compiled_type(const rlx_compiled* compiled, int kind, size_t index, char* buffer, size_t room,
                             size_t* size, rlx_error** error);
/* `inputs` in the order of the graph; stores new tensors, one per output, in `outputs`, to be freed by rlx_tensor_free.
 */
rlx_status rlx_compiled_run(const rlx_compiled* compiled, const rlx_tensor* const* inputs, size_t input_count,
                            rlx_tensor** outputs, size_t output_count, rlx_error** error);
/* The same for a graph without symbols, from memory of the caller into memory of the caller, which overlaps neither an
   input nor another output: nothing is created, nor copied where the memory is aligned to the elements. */
rlx_status rlx_compiled_call(const rlx_compiled* compiled, const rlx_buffer* inputs, size_t input_count,
                             const rlx_buffer* outputs, size_t output_count, rlx_error** error);
/* The dispatch report as JSON; belongs to `compiled`. */
rlx_status rlx_compiled_report(rlx_compiled* compiled, const char** json, rlx_error** error);
void rlx_compiled_free(rlx_compiled* compiled);

/* ---- compiled graphs in files ---- (rlx/artifact.h has what stands in one) */
/* Writes a compiled graph to a file that rlx_session_load runs again, in any process, without the compiler. The file
   carries the values of `param_count` params by their names, 0 for none; the others are bound after it was loaded. It
   appears complete or not at all. */
rlx_status rlx_compiled_save(const rlx_compiled* compiled, const char* path, const char* const* names,
                             const rlx_tensor* const* params, size_t param_count, rlx_error** error);
/* The compiled graph of a file, with the params bound that it carries. Fails, with what was expected, what was found
   and what to do, if the file is damaged, or was compiled by another version of RLX, for another device or machine, or
   with ops or registered kernels that are not here. */
rlx_status rlx_session_load(rlx_session* session, const char* path, rlx_compiled** compiled, rlx_error** error);
/* What such a file says of itself, as JSON, to be freed by rlx_text_free; it need not fit this machine: {"kind",
   "graph", "device", "version", "bytes", "facts", "registered_kernels", "form", "options", "ops", "inputs", "params",
   "outputs", "values", "report"}. */
rlx_status rlx_artifact_describe(const char* path, char** json, rlx_error** error);
/* The graph that it was compiled from, to be compiled again for something else. */
rlx_status rlx_artifact_graph(const char* path, rlx_graph** graph, rlx_error** error);

/* ---- events: the end of work that goes on beside the caller ----
   Any thread may ask an event and wait for it, several at once. */
int rlx_event_is_done(const rlx_event* event);
/* Waits for at most that many nanoseconds, without an end if they are negative. Stores in *done (if not NULL) whether
   the work has ended; it goes on if it has not. Fails with what ended the work, if that failed. */
rlx_status rlx_event_wait(const rlx_event* event, int64_t nanoseconds, int* done, rlx_error** error);
/* Calls `done(context, status, message)` once when the work has ended, also if it has already: on a thread of RLX, one
   call after another. The message is "" after RLX_OK, and belongs to the call. The event may be freed before. */
rlx_status rlx_event_on_done(const rlx_event* event,
                             void (*done)(void* context, rlx_status status, const char* message), void* context,
                             rlx_error** error);
void rlx_event_free(rlx_event* event);

/* ---- tensors on devices ----
   Elements in a device's memory, to which there is no pointer: rlx_device_tensor_to_host gives an rlx_tensor, which
   has. A run may take such a tensor away, as an input that was donated, or leave it torn, if it failed while it wrote:
   reading it is then an error that names the run, until it is written anew. */
/* The memory that a device's tensors are in. */
typedef struct rlx_memory {
  size_t struct_size;      /* sizeof(rlx_memory), set by the caller */
  const char* name;        /* a constant */
  int host_access;         /* 0 direct (the host's own memory: nothing is copied), 1 mapped, 2 none (by copies alone) */
  size_t alignment;        /* of buffers, in bytes */
  uint64_t capacity;       /* bytes; 0: as the operating system allows */
  uint64_t largest_buffer; /* bytes; 0: as its capacity allows */
} rlx_memory;
rlx_status rlx_device_memory(const char* device, rlx_memory* memory, rlx_error** error);
/* What the host and a device with memory of its own exchanged since the process began; all 0 for a device that computes
   in the host's memory. */
typedef struct rlx_transfers {
  size_t struct_size;  /* sizeof(rlx_transfers), set by the caller */
  uint64_t host_waits; /* waits of the host: for elements, or for the end of a run that has none to give */
  uint64_t copies_to_device, bytes_to_device;
  uint64_t copies_to_host, bytes_to_host;
  uint64_t donated_copies; /* donated inputs that were copied first, because their old values are still read */
} rlx_transfers;
rlx_status rlx_device_transfers(const char* device, rlx_transfers* transfers, rlx_error** error);
/* Begins to copy a tensor to a device, and returns; the tensor may be freed afterwards. Shared where the device's
   memory is the host's. `device` as for rlx_session_create. */
rlx_status rlx_device_put(const rlx_tensor* tensor, const char* device, rlx_device_tensor** result, rlx_error** error);
const char* rlx_device_tensor_dtype(const rlx_device_tensor* tensor);
size_t rlx_device_tensor_rank(const rlx_device_tensor* tensor);
const int64_t* rlx_device_tensor_dims(const rlx_device_tensor* tensor);
size_t rlx_device_tensor_size(const rlx_device_tensor* tensor); /* in bytes */
/* The device's name; belongs to the tensor. */
const char* rlx_device_tensor_device(const rlx_device_tensor* tensor);
/* Why it cannot be used, "" if it can; belongs to the tensor, until the next call for it. Waits for nothing. */
const char* rlx_device_tensor_why_gone(rlx_device_tensor* tensor);
/* Ends when the elements may be read. */
rlx_status rlx_device_tensor_ready(const rlx_device_tensor* tensor, rlx_event** event, rlx_error** error);
/* The elements as a new tensor of the host; waits until they are there, and fails with what prevented it. */
rlx_status rlx_device_tensor_to_host(const rlx_device_tensor* tensor, rlx_tensor** result, rlx_error** error);
/* The same elements on another device. */
rlx_status rlx_device_tensor_to(const rlx_device_tensor* tensor, const char* device, rlx_device_tensor** result,
                                rlx_error** error);
/* Writes it anew, behind all work that still reads it; `value` has its type and may be freed afterwards. */
rlx_status rlx_device_tensor_write(rlx_device_tensor* tensor, const rlx_tensor* value, rlx_error** error);
void rlx_device_tensor_free(rlx_device_tensor* tensor);

/* ---- runs in the background ----
   What a run does with input `index`: 0 it stays as it is; 1 it was donated, and becomes the output of its name and
   type; 2 it was donated, and is gone once the run has begun. 0 beyond the last one. */
int rlx_compiled_input_mode(const rlx_compiled* compiled, size_t index);
/* Binds a param to a tensor on the graph's device, whose elements it shares; they are whole when a run reads them. */
rlx_status rlx_compiled_set_param_on_device(rlx_compiled* compiled, const char* name, const rlx_device_tensor* tensor,
                                            rlx_error** error);
/* Begins a run and returns. `inputs` stand in the order of the graph, on its device; the run starts when they are
   ready. Stores new tensors on the device, one per output, in `outputs`, to be freed by rlx_device_tensor_free: they
   can be handed to the next run at once. Stores the run in *run, if that is not NULL. Names, places and types that are
   wrong fail here, everything else where the end of the run is waited for. Everything given may be freed afterwards. */
rlx_status rlx_compiled_submit(const rlx_compiled* compiled, const rlx_device_tensor* const* inputs, size_t input_count,
                               rlx_device_tensor** outputs, size_t output_count, rlx_run** run, rlx_error** error);
/* The same for tensors of the host. */
rlx_status rlx_compiled_run_async(const rlx_compiled* compiled, const rlx_tensor* const* inputs, size_t input_count,
                                  rlx_device_tensor** outputs, size_t output_count, rlx_run** run, rlx_error** error);
/* Begins a run as rlx_compiled_run_async does, and `compiled` keeps its handle. Each call that runs the graph and waits
   (rlx_compiled_run, rlx_compiled_call ...) first waits for the committed runs. */
rlx_status rlx_compiled_commit_no_wait(const rlx_compiled* compiled, const rlx_tensor* const* inputs,
                                       size_t input_count, rlx_error** error);
/* Waits for all runs that were committed since the last call, and stores the results of the last one as new tensors in
   `outputs`, to be freed by rlx_tensor_free; each is NULL if there was no run. If runs failed, the call fails with the
   error of the first of them, and `outputs` is unchanged. */
rlx_status rlx_compiled_sync_pending(const rlx_compiled* compiled, rlx_tensor** outputs, size_t output_count,
                                     rlx_error** error);
/* As rlx_event_wait, for the end of the run. */
rlx_status rlx_run_wait(const rlx_run* run, int64_t nanoseconds, int* done, rlx_error** error);
rlx_status rlx_run_event(const rlx_run* run, rlx_event** event, rlx_error** error);
/* Asks the run to stop before its next step; it then fails with RLX_CANCELLED. */
rlx_status rlx_run_cancel(const rlx_run* run, rlx_error** error);
/* The run goes on. */
void rlx_run_free(rlx_run* run);

/* ---- threads of the program's own ----
   A pool on which RLX computes in place of workers of its own. It is called from every thread that runs, compiles or
   binds, from several at once. rlx/thread_pool.h says more. */
typedef struct rlx_thread_pool {
  size_t struct_size; /* sizeof(rlx_thread_pool) */
  void* context;      /* given to parallel_for */
  int threads;        /* how many compute at a time at most, the calling one included. A session whose options name no
                         number of threads takes this one, at least 1 and at most 256 */
  /* Calls task(task_context, i) once for each i in [0, count), on any threads and in any order, and returns when all
     calls have returned; none may begin after that. The calling thread makes those calls that no other thread has
     begun, and runs nothing else while it waits. `count` is at most the number of threads of the session. What is left
     out is computed on the calling thread; an index that is repeated is ignored. Must not leave by longjmp. */
  void (*parallel_for)(void* context, int64_t count, void (*task)(void* task_context, int64_t index),
                       void* task_context);
} rlx_thread_pool;
/* From now on what RLX divides among threads of the processor is divided among those of the pool. Its fields are
   copied; its context must stay until another pool is set or the process ends. NULL: RLX's own workers, as in the
   beginning. To be called while no other thread is in a function of RLX and no run goes on in the background. Sessions
   that exist keep their number of threads. */
rlx_status rlx_set_thread_pool(const rlx_thread_pool* pool, rlx_error** error);

/* ---- states: what a graph carries from run to run, on its device ----
   The tensors of all inputs whose mode is 1 (rlx_compiled_input_mode): a decoder's cache is one, for one sequence. A
   run with a state takes the other inputs and gives the other outputs, in the order of the graph, and writes the new
   values over the old ones, in place where the device does. A state fits every compiled graph on its device that
   updates inputs of the same names and types. A run that fails or is cancelled after it has begun leaves the state
   torn: using it fails then, until it is reset. What several threads ask of one state happens one after another. */
/* 1 if output `index` is the new value of an input that is updated, which a state has; else 0. */
int rlx_compiled_output_is_update(const rlx_compiled* compiled, size_t index);
/* A new state: with copies of `count` tensors, by the names of inputs, and zeros for the others. `extents` has numbers
   for symbols that no tensor gives, "N=7 M=3"; NULL for none. */
rlx_status rlx_compiled_new_state(const rlx_compiled* compiled, const char* const* names,
                                  const rlx_tensor* const* values, size_t count, const char* extents, rlx_state** state,
                                  rlx_error** error);
/* The state that rlx_state_save wrote; `path` may be any safetensors file with just the tensors of a state. */
rlx_status rlx_compiled_load_state(const rlx_compiled* compiled, const char* path, rlx_state** state,
                                   rlx_error** error);
/* As rlx_compiled_run, with the inputs and outputs that are not in the state. */
rlx_status rlx_compiled_run_with_state(const rlx_compiled* compiled, rlx_state* state, const rlx_tensor* const* inputs,
                                       size_t input_count, rlx_tensor** outputs, size_t output_count,
                                       rlx_error** error);
/* As rlx_compiled_run_async. Runs with one state follow one another in the order in which they were begun. The state
   may be freed while they go on. */
rlx_status rlx_compiled_run_async_with_state(const rlx_compiled* compiled, rlx_state* state,
                                             const rlx_tensor* const* inputs, size_t input_count,
                                             rlx_device_tensor** outputs, size_t output_count, rlx_run** run,
                                             rlx_error** error);
/* How many tensors it has; the name of one, which belongs to the state, NULL beyond the last one; and its type as text,
   like rlx_graph_type. */
size_t rlx_state_count(const rlx_state* state);
const char* rlx_state_name(const rlx_state* state, size_t index);
rlx_status rlx_state_type(const rlx_state* state, size_t index, char* buffer, size_t room, size_t* size,
                          rlx_error** error);
/* A copy of one of its tensors on the host. Waits for the runs so far. */
rlx_status rlx_state_tensor(const rlx_state* state, const char* name, rlx_tensor** tensor, rlx_error** error);
/* Another state with the same values, which goes its own way. */
rlx_status rlx_state_copy(const rlx_state* state, rlx_state** result, rlx_error** error);
/* Sets all of its tensors: `count` of them by name to copies of values, the others to zeros. A torn one is whole again.
 */
rlx_status rlx_state_reset(rlx_state* state, const char* const* names, const rlx_tensor* const* values, size_t count,
                           rlx_error** error);
/* Writes a safetensors file. */
rlx_status rlx_state_save(const rlx_state* state, const char* path, rlx_error** error);
/* Why it is torn, "" if it is not, as far as is known: it waits for no run but one that another thread is in. To be
 * freed by rlx_text_free. */
rlx_status rlx_state_why_torn(const rlx_state* state, char** text, rlx_error** error);
void rlx_state_free(rlx_state* state);

/* ---- Core ML packages ---- */
typedef struct rlx_coreml rlx_coreml;             /* freed by rlx_coreml_free */
typedef struct rlx_coreml_state rlx_coreml_state; /* freed by rlx_coreml_state_free */

typedef struct rlx_coreml_options {
  size_t struct_size;   /* sizeof(rlx_coreml_options) */
  const char* function; /* of a package with several; NULL or "" for the default one */
  int f32;              /* compute in f32 what the program computes in f16 */
  int threads;          /* 0: as many as the process may use, or that `rlx calibrate` found of use */
  int seeded;           /* whether `seed` counts */
  uint64_t seed;        /* of random ops that have none; fresh each run where it does not count */
} rlx_coreml_options;
/* Reads an .mlpackage that holds an ML Program. `options` may be NULL. */
rlx_status rlx_coreml_load(const char* path, const rlx_coreml_options* options, rlx_coreml** model, rlx_error** error);
/* What the package says of itself, as JSON: see CoremlModel::description_json in rlx/coreml_model.h. Belongs to the
   model. */
rlx_status rlx_coreml_description(rlx_coreml* model, const char** json, rlx_error** error);
/* All states, zero. */
rlx_status rlx_coreml_make_state(const rlx_coreml* model, rlx_coreml_state** state, rlx_error** error);
/* A new tensor that holds the state of that name. */
rlx_status rlx_coreml_state_read(const rlx_coreml_state* state, const char* name, rlx_tensor** tensor,
                                 rlx_error** error);
/* Shares the tensor, which must be of the state's type. */
rlx_status rlx_coreml_state_write(rlx_coreml_state* state, const char* name, const rlx_tensor* tensor,
                                  rlx_error** error);
void rlx_coreml_state_free(rlx_coreml_state* state);
/* How many outputs a prediction has, and their names in its order; NULL beyond the last one. */
size_t rlx_coreml_output_count(const rlx_coreml* model);
const char* rlx_coreml_output_name(const rlx_coreml* model, size_t index);
/* One prediction: inputs by name, in any order; stores new tensors, one per output, in `outputs`, to be freed by
   rlx_tensor_free. `state` is read and written; NULL for a function without states. A classifier's label is its place
   among rlx_coreml_labels, or the label, if labels are integers. */
rlx_status rlx_coreml_predict(rlx_coreml* model, const char* const* names, const rlx_tensor* const* inputs,
                              size_t input_count, rlx_coreml_state* state, rlx_tensor** outputs, size_t output_count,
                              rlx_error** error);
/* The labels of a classifier as a JSON array of strings or of integers, "[]" for any other model; known after the first
   prediction. Belongs to the model, and stays as it is. */
rlx_status rlx_coreml_labels(rlx_coreml* model, const char** json, rlx_error** error);
/* Where Core ML runs each operation, as JSON in the form of rlx_compiled_placement, to be freed by rlx_text_free.
   `device` says what it may use, "coreml" or "coreml:ane" for two. */
rlx_status rlx_coreml_placement(const rlx_coreml* model, const char* device, char** json, rlx_error** error);
void rlx_coreml_free(rlx_coreml* model);

typedef struct rlx_coreml_write_options {
  size_t struct_size;                                   /* sizeof(rlx_coreml_write_options) */
  int minimum_ios;                                      /* 15 to 18; 0: the oldest that can */
  int narrow;                                           /* i64 and f64 become i32 and f32 */
  const char* dims;                                     /* numbers for symbols, "B=1 S=128"; NULL for none */
  const char *description, *author, *version, *license; /* may be NULL */
  const char* precision; /* "f32", "f16" or "mixed" (products alone in f16); NULL for the graph's own */
  const char* shapes; /* sizes for symbols that stay open, "B=1..8 S=16,32": package_shapes in rlx/coreml.h; or NULL */
  /* What inputs and outputs are to whoever calls the model, as a JSON object; each key may be left out:
     "states": [[input, output], ...], "images": {input: {"color": "rgb" | "bgr" | "gray", "scale": number,
     "bias": [number for each channel]}}, "classes": [label, ...], "probabilities": output, "texts": {feature: text},
     "native_random": whether Core ML draws random numbers itself, "weights": "int8", "int4", "palette8", "palette6",
     "palette4" or "palette2", weights in fewer bits.
     PackageOptions in rlx/coreml.h says what they mean. NULL for none. */
  const char* features;
  int nearest; /* blocks without an exact form become the nearest codes of 8 bits */
} rlx_coreml_write_options;
/* Writes the graph as an .mlpackage, with a value for each of its params by name. Stores what became of it, as text to
   be freed by rlx_text_free, in *report, if that is not NULL. `options` may be NULL. */
rlx_status rlx_coreml_write(const char* path, const rlx_graph* graph, const char* const* names,
                            const rlx_tensor* const* params, size_t param_count,
                            const rlx_coreml_write_options* options, char** report, rlx_error** error);
/* The bytes that rlx_coreml_write would write for these arguments, without writing anything; fails where it would, with
   the bytes and the limit in the message where the model is too large for Core ML. What they are stored in may be
   NULL. */
rlx_status rlx_coreml_check_model_size(const rlx_graph* graph, const char* const* names,
                                       const rlx_tensor* const* params, size_t param_count,
                                       const rlx_coreml_write_options* options, uint64_t* model_bytes,
                                       uint64_t* weight_bytes, rlx_error** error);
/* The processor that Core ML would use here, as JSON, to be freed by rlx_text_free: {"name", "has_framework",
   "has_neural_engine", "why_not"}; off Apple's systems the last one says so. */
rlx_status rlx_coreml_chip(char** json, rlx_error** error);
void rlx_text_free(char* text);

/* ---- ML Programs of Core ML, op by op: rlx/mil_builder.h says what each call does ----
   A value is a number that counts in its program. A call that fails leaves the program as it was. */
typedef struct rlx_mil rlx_mil; /* freed by rlx_mil_free */
typedef struct rlx_mil_options {
  size_t struct_size;                                   /* sizeof(rlx_mil_options) */
  int minimum_ios;                                      /* 15 to 18; 0: the oldest whose ops the program has */
  const char *description, *author, *version, *license; /* may be NULL */
} rlx_mil_options;
/* `options` may be NULL. */
rlx_status rlx_mil_create(const rlx_mil_options* options, rlx_mil** mil, rlx_error** error);
/* Begins another function; as the first call it names the one that is there, "main". */
rlx_status rlx_mil_function(rlx_mil* mil, const char* name, rlx_error** error);
/* `type` as in the textual IR, "f32[1, S]"; `shapes` are the sizes of its symbols, "S=1..512", or NULL; `image` is
   "rgb", "bgr" or "grayscale" for an input that is given as an image, or NULL. */
rlx_status rlx_mil_input(rlx_mil* mil, const char* name, const char* type, const char* shapes, const char* image,
                         int32_t* value, rlx_error** error);
/* A tensor of f16 that is kept between predictions. */
rlx_status rlx_mil_state(rlx_mil* mil, const char* name, const char* type, int32_t* value, rlx_error** error);
/* Shares the tensor. `name` may be NULL. */
rlx_status rlx_mil_constant(rlx_mil* mil, const rlx_tensor* tensor, const char* name, int32_t* value,
                            rlx_error** error);
/* The arguments of the op that rlx_mil_op adds next, each by the name that the op has for it: one value or, for
   arguments that take several, as many; a tensor, which keeps its dtype; numbers, which take the dtype that the op
   wants; text. */
rlx_status rlx_mil_set_values(rlx_mil* mil, const char* parameter, const int32_t* values, size_t count,
                              rlx_error** error);
rlx_status rlx_mil_set_tensor(rlx_mil* mil, const char* parameter, const rlx_tensor* tensor, rlx_error** error);
rlx_status rlx_mil_set_number(rlx_mil* mil, const char* parameter, double number, rlx_error** error);
rlx_status rlx_mil_set_integer(rlx_mil* mil, const char* parameter, int64_t integer, rlx_error** error);
rlx_status rlx_mil_set_integers(rlx_mil* mil, const char* parameter, const int64_t* integers, size_t count,
                                rlx_error** error);
rlx_status rlx_mil_set_flag(rlx_mil* mil, const char* parameter, int flag, rlx_error** error);
rlx_status rlx_mil_set_text(rlx_mil* mil, const char* parameter, const char* text, rlx_error** error);
rlx_status rlx_mil_set_texts(rlx_mil* mil, const char* parameter, const char* const* texts, size_t count,
                             rlx_error** error);
/* The types of the results of what is added next, a rlx_mil_op or a rlx_mil_begin_while, where they cannot be inferred:
   as in the textual IR, with ';' between them. NULL for none. */
rlx_status rlx_mil_set_types(rlx_mil* mil, const char* types, rlx_error** error);
/* Adds an op with the arguments that were set, which are then forgotten, also if it is refused. Its results are the
 *count values from *first on, of none that is -1; both pointers may be NULL. `name` may be NULL. */
rlx_status rlx_mil_op(rlx_mil* mil, const char* op, const char* name, int32_t* first, size_t* count, rlx_error** error);
/* A cond: what is added behind begin_cond is done if `pred` holds, what is added behind begin_else if not. Each call
   ends the block before it with that block's results; those of the cond are values from *first on. */
rlx_status rlx_mil_begin_cond(rlx_mil* mil, int32_t pred, const char* name, rlx_error** error);
rlx_status rlx_mil_begin_else(rlx_mil* mil, const int32_t* values, size_t count, rlx_error** error);
rlx_status rlx_mil_end_cond(rlx_mil* mil, const int32_t* values, size_t count, int32_t* first, rlx_error** error);
/* A loop: behind begin_while stands its condition, behind begin_body what gives the next values. Each stores in *first
   the first of the loop's vars, as that block sees them, and end_while the first of its results. */
rlx_status rlx_mil_begin_while(rlx_mil* mil, const int32_t* values, size_t count, const char* name, int32_t* first,
                               rlx_error** error);
rlx_status rlx_mil_begin_body(rlx_mil* mil, int32_t condition, int32_t* first, rlx_error** error);
rlx_status rlx_mil_end_while(rlx_mil* mil, const int32_t* values, size_t count, int32_t* first, rlx_error** error);
/* Drops the innermost cond or loop that was begun, with all that is in it. */
rlx_status rlx_mil_abandon(rlx_mil* mil, rlx_error** error);
/* `name` may be NULL: the value's own. */
rlx_status rlx_mil_output(rlx_mil* mil, int32_t value, const char* name, rlx_error** error);
/* Its type as text, like rlx_graph_type; of what is no tensor of numbers as Apple's texts have it. */
rlx_status rlx_mil_type(const rlx_mil* mil, int32_t value, char* buffer, size_t room, size_t* size, rlx_error** error);
/* Its name in the program, which belongs to `mil`; NULL for a value that there is not. */
const char* rlx_mil_name(const rlx_mil* mil, int32_t value);
/* Checks the program as a whole and writes the package. Stores {"minimum_ios", "needed_by", "model_bytes",
   "weight_bytes"} as JSON, to be freed by rlx_text_free, in *report, if that is not NULL. */
rlx_status rlx_mil_write(const rlx_mil* mil, const char* path, char** report, rlx_error** error);
/* The model as rlx_coreml_load would give it, without a file. `options` may be NULL. */
rlx_status rlx_mil_load(const rlx_mil* mil, const rlx_coreml_options* options, rlx_coreml** model, rlx_error** error);
/* What an op takes on that iOS, 15 to 18, as text to be freed by rlx_text_free: "clip(x, alpha, beta)". */
rlx_status rlx_mil_signature(const char* op, int ios, char** text, rlx_error** error);
void rlx_mil_free(rlx_mil* mil);

/* ---- training ---- */
/* A session that trains the params of `loss`, whose first output is a float scalar; docs/training.md. The `count`
   initial values are shared and may be freed afterwards. `config` is text in the form of attributes, or NULL; every
   member may be left out: {optimizer = "adamw", attributes = "{weight_decay = 0.1}", learning_rate = {peak = 0.001,
   shape = cosine, steps = 1000, warmup = 100, last = 0.1}, clip_value = 0, clip_norm = 1, ema = 0.999, fused = true,
      allow_unused = false, precision = f16, loss_scale = {initial = 65536, growth = 2, backoff = 0.5, interval = 2000},
      seed = 0, key_input = "key", written = [{param = "mean", output = "new_mean"}], checkpoints = 0,
      groups = [{params = ["encoder.*"], lr_scale = 1, weight_decay = 0, frozen = false}], trained = ["head.*"],
      hessian = {kind = hutchinson, every = 10, beta2 = 0.99, logits = "", algorithm = philox}}
   The optimizers are sgd, adam, adamw, adagrad, rmsprop, adafactor, lamb, lion, muon and sophia; `attributes` are those
   of the op "<optimizer>_update", `others` those of adam_update for the params that are no matrices under muon. */
rlx_status rlx_training_create(rlx_session* session, const rlx_graph* loss, const char* const* names,
                               const rlx_tensor* const* values, size_t count, const char* config,
                               rlx_training** training, rlx_error** error);
typedef struct rlx_step_result {
  size_t struct_size; /* sizeof(rlx_step_result), set by the caller */
  double loss, grad_norm, learning_rate, loss_scale;
  int64_t step;
  int path;    /* 0 gradient, 1 fused, 2 native update */
  int skipped; /* a gradient overflowed in f16: nothing was updated */
} rlx_step_result;
/* One step, or with `accumulate` gradients that are added to those that wait. The batch by name; `result` may be NULL.
   `outputs` is NULL, or has room for the outputs of the loss graph after the loss, which are stored as new tensors. */
rlx_status rlx_training_step(rlx_training* training, const char* const* names, const rlx_tensor* const* values,
                             size_t count, int accumulate, rlx_step_result* result, rlx_tensor** outputs,
                             size_t output_count, rlx_error** error);
/* One step by the mean of the gradients that wait; stores of how many (if not NULL). */
rlx_status rlx_training_step_accumulated(rlx_training* training, int64_t* count, rlx_error** error);
/* All outputs of the loss graph, the loss first, by the params as they are or by their moving means. */
rlx_status rlx_training_evaluate(rlx_training* training, const char* const* names, const rlx_tensor* const* values,
                                 size_t count, int averaged, rlx_tensor** outputs, size_t output_count,
                                 rlx_error** error);
/* From now on another loss of the same params; from now on this constant rate. */
rlx_status rlx_training_set_loss(rlx_training* training, const rlx_graph* loss, rlx_error** error);
rlx_status rlx_training_set_learning_rate(rlx_training* training, double rate, rlx_error** error);
/* From the next step on forward, backward and update are one graph, or (0) not. */
rlx_status rlx_training_with_fused_optimizer(rlx_training* training, int fused, rlx_error** error);
/* From the next step on computes in this precision; `policy` is {precision = f16, loss_scale = {...}}, as in a config,
   or NULL for f32. Fails while gradients wait. */
rlx_status rlx_training_with_precision_policy(rlx_training* training, const char* policy, rlx_error** error);
/* Whether forward, backward and update are one graph. */
int rlx_training_fused_active(const rlx_training* training);
/* Steps that were made; gradients that wait. */
int64_t rlx_training_steps(const rlx_training* training);
int64_t rlx_training_pending(const rlx_training* training);
/* A param, or its moving mean, as a tensor that stays as it is while training goes on. */
rlx_status rlx_training_param(const rlx_training* training, const char* name, int averaged, rlx_tensor** tensor,
                              rlx_error** error);
/* A checkpoint with `count` notes of the caller: names and texts. */
rlx_status rlx_training_save(const rlx_training* training, const char* path, const char* const* names,
                             const char* const* texts, size_t count, rlx_error** error);
/* Stores the notes as a JSON object (if not NULL), which belongs to `training` until its next call that gives JSON. */
rlx_status rlx_training_load(rlx_training* training, const char* path, const char** notes, rlx_error** error);
/* The dispatch report of what a step runs, as JSON, likewise. */
rlx_status rlx_training_report(rlx_training* training, const char** json, rlx_error** error);
/* {"update_path", "eligibility": {"device", "supported", "reason"}, "memory": {"params", "states", "gradients",
   "spare", "program", "total"}, "loss_scale"} as JSON, likewise. */
rlx_status rlx_training_status(rlx_training* training, const char** json, rlx_error** error);
void rlx_training_free(rlx_training* training);

/* ---- quantization ---- */
/* docs/quantization.md tells what is quantized, and where scales come from. `config` is text in the form of attributes,
   or NULL; every member may be left out: {activations = fixed, weights = per_batch, ste = clipped_identity, symmetric =
   false, decay = 0.99, skip = ["head*"], classes = [{op = "conv", quantize = true, weight_bits = 8, activation_bits =
   8}]} Scales are fixed, per_batch, ema or learned. */
/* Runs the graph over batches, `batch_count` times `input_count` values, batch by batch in the order of `inputs`, and
   stores the ranges of its activations as JSON, to be freed by rlx_text_free. `options`, text or NULL: {method =
   min_max, averaging = 0.01, percentile = 99.99, bins = 2048, levels = 128}; methods are min_max, moving_average,
   percentile and entropy. */
rlx_status rlx_calibrate(rlx_session* session, const rlx_graph* graph, const char* const* names,
                         const rlx_tensor* const* params, size_t param_count, const char* const* inputs,
                         size_t input_count, const rlx_tensor* const* batches, size_t batch_count, const char* config,
                         const char* options, char** ranges, rlx_error** error);
/* The ranges as a table, to be freed by rlx_text_free. */
rlx_status rlx_ranges_table(const char* ranges, char** table, rlx_error** error);
/* Puts fake quantization into a graph; for `training`, moving means are outputs of it. */
rlx_status rlx_quantize(const rlx_graph* graph, const char* config, int training, rlx_quantization** quantization,
                        rlx_error** error);
/* The graph with fake quantization, as a new handle. */
rlx_status rlx_quantization_graph(const rlx_quantization* quantization, rlx_graph** graph, rlx_error** error);
/* {"points": [{"name", "is_weight", "low", "high"}], "written": {param: output}, "groups": [{"params", "weight_decay",
   "frozen"}]} as JSON, which belongs to `quantization`: what a config of rlx_training_create is to say. */
rlx_status rlx_quantization_describe(rlx_quantization* quantization, const char** json, rlx_error** error);
/* Initial values of the quantizers' params, from those of the model and from `ranges`, JSON or NULL. Stores how many
   there are (if `count` is not NULL); with room for them, their names, which belong to `quantization` until its next
   call, and new tensors. */
rlx_status rlx_quantization_initial(rlx_quantization* quantization, const char* const* names,
                                    const rlx_tensor* const* params, size_t param_count, const char* ranges,
                                    const char** made_names, rlx_tensor** made, size_t room, size_t* count,
                                    rlx_error** error);
void rlx_quantization_free(rlx_quantization* quantization);
/* The graph of 8-bit codes, without params, that a graph with fake quantization means. Stores what became of its layers
   as a table (if `table` is not NULL), to be freed by rlx_text_free. */
rlx_status rlx_export_int8(rlx_session* session, const rlx_graph* graph, const char* const* names,
                           const rlx_tensor* const* params, size_t param_count, rlx_graph** int8, char** table,
                           rlx_error** error);

/* ---- GGUF files ---- */
typedef struct rlx_gguf rlx_gguf; /* freed by rlx_gguf_free */

/* Opens a file, and of one in several parts all: rlx/gguf.h. With `mapped` tensors are pages of the file, which nobody
   may change or cut while they are in use; else they are read when they are asked for. */
rlx_status rlx_gguf_open(const char* path, int mapped, rlx_gguf** file, rlx_error** error);
/* {"version", "byte_order": "little" or "big", "alignment", "paths": [...], "tensors": [{"name", "kind": as ggml calls
   it, "dtype", "shape"}], "metadata": {key: [type, value]}} as JSON, which belongs to the file until the next call. A
   type is u8, i8, u16, i16, u32, i32, u64, i64, f32, f64, bool, string, or "array " and the type of its items. */
rlx_status rlx_gguf_describe(rlx_gguf* file, const char** json, rlx_error** error);
/* A new tensor. Blocks become elements of `dtype`: f32, f64, f16 or bf16; with NULL they stay packed, as a tensor of
   their own dtype, "q4_k" for one. Tensors without blocks are what they are. */
rlx_status rlx_gguf_tensor(const rlx_gguf* file, const char* name, const char* dtype, rlx_tensor** tensor,
                           rlx_error** error);
/* Writes the tensors in this order. `metadata` is JSON as above, or NULL. `options`, text or NULL: {version = 3,
   big_endian = false, most_part_bytes = 0}, which is as GgufWriteOptions in rlx/gguf.h. */
rlx_status rlx_gguf_write(const char* path, const char* const* names, const rlx_tensor* const* values, size_t count,
                          const char* metadata, const char* options, rlx_error** error);
void rlx_gguf_free(rlx_gguf* file);

/* ---- tokenizers ---- */
typedef struct rlx_tokenizer rlx_tokenizer; /* freed by rlx_tokenizer_free */
typedef struct rlx_encodings rlx_encodings; /* freed by rlx_encodings_free */

typedef struct rlx_decode_stream rlx_decode_stream; /* freed by rlx_decode_stream_free */

/* Reads a tokenizer.json or a vocab.txt, or a folder that holds one, or a GGUF file: rlx/tokenizer.h. */
rlx_status rlx_tokenizer_load(const char* path, rlx_tokenizer** tokenizer, rlx_error** error);
/* Sets both, as text in the form of attributes; "" turns one off, NULL leaves it as it is. `truncation`: {max_length =
   512, strategy = longest_first, side = right, keep_overflow = false, stride = 0}; strategies are longest_first,
   only_first and only_second. `padding`: {length = 128, pad_to_multiple_of = 8, side = right, id = 0, type_id = 0,
   token = "[PAD]"}, without a length to the longest of a batch. */
rlx_status rlx_tokenizer_set(rlx_tokenizer* tokenizer, const char* truncation, const char* padding, rlx_error** error);
/* {"vocab_size", "truncation": {...} or null, "padding": {...} or null} as JSON; belongs to the tokenizer, until its
   next call that gives a text. */
rlx_status rlx_tokenizer_describe(rlx_tokenizer* tokenizer, const char** json, rlx_error** error);
/* Encodes `count` texts of UTF-8 by themselves, or with `pair` pairs of them: the first with the second, the third with
   the fourth. Padded to one length if the tokenizer pads and `pair` is 0. */
rlx_status rlx_tokenizer_encode(const rlx_tokenizer* tokenizer, const rlx_buffer* texts, size_t count, int pair,
                                int add_special_tokens, rlx_encodings** encodings, rlx_error** error);
/* Text that reads like what was encoded, to be freed by rlx_text_free. Here and below `size`, which may be NULL, gets
   its bytes without the NUL behind it: texts of tokens may hold NULs themselves. */
rlx_status rlx_tokenizer_decode(const rlx_tokenizer* tokenizer, const int32_t* ids, size_t count,
                                int skip_special_tokens, char** text, size_t* size, rlx_error** error);
/* The id of a token; -1 if there is none. */
rlx_status rlx_tokenizer_token_to_id(const rlx_tokenizer* tokenizer, const char* token, int32_t* id, rlx_error** error);
/* The token of an id, to be freed by rlx_text_free; fails if there is none. */
rlx_status rlx_tokenizer_id_to_token(const rlx_tokenizer* tokenizer, int32_t id, char** text, size_t* size,
                                     rlx_error** error);
/* Whether the text of a special token in what is encoded is text like any other; 0 until it is set. */
rlx_status rlx_tokenizer_set_encode_special_tokens(rlx_tokenizer* tokenizer, int as_text, rlx_error** error);
void rlx_tokenizer_free(rlx_tokenizer* tokenizer);
/* Text from ids as they come, in pieces of valid UTF-8 that are together what decoding all of them gives. The stream
   keeps what it needs of the tokenizer. */
rlx_status rlx_decode_stream_new(const rlx_tokenizer* tokenizer, int skip_special_tokens, rlx_decode_stream** stream,
                                 rlx_error** error);
/* What `id` adds, often nothing yet, to be freed by rlx_text_free. */
rlx_status rlx_decode_stream_put(rlx_decode_stream* stream, int32_t id, char** text, size_t* size, rlx_error** error);
/* What still waits, to be freed by rlx_text_free; the stream begins anew. */
rlx_status rlx_decode_stream_finish(rlx_decode_stream* stream, char** text, size_t* size, rlx_error** error);
void rlx_decode_stream_free(rlx_decode_stream* stream);
size_t rlx_encodings_count(const rlx_encodings* encodings);
/* What is known of the tokens of one encoding, as a new tensor: "ids", "type_ids", "attention_mask",
   "special_tokens_mask" and "words" are i32[n], "offsets" is i64[n, 2], where in its text each token begins and ends.
 */
rlx_status rlx_encodings_tensor(const rlx_encodings* encodings, size_t index, const char* what, rlx_tensor** tensor,
                                rlx_error** error);
/* The text of a token; belongs to `encodings`. NULL, of size 0, beyond the last one. */
const char* rlx_encodings_token(const rlx_encodings* encodings, size_t index, size_t place, size_t* size);
/* What truncation cut off one encoding, as new ones. */
rlx_status rlx_encodings_overflow(const rlx_encodings* encodings, size_t index, rlx_encodings** overflow,
                                  rlx_error** error);
void rlx_encodings_free(rlx_encodings* encodings);

/* ---- chat templates ---- */
typedef struct rlx_chat_template rlx_chat_template; /* freed by rlx_chat_template_free */

/* From Jinja text of UTF-8; from a model folder, tokenizer_config.json or its like, or a GGUF file:
   rlx/chat_template.h. */
rlx_status rlx_chat_template_parse(const char* text, size_t size, rlx_chat_template** chat_template, rlx_error** error);
rlx_status rlx_chat_template_load(const char* path, rlx_chat_template** chat_template, rlx_error** error);
/* {"text", "bos_token", "eos_token"} as JSON, to be freed by rlx_text_free. */
rlx_status rlx_chat_template_describe(const rlx_chat_template* chat_template, char** json, rlx_error** error);
/* The conversation, a JSON array of objects such as {"role": "user", "content": "Hello."}, as text to be freed by
   rlx_text_free. `settings`, JSON or NULL: {"add_generation_prompt": false, "bos_token", "eos_token", "tools": [...],
   "documents": [...], "variables": {...}, "now": seconds since 1970-01-01 00:00 by the place's clock, "most_steps",
   "most_bytes"}, which are as ChatTemplateOptions. `size`, which may be NULL, gets its bytes, as messages may hold
   NULs. */
rlx_status rlx_chat_template_apply(const rlx_chat_template* chat_template, const char* messages, const char* settings,
                                   char** text, size_t* size, rlx_error** error);
void rlx_chat_template_free(rlx_chat_template* chat_template);

/* ---- sentence encoders ---- */
typedef struct rlx_encoder rlx_encoder; /* freed by rlx_encoder_free */

typedef struct rlx_encoder_options {
  size_t struct_size;  /* sizeof(rlx_encoder_options) */
  int threads;         /* 0: as of a session */
  int64_t most_tokens; /* of one batch, padding included; 0: 8192 */
} rlx_encoder_options;
/* Sentences to vectors, from a model folder: SentenceEncoder in rlx/models.h. `device` as of rlx_session_create; both
   options may be NULL. */
rlx_status rlx_encoder_load(const char* folder, const char* device, const rlx_encoder_options* options,
                            const rlx_compile_options* compile, rlx_encoder** encoder, rlx_error** error);
/* One row for each of `count` texts of UTF-8, in their order: a new tensor, f32[count, width]. */
rlx_status rlx_encoder_embed(const rlx_encoder* encoder, const rlx_buffer* texts, size_t count, rlx_tensor** tensor,
                             rlx_error** error);
/* The same of token ids and of a mask, 1 where there is a token: both i64[B, S]. */
rlx_status rlx_encoder_embed_ids(const rlx_encoder* encoder, const rlx_tensor* ids, const rlx_tensor* mask,
                                 rlx_tensor** tensor, rlx_error** error);
int64_t rlx_encoder_width(const rlx_encoder* encoder);
/* Its tokenizer, as a new handle. */
rlx_status rlx_encoder_tokenizer(const rlx_encoder* encoder, rlx_tokenizer** tokenizer, rlx_error** error);
/* The dispatch report as JSON, to be freed by rlx_text_free. */
rlx_status rlx_encoder_report(const rlx_encoder* encoder, char** json, rlx_error** error);
void rlx_encoder_free(rlx_encoder* encoder);

/* ---- language models: rlx/language_model.h ---- */
typedef struct rlx_language_model rlx_language_model; /* freed by rlx_language_model_free */
typedef struct rlx_sequence rlx_sequence;             /* freed by rlx_sequence_free */
typedef struct rlx_sampler rlx_sampler;               /* freed by rlx_sampler_free */
typedef struct rlx_generator rlx_generator;           /* freed by rlx_generator_free */

typedef struct rlx_language_model_options {
  size_t struct_size; /* sizeof(rlx_language_model_options) */
  int threads;        /* 0: as of a session */
  int copied;      /* weights are copied into memory; 0: mapped: no process may write or shorten the files meanwhile */
  int64_t context; /* the most tokens of a sequence; 0: what the model promises */
  int64_t chunk;   /* tokens that run at once while a longer text is read; 0: 512 */
  const char* cache; /* of keys and values: "f32", "f16", "bf16", or blocks of "q8_0" or "q4_0"; NULL: f32 */
  /* Low-rank adapters that stand beside the products: paths of PEFT's folders, or of .gguf files beside a .gguf file,
     and what each is multiplied by (NULL: 1). */
  const char* const* adapters;
  const double* adapter_scales;
  size_t adapter_count;
} rlx_language_model_options;
/* A decoder of text from a folder with config.json and safetensors, or from a .gguf file. `device` as of
   rlx_session_create; `options` and `compile` may be NULL. Functions of a model may be called from several threads at
   once; a sequence, a sampler and a generator belong to one thread at a time, and go on when the model was freed. */
rlx_status rlx_language_model_load(const char* path, const char* device, const rlx_language_model_options* options,
                                   const rlx_compile_options* compile, rlx_language_model** language_model,
                                   rlx_error** error);
/* As JSON, to be freed by rlx_text_free: {"architecture", "vocabulary", "hidden", "layers", "heads", "kv_heads",
   "head_dim", "intermediate", "experts", "window", "promised_context": the most positions that it was made for,
   "context": the most tokens of a sequence, "bos_id": or null, "stop_ids": [], "advice": {"temperature", "top_k",
   "top_p", "min_p", "repetition_penalty"}, each a number, or null where the files say nothing}. */
rlx_status rlx_language_model_describe(const rlx_language_model* language_model, char** json, rlx_error** error);
/* For instance "llama" or "qwen3"; belongs to the model. */
const char* rlx_language_model_architecture(const rlx_language_model* language_model);
/* The number of tokens in the vocabulary, which is the length of a row of logits; and the most tokens of a sequence. */
int64_t rlx_language_model_vocabulary(const rlx_language_model* language_model);
int64_t rlx_language_model_context(const rlx_language_model* language_model);
/* The token with which to begin a text that has no others; -1 if there is none, or for NULL. */
int32_t rlx_language_model_bos_id(const rlx_language_model* language_model);
/* Tokens of which each ends an answer: *count of them (if it is not NULL), which belong to the model. */
const int32_t* rlx_language_model_stop_ids(const rlx_language_model* language_model, size_t* count);
/* Its tokenizer and its chat template, as new handles. RLX_NOT_FOUND if the files have none; RLX_UNSUPPORTED for a
   tokenizer of a kind that is not built here. */
rlx_status rlx_language_model_tokenizer(const rlx_language_model* language_model, rlx_tokenizer** tokenizer,
                                        rlx_error** error);
rlx_status rlx_language_model_chat_template(const rlx_language_model* language_model, rlx_chat_template** chat_template,
                                            rlx_error** error);
/* The tokens of a prompt of UTF-8: a new tensor, i32[n]. `kind` is 0 for text, to which the tokenizer adds its
   special tokens; 1 for plain text, which gets none, and in which the text of a special token is text like any other; 2
   for what a chat template gave: none are added, and those in it are recognized, as in kind 0. If there are no tokens,
   that of rlx_language_model_bos_id stands alone. Fails without a tokenizer. */
rlx_status rlx_language_model_prompt(const rlx_language_model* language_model, const char* text, size_t size, int kind,
                                     rlx_tensor** tensor, rlx_error** error);
/* The logits of what follows each of the tokens, at least one: a new tensor, f32[count, vocabulary]. */
rlx_status rlx_language_model_all_logits(const rlx_language_model* language_model, const int32_t* ids, size_t count,
                                         rlx_tensor** tensor, rlx_error** error);
/* The dispatch report as JSON, to be freed by rlx_text_free. */
rlx_status rlx_language_model_report(const rlx_language_model* language_model, char** json, rlx_error** error);
void rlx_language_model_free(rlx_language_model* language_model);

/* A Hugging Face folder of a language model as a GGUF file at `path`, with its tokenizer, as llama.cpp's converter
   makes it (docs/gguf.md); and a GGUF file as a folder, which must not be there or be empty. One tensor after the other
   is read and written. `options`, text or NULL: {dequantize = "", quantize = "", most_file_bytes = 0}. `dequantize`
   ("f32", "f16", "bf16"): what packed matrices become, which otherwise stay packed with the same numbers, or are
   refused. `quantize`, to a GGUF file alone: the kind of block, "q8_0", that matrices of floats become.
   `most_file_bytes`: a new file begins where one would have more bytes of tensors; 0: all in one. Stores {"tensors":
   their number, "bytes": theirs, "notes": [what could not be carried over, ...]} as JSON, to be freed by rlx_text_free,
   if `notes` is not NULL. Fails as RLX_UNSUPPORTED, by its name, for what the other format has no word for. */
rlx_status rlx_language_model_to_gguf(const char* folder, const char* path, const char* options, char** notes,
                                      rlx_error** error);
rlx_status rlx_language_model_to_folder(const char* path, const char* folder, const char* options, char** notes,
                                        rlx_error** error);

/* A sequence without tokens. */
rlx_status rlx_sequence_new(const rlx_language_model* language_model, rlx_sequence** sequence, rlx_error** error);
/* An independent one with the same tokens. */
rlx_status rlx_sequence_copy(const rlx_sequence* sequence, rlx_sequence** copy, rlx_error** error);
/* Appends tokens, at least one, and gives the logits of the token that follows: a new tensor, f32[vocabulary]. If it
   fails, for a token that is not in the vocabulary or for more than the context holds, nothing was appended. */
rlx_status rlx_sequence_logits(rlx_sequence* sequence, const int32_t* ids, size_t count, rlx_tensor** tensor,
                               rlx_error** error);
/* The same, with the logits of what follows each of the tokens: f32[count, vocabulary]. */
rlx_status rlx_sequence_all_logits(rlx_sequence* sequence, const int32_t* ids, size_t count, rlx_tensor** tensor,
                                   rlx_error** error);
/* Tokens so far. */
int64_t rlx_sequence_position(const rlx_sequence* sequence);
/* Takes the last `tokens` back; fails if there are fewer, or if it is negative. A model with recurrent layers reads
   what is left again with the next call. */
rlx_status rlx_sequence_rewind(rlx_sequence* sequence, int64_t tokens, rlx_error** error);
/* Bytes of what the model keeps of it; copies that were not continued share them. */
size_t rlx_sequence_memory_bytes(const rlx_sequence* sequence);
void rlx_sequence_free(rlx_sequence* sequence);

/* The next token from logits: SamplerOptions in rlx/sampler.h as text in the form of attributes, or NULL; each may be
   left out: {temperature = 1, top_k = 0, top_p = 1, min_p = 0, typical_p = 1, repetition_penalty = 1, presence_penalty
   = 0, frequency_penalty = 0, biased_ids = [5, 7], biases = [-1.5, 2], seed = 0}. */
rlx_status rlx_sampler_new(const char* settings, rlx_sampler** sampler, rlx_error** error);
/* Tokens that the model was given: repetition_penalty counts them, the other penalties do not. */
rlx_status rlx_sampler_see(rlx_sampler* sampler, const int32_t* ids, size_t count, rlx_error** error);
/* Draws a token from `count` logits, and remembers it. Fails for NaN, for +inf, and if all are -inf. */
rlx_status rlx_sampler_sample(rlx_sampler* sampler, const float* logits, size_t count, int32_t* id, rlx_error** error);
/* What would be drawn from now, the likeliest first: the first `room` ids and probabilities are stored, and *made (if
   `made` is not NULL) says how many there are. Nothing is drawn. */
rlx_status rlx_sampler_chances(rlx_sampler* sampler, const float* logits, size_t count, int32_t* ids,
                               double* probabilities, size_t room, size_t* made, rlx_error** error);
/* It is again as rlx_sampler_new made it. */
rlx_status rlx_sampler_reset(rlx_sampler* sampler, rlx_error** error);
void rlx_sampler_free(rlx_sampler* sampler);

/* The loop that writes a text: rlx/generation.h. `settings` has the keys of rlx_sampler_new, max_tokens (512 if left
   out) and stop = ["\n\n"], texts before which it ends. A key of the sampler that is left out is as the model's files
   advise, and only then as there. NULL is {}. */
rlx_status rlx_generator_new(const rlx_language_model* language_model, const char* settings, rlx_generator** generator,
                             rlx_error** error);
/* Reads the tokens of a prompt, at least one; those in front that the last text has too are not read again. If they
   leave no room in the context or are not in the vocabulary, it fails, and the text that was begun before goes on. */
rlx_status rlx_generator_begin(rlx_generator* generator, const int32_t* ids, size_t count, rlx_error** error);
/* Ends an rlx_generator_begin that runs now, and may be called on any thread while it runs: it fails as RLX_CANCELLED
   before the model reads the next piece of the prompt, and no text is begun. */
rlx_status rlx_generator_cancel(rlx_generator* generator, rlx_error** error);
/* What comes next of the text, valid UTF-8 to be freed by rlx_text_free: never "", and NULL once the text has ended.
 *size (if `size` is not NULL) is its bytes, without the NUL behind it: the text itself may have such bytes. */
rlx_status rlx_generator_next(rlx_generator* generator, char** text, size_t* size, rlx_error** error);
/* {"tokens": [], "finish": null, "read_tokens": 0} as JSON, to be freed by rlx_text_free: all that was drawn since
   rlx_generator_begin; what ended the text, "end", "stop", "length" or "context"; how many of the prompt's tokens were
   read. */
rlx_status rlx_generator_describe(const rlx_generator* generator, char** json, rlx_error** error);
/* Resets the sampler alone: penalties forget all tokens, and the random numbers begin anew. */
rlx_status rlx_generator_reset(rlx_generator* generator, rlx_error** error);
void rlx_generator_free(rlx_generator* generator);

/* ---- low-rank adapters ---- */
typedef struct rlx_lora rlx_lora; /* freed by rlx_lora_free */

/* Puts adapters beside products of a graph: rlx/lora.h. `config` is text in the form of attributes: {targets =
   ["query", "value"], rank = 8, alpha = 8}. */
rlx_status rlx_lora_add(const rlx_graph* graph, const char* config, rlx_lora** lora, rlx_error** error);
/* The graph with adapters, as a new handle. */
rlx_status rlx_lora_graph(const rlx_lora* lora, rlx_graph** graph, rlx_error** error);
/* {"scale", "modules": [{"name", "weight", "in", "out", "a", "b"}], "groups": [{"params", "frozen"}]} as JSON, which
   belongs to `lora`: the groups are what a config of rlx_training_create is to say. */
rlx_status rlx_lora_describe(rlx_lora* lora, const char** json, rlx_error** error);
/* The three calls below give named tensors: they store how many there are (if `count` is not NULL); with room for them,
   their names, which belong to `lora` until its next call, and new tensors.
   The params of the adapters at first; what a folder that rlx_lora_save or the package PEFT wrote has of them; the
   params, given by name, of the graph without adapters: with the adapters' products added. */
rlx_status rlx_lora_initial(rlx_lora* lora, uint64_t seed, const char** made_names, rlx_tensor** made, size_t room,
                            size_t* count, rlx_error** error);
rlx_status rlx_lora_load(rlx_lora* lora, const char* path, const char** made_names, rlx_tensor** made, size_t room,
                         size_t* count, rlx_error** error);
rlx_status rlx_lora_merge(rlx_lora* lora, const char* const* names, const rlx_tensor* const* params, size_t param_count,
                          const char** made_names, rlx_tensor** made, size_t room, size_t* count, rlx_error** error);
/* Writes the adapters alone, of the params given by name, into a folder as PEFT does. */
rlx_status rlx_lora_save(const rlx_lora* lora, const char* path, const char* const* names,
                         const rlx_tensor* const* params, size_t param_count, rlx_error** error);
void rlx_lora_free(rlx_lora* lora);

#ifdef __cplusplus
}
#endif
#endif
