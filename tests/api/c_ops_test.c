/* Ops of the caller's through the C ABI: an op with every rule, its errors, and its end. */
#include <math.h>

#include "c_expect.h"

static rlx_error* error = NULL;
static int kernel_runs = 0, reference_runs = 0;

/* y = x * factor + offset: the factor is an attribute, the offset an operand that may be left out. */
static double factor_of(const rlx_op_call* call) {
  const char* at = strstr(call->attributes, "\"factor\": ");
  return at ? atof(at + strlen("\"factor\": ")) : 0;
}

static rlx_status scaled_types(void* context, const rlx_op_call* call, rlx_op_results* results, rlx_error** given) {
  if (context != &error || call->struct_size != sizeof *call || strcmp(call->op, "c_scaled") != 0) abort();
  if (call->count == 2 && strcmp(call->types[0], call->types[1]) != 0) {
    *given = rlx_error_create(RLX_SHAPE_MISMATCH, "x and offset are of different types");
    return RLX_SHAPE_MISMATCH;
  }
  rlx_error* refused = NULL;
  if (rlx_op_add_result(NULL, "f32[2]", &refused) != RLX_INVALID_ARGUMENT) abort();
  rlx_error_free(refused), refused = NULL;
  if (rlx_op_add_result(results, NULL, &refused) != RLX_INVALID_ARGUMENT) abort();
  rlx_error_free(refused), refused = NULL;
  if (rlx_op_add_result(results, "f32[", &refused) != RLX_PARSE_ERROR) abort();
  rlx_error_free(refused);
  return rlx_op_add_result(results, call->types[0], given);
}

static rlx_status scaled_reference(void* context, const rlx_op_call* call, const rlx_tensor* const* operands,
                                   rlx_tensor** results, size_t count, rlx_error** given) {
  (void)context;
  ++reference_runs;
  if (count != 1 || strcmp(rlx_tensor_dtype(operands[0]), "f32") != 0) {
    *given = rlx_error_create(RLX_UNSUPPORTED, "f32 alone");
    return RLX_UNSUPPORTED;
  }
  const size_t n = rlx_tensor_size(operands[0]) / sizeof(float);
  const float *x = rlx_tensor_data(operands[0]), *b = call->count == 2 ? rlx_tensor_data(operands[1]) : NULL;
  float* y = malloc(n * sizeof(float) + 1);
  for (size_t i = 0; i < n; ++i) y[i] = x[i] * (float)factor_of(call) + (b ? b[i] : 0);
  const rlx_status status = rlx_tensor_create("f32", rlx_tensor_dims(operands[0]), rlx_tensor_rank(operands[0]), y,
                                              n * sizeof(float), results, given);
  free(y);
  return status;
}

static rlx_status scaled_graph(void* context, const rlx_op_call* call, rlx_graph** graph, rlx_error** given) {
  (void)context;
  char text[512];
  const char* type = call->types[0];
  rlx_graph* made = NULL;
  rlx_status status = rlx_graph_create("scaled", &made, given);
  if (status != RLX_OK) return status;
  rlx_value x, b, operands[2], y;
  if ((status = rlx_graph_input(made, "x", type, &x, given)) != RLX_OK) return status;
  if (call->count == 2 && (status = rlx_graph_input(made, "b", call->types[1], &b, given)) != RLX_OK) return status;
  const float factor = (float)factor_of(call);
  rlx_tensor* number = NULL;
  if ((status = rlx_tensor_create("f32", NULL, 0, &factor, sizeof factor, &number, given)) != RLX_OK) return status;
  status = rlx_graph_constant(made, number, &operands[0], given);
  rlx_tensor_free(number);
  if (status != RLX_OK) return status;
  snprintf(text, sizeof text, "{dims = %s, axes = []}", strchr(type, '['));
  rlx_value wide;
  if ((status = rlx_graph_emit(made, "broadcast_in_dim", operands, 1, text, &wide, 1, NULL, given)) != RLX_OK)
    return status;
  operands[0] = x, operands[1] = wide;
  if ((status = rlx_graph_emit(made, "mul", operands, 2, NULL, &y, 1, NULL, given)) != RLX_OK) return status;
  if (call->count == 2) {
    operands[0] = y, operands[1] = b;
    if ((status = rlx_graph_emit(made, "add", operands, 2, NULL, &y, 1, NULL, given)) != RLX_OK) return status;
  }
  if ((status = rlx_graph_output(made, y, "y", given)) != RLX_OK) return status;
  *graph = made;
  return RLX_OK;
}

typedef struct parts {
  const float *x, *b;
  float* y;
  float factor;
} parts;
static void one_part(void* context, int64_t i) {
  const parts* p = context;
  p->y[i] = p->x[i] * p->factor + (p->b ? p->b[i] : 0);
}
static rlx_status scaled_kernel(void* context, const rlx_op_call* call, const rlx_kernel_arguments* a,
                                rlx_error** given) {
  (void)context;
  ++kernel_runs;
  if (a->struct_size != sizeof *a || a->result_count != 1 || strcmp(a->result_types[0], call->types[0]) != 0) abort();
  if (a->threads < 1) abort();
  const parts p = {a->operands[0], call->count == 2 ? a->operands[1] : NULL, a->results[0], (float)factor_of(call)};
  if (isnan(p.x[0])) {
    *given = rlx_error_create(RLX_INVALID_ARGUMENT, "the first is no number");
    return RLX_INVALID_ARGUMENT;
  }
  rlx_error* refused = NULL;
  if (rlx_kernel_parallel_for(NULL, 1, one_part, NULL, &refused) != RLX_INVALID_ARGUMENT) abort();
  rlx_error_free(refused), refused = NULL;
  if (rlx_kernel_parallel_for(a->run, 1, NULL, NULL, &refused) != RLX_INVALID_ARGUMENT) abort();
  rlx_error_free(refused);
  return rlx_kernel_parallel_for(a->run, 4, one_part, (void*)&p, given);
}

static rlx_op_definition definition(void) {
  rlx_op_definition d;
  memset(&d, 0, sizeof d);
  d.struct_size = sizeof d;
  d.name = "c_scaled", d.doc = "x times a factor, and an offset", d.operands = "x offset?";
  d.attributes = "factor: float = 2, axes: list of int = [1, 2], name: string = \"a\", flag: bool = false";
  d.samples = "f64[4]\nf64[2, 3], f64[2, 3] {factor = 0.5} in [-1, 1]\n";
  d.elementwise = 1, d.context = &error;
  d.infer = scaled_types, d.reference = scaled_reference, d.decompose = scaled_graph, d.kernel = scaled_kernel;
  d.kernel_name = "scaled in C", d.kernel_dtypes = "f32";
  return d;
}

static const char kGraph[] =
    "rlx 1\n"
    "graph @scaled {\n"
    "  %0 = input() @\"x\" : f32[4]\n"
    "  %1 = c_scaled(%0) {factor = 3.0} : f32[4]\n"
    "  %2 = c_scaled(%1, %0) : f32[4]\n"
    "  return %2 @\"y\"\n"
    "}\n";

/* 6 x + x */
static void runs(rlx_session* session, const rlx_graph* graph, int common) {
  rlx_compiled* compiled = NULL;
  rlx_compile_options options;
  memset(&options, 0, sizeof options);
  options.struct_size = sizeof options, options.common = common;
  OK(rlx_compile(session, graph, &options, &compiled, &error));
  const float x[] = {1, -2, 0, 4};
  const int64_t dims[] = {4};
  rlx_tensor *in = NULL, *y = NULL;
  OK(rlx_tensor_create("f32", dims, 1, x, sizeof x, &in, &error));
  const rlx_tensor* inputs[] = {in};
  OK(rlx_compiled_run(compiled, inputs, 1, &y, 1, &error));
  const float* got = rlx_tensor_data(y);
  for (int i = 0; i < 4; ++i) EXPECT(got[i] == 7 * x[i]);
  rlx_tensor_free(y), rlx_tensor_free(in);
  const float nan[] = {NAN, 0, 0, 0};
  OK(rlx_tensor_create("f32", dims, 1, nan, sizeof nan, &in, &error));
  inputs[0] = in;
  if (!common)
    FAILS(rlx_compiled_run(compiled, inputs, 1, &y, 1, &error), RLX_INVALID_ARGUMENT,
          "the kernel 'scaled in C' failed: the first is no number");
  rlx_tensor_free(in);
  rlx_compiled_free(compiled);
}

static void definitions_are_checked(void) {
  rlx_op_definition d = definition();
  FAILS(rlx_op_register(NULL, &error), RLX_INVALID_ARGUMENT, "definition is NULL");
  d.struct_size = 1;
  FAILS(rlx_op_register(&d, &error), RLX_INVALID_ARGUMENT, "struct_size is 1");
  d = definition(), d.name = "two words";
  FAILS(rlx_op_register(&d, &error), RLX_INVALID_ARGUMENT, "a word of letters");
  d = definition(), d.name = "exp";
  FAILS(rlx_op_register(&d, &error), RLX_INVALID_ARGUMENT, "there is an op 'exp' already");
  d = definition(), d.infer = NULL;
  FAILS(rlx_op_register(&d, &error), RLX_INVALID_ARGUMENT, "infer is NULL");
  d = definition(), d.reference = NULL, d.decompose = NULL;
  FAILS(rlx_op_register(&d, &error), RLX_INVALID_ARGUMENT, "needs one of them");
  d = definition(), d.operands = NULL;
  FAILS(rlx_op_register(&d, &error), RLX_INVALID_ARGUMENT, "operands names none");
  d = definition(), d.kernel_dtypes = "f32 f33";
  FAILS(rlx_op_register(&d, &error), RLX_PARSE_ERROR, "f33");
  d = definition(), d.attributes = "factor: flout = 1";
  FAILS(rlx_op_register(&d, &error), RLX_PARSE_ERROR, "one of the kinds bool, int");
  d = definition(), d.attributes = "factor: float = 1, factor: int = 2";
  FAILS(rlx_op_register(&d, &error), RLX_PARSE_ERROR, "'factor' only once");
  d = definition(), d.samples = "f64[4] {factor = 1} in [1";
  FAILS(rlx_op_register(&d, &error), RLX_PARSE_ERROR, "reading the samples of op 'c_scaled'");
  FAILS(rlx_op_unregister("c_scaled", &error), RLX_NOT_FOUND, "no op 'c_scaled'");
}

int main(void) {
  definitions_are_checked();
  rlx_op_definition d = definition();
  OK(rlx_op_register(&d, &error));
  FAILS(rlx_op_register(&d, &error), RLX_INVALID_ARGUMENT, "there is an op 'c_scaled' already");

  rlx_graph *graph = NULL, *other = NULL, *gradient = NULL;
  rlx_session* session = NULL;
  OK(rlx_graph_parse(kGraph, strlen(kGraph), &graph, &error));
  EXPECT(strstr(rlx_graph_text(graph), "{factor = 3.0}") != NULL ||
         strstr(rlx_graph_text(graph), "{factor = 3}") != NULL);
  OK(rlx_session_create("cpu", NULL, &session, &error));
  runs(session, graph, 0);
  EXPECT(kernel_runs >= 2);
  const int before = kernel_runs;
  runs(session, graph, 1); /* decomposed */
  EXPECT(kernel_runs == before && reference_runs == 0);

  /* Derivatives go through the decomposition. */
  const uint8_t one[] = {1};
  OK(rlx_graph_vjp(graph, one, one, 0, &gradient, &error));
  EXPECT(rlx_graph_count(gradient, 0) == 2 && rlx_graph_count(gradient, 2) == 1);
  rlx_graph_free(gradient);

  /* What a rule refuses is the error of who asked. */
  static const char kWrong[] =
      "graph @wrong {\n  %0 = input() @\"x\" : f32[4]\n  %1 = input() @\"y\" : f32[5]\n"
      "  %2 = c_scaled(%0, %1) : f32[4]\n  return %2\n}\n";
  FAILS(rlx_graph_parse(kWrong, strlen(kWrong), &other, &error), RLX_SHAPE_MISMATCH,
        "the shape rule of 'c_scaled' failed: x and offset are of different types");
  static const char kUnknown[] =
      "graph @wrong {\n  %0 = input() @\"x\" : f32[4]\n  %1 = c_scaled(%0) {power = 2} : f32[4]\n  return %1\n}\n";
  FAILS(rlx_graph_parse(kUnknown, strlen(kUnknown), &other, &error), RLX_PARSE_ERROR,
        "a known attribute (factor, axes, name, flag)");

  OK(rlx_op_unregister("c_scaled", &error));
  FAILS(rlx_graph_parse(kGraph, strlen(kGraph), &other, &error), RLX_PARSE_ERROR, "there is no op 'c_scaled'");
  EXPECT(strstr(rlx_graph_text(graph), "c_scaled") != NULL); /* a graph that has it keeps it */
  OK(rlx_op_register(&d, &error));
  OK(rlx_op_unregister("c_scaled", &error));
  rlx_graph_free(graph);
  rlx_session_free(session);
  return failures ? 1 : 0;
}
