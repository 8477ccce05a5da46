/* The C ABI from C: a graph is parsed, another one built; both compile, run, report, and fail with messages. */
#define _POSIX_C_SOURCE 200809L
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "c_expect.h"
#include "rlx/c.h"

static int released = 0;

static void count_release(void* context) { *(int*)context += 1; }

static const char kText[] =
    "rlx 1\n"
    "graph @affine {\n"
    "  %0 = input() @\"x\" : f32[N, 2]\n"
    "  %1 = param() @\"w\" : f32[2, 2]\n"
    "  %2 = matmul(%0, %1) : f32[N, 2]\n"
    "  return %2 @\"y\"\n"
    "}\n";

static void a_parsed_graph_runs(void) {
  rlx_error* error = NULL;
  rlx_graph* graph = NULL;
  rlx_session* session = NULL;
  rlx_compiled* compiled = NULL;
  rlx_session_options options = {.struct_size = sizeof options, .threads = 1};
  OK(rlx_graph_parse(kText, strlen(kText), &graph, &error));
  EXPECT(strcmp(rlx_graph_text(graph), kText) == 0);
  OK(rlx_session_create("cpu", &options, &session, &error));
  OK(rlx_compile(session, graph, NULL, &compiled, &error));
  rlx_graph_free(graph);

  EXPECT(rlx_compiled_count(compiled, 0) == 1 && rlx_compiled_count(compiled, 1) == 1 &&
         rlx_compiled_count(compiled, 2) == 1);
  EXPECT(strcmp(rlx_compiled_name(compiled, 1, 0), "w") == 0 && rlx_compiled_name(compiled, 1, 1) == NULL);
  char type[32];
  size_t size = 0;
  OK(rlx_compiled_type(compiled, 0, 0, type, sizeof type, &size, &error));
  EXPECT(strcmp(type, "f32[N, 2]") == 0 && size == strlen(type) + 1);

  static const float x[] = {1, 2, 3, 4, 5, 6}, w[] = {0, 1, 1, 0};
  const int64_t x_dims[] = {3, 2}, w_dims[] = {2, 2};
  rlx_tensor *input = NULL, *weights = NULL, *output = NULL;
  OK(rlx_tensor_borrow("f32", x_dims, 2, x, sizeof x, count_release, &released, &input, &error));
  OK(rlx_tensor_create("f32", w_dims, 2, w, sizeof w, &weights, &error));

  const rlx_tensor* inputs[] = {input};
  rlx_status status = rlx_compiled_run(compiled, inputs, 1, &output, 1, &error);
  EXPECT(status == RLX_INVALID_ARGUMENT && strstr(rlx_error_message(error), "'w'") != NULL); /* not bound yet */
  EXPECT(rlx_error_status(error) == status && output == NULL);
  rlx_error_free(error);

  OK(rlx_compiled_set_param(compiled, "w", weights, &error));
  rlx_tensor_free(weights);
  OK(rlx_compiled_run(compiled, inputs, 1, &output, 1, &error));
  EXPECT(strcmp(rlx_tensor_dtype(output), "f32") == 0 && rlx_tensor_rank(output) == 2 &&
         rlx_tensor_dims(output)[0] == 3);
  const float* y = rlx_tensor_data(output);
  static const float wanted[] = {2, 1, 4, 3, 6, 5};
  EXPECT(rlx_tensor_size(output) == sizeof wanted && memcmp(y, wanted, sizeof wanted) == 0);
  rlx_tensor_free(output);
  rlx_tensor_free(input);
  EXPECT(released == 1);

  const char* report = NULL;
  OK(rlx_compiled_report(compiled, &report, &error));
  EXPECT(strstr(report, "\"native\"") != NULL);
  rlx_compiled_free(compiled);
  rlx_session_free(session);
}

static void a_graph_is_built(void) {
  rlx_error* error = NULL;
  rlx_graph* graph = NULL;
  rlx_value x, top[2];
  size_t count = 0;
  OK(rlx_graph_create("built", &graph, &error));
  OK(rlx_graph_input(graph, "x", "f64[4]", &x, &error));
  EXPECT(rlx_graph_emit(graph, "top_k", &x, 1, "{k = 2}", top, 1, &count, &error) == RLX_INVALID_ARGUMENT &&
         count == 2);
  rlx_error_free(error);
  OK(rlx_graph_emit(graph, "top_k", &x, 1, "{k = 2}", top, 2, &count, &error));
  OK(rlx_graph_output(graph, top[0], "values", &error));
  OK(rlx_graph_output(graph, top[1], NULL, &error));
  char type[16];
  OK(rlx_graph_type(graph, top[1], type, sizeof type, NULL, &error));
  EXPECT(strcmp(type, "i32[2]") == 0);

  rlx_session* session = NULL;
  rlx_compiled* compiled = NULL;
  OK(rlx_session_create("cpu", NULL, &session, &error));
  OK(rlx_compile(session, graph, NULL, &compiled, &error));
  static const double values[] = {3, 9, 1, 7};
  const int64_t dims[] = {4};
  rlx_tensor *input = NULL, *outputs[2] = {NULL, NULL};
  OK(rlx_tensor_create("f64", dims, 1, values, sizeof values, &input, &error));
  const rlx_tensor* inputs[] = {input};
  OK(rlx_compiled_run(compiled, inputs, 1, outputs, 2, &error));
  EXPECT(((const double*)rlx_tensor_data(outputs[0]))[0] == 9 && ((const int32_t*)rlx_tensor_data(outputs[1]))[1] == 3);
  rlx_tensor_free(outputs[0]);
  rlx_tensor_free(outputs[1]);
  rlx_tensor_free(input);
  rlx_compiled_free(compiled);
  rlx_session_free(session);
  rlx_graph_free(graph);
}

static void mistakes_have_messages(void) {
  rlx_error* error = NULL;
  rlx_graph* graph = NULL;
  EXPECT(rlx_graph_parse("graph", 5, &graph, &error) == RLX_PARSE_ERROR &&
         strstr(rlx_error_message(error), "line 1") != NULL);
  rlx_error_free(error);
  EXPECT(rlx_graph_parse(NULL, 0, &graph, NULL) == RLX_INVALID_ARGUMENT && graph == NULL);
  EXPECT(rlx_graph_load("no/such/file.rlx", &graph, &error) != RLX_OK &&
         strstr(rlx_error_message(error), "no/such/file.rlx") != NULL);
  rlx_error_free(error);
  rlx_session* session = NULL;
  EXPECT(rlx_session_create("abacus", NULL, &session, &error) == RLX_NOT_FOUND &&
         strstr(rlx_error_message(error), "cpu") != NULL);
  rlx_error_free(error);
  EXPECT(rlx_device_available("cpu") == 1 && rlx_device_available("cuda") == 0 && rlx_device_available(NULL) == 0);
  EXPECT(rlx_device_available(rlx_pick_best_device()) == 1);
  rlx_tensor* tensor = NULL;
  const int64_t negative[] = {-1};
  EXPECT(rlx_tensor_create("f32", negative, 1, NULL, 0, &tensor, &error) == RLX_SHAPE_MISMATCH);
  rlx_error_free(error);
  EXPECT(rlx_tensor_create("f33", negative, 0, NULL, 0, &tensor, &error) == RLX_PARSE_ERROR);
  rlx_error_free(error);
  rlx_tensor_free(NULL);
  rlx_graph_free(NULL);
  rlx_compiled_free(NULL);
  rlx_session_free(NULL);
  rlx_error_free(NULL);
}

static void a_graph_goes_into_itself(void) {
  static const char kTwice[] =
      "rlx 1\n"
      "graph @twice {\n"
      "  %0 = input() @\"x\" : f32[2]\n"
      "  %1 = add(%0, %0) : f32[2]\n"
      "  return %1 @\"y\"\n"
      "}\n";
  rlx_error* error = NULL;
  rlx_graph* graph = NULL;
  rlx_session* session = NULL;
  rlx_compiled* compiled = NULL;
  OK(rlx_graph_parse(kTwice, strlen(kTwice), &graph, &error));
  const rlx_value twice = {1, 0};
  rlx_value four_times;
  OK(rlx_graph_inline(graph, graph, &twice, 1, &four_times, 1, NULL, &error));
  OK(rlx_graph_output(graph, four_times, "z", &error));
  OK(rlx_session_create("cpu", NULL, &session, &error));
  OK(rlx_compile(session, graph, NULL, &compiled, &error));
  float x[] = {1, 3}, y[2], z[2];
  const rlx_buffer input = {x, sizeof x}, outputs[] = {{y, sizeof y}, {z, sizeof z}};
  OK(rlx_compiled_call(compiled, &input, 1, outputs, 2, &error));
  EXPECT(y[0] == 2 && y[1] == 6 && z[0] == 4 && z[1] == 12);
  rlx_compiled_free(compiled);
  rlx_session_free(session);
  rlx_graph_free(graph);
}

/* Fails with the words, whose error is freed. */
static void expect_refused(rlx_status status, rlx_error* error, const char* words) {
  EXPECT(status == RLX_INVALID_ARGUMENT && strstr(rlx_error_message(error), words) != NULL);
  rlx_error_free(error);
}

static void a_bool_is_0_or_1(void) {
  static const char kNot[] =
      "rlx 1\n"
      "graph @not {\n"
      "  %0 = input() @\"x\" : bool[2, 2]\n"
      "  %1 = bitwise_not(%0) : bool[2, 2]\n"
      "  return %1 @\"y\"\n"
      "}\n";
  static const uint8_t right[] = {0, 1, 1, 0}, wrong[] = {0, 1, 2, 0};
  static const char kWords[] = "element 2 of bool[2, 2] is 2; a bool is 0 or 1";
  const int64_t dims[] = {2, 2};
  rlx_error* error = NULL;
  rlx_tensor* tensor = NULL;
  rlx_status status = rlx_tensor_create("bool", dims, 2, wrong, sizeof wrong, &tensor, &error);
  expect_refused(status, error, kWords);
  int count = 0;
  status = rlx_tensor_borrow("bool", dims, 2, wrong, sizeof wrong, count_release, &count, &tensor, &error);
  expect_refused(status, error, kWords);
  EXPECT(tensor == NULL && count == 0); /* the bytes were not taken */
  rlx_graph* graph = NULL;
  rlx_session* session = NULL;
  rlx_compiled* compiled = NULL;
  OK(rlx_graph_parse(kNot, strlen(kNot), &graph, &error));
  OK(rlx_session_create("cpu", NULL, &session, &error));
  OK(rlx_compile(session, graph, NULL, &compiled, &error));
  uint8_t given[4], result[4] = {7, 7, 7, 7};
  const rlx_buffer input = {given, sizeof given}, output = {result, sizeof result};
  memcpy(given, wrong, sizeof given);
  status = rlx_compiled_call(compiled, &input, 1, &output, 1, &error);
  expect_refused(status, error, kWords);
  EXPECT(result[0] == 7);
  memcpy(given, right, sizeof given);
  OK(rlx_compiled_call(compiled, &input, 1, &output, 1, &error));
  EXPECT(result[0] == 1 && result[1] == 0 && result[2] == 0 && result[3] == 1);
  rlx_compiled_free(compiled);
  rlx_session_free(session);
  rlx_graph_free(graph);
}

static void a_compile_is_told_what_to_do_and_says_what_it_would(void) {
  static const char kSoftmax[] =
      "rlx 1\n"
      "graph @soft {\n"
      "  %0 = input() @\"x\" : f32[4]\n"
      "  %1 = relu(%0) : f32[4]\n"
      "  %2 = softmax(%1) : f32[4]\n"
      "  return %2 @\"y\"\n"
      "}\n";
  rlx_error* error = NULL;
  rlx_graph* graph = NULL;
  rlx_session* session = NULL;
  rlx_compiled* compiled = NULL;
  char *report = NULL, *devices = NULL;
  const char *json = NULL, *donated[] = {"x"};
  rlx_compile_options options;
  memset(&options, 0, sizeof options);
  options.struct_size = sizeof options;
  OK(rlx_graph_parse(kSoftmax, strlen(kSoftmax), &graph, &error));
  OK(rlx_session_create("cpu", NULL, &session, &error));
  OK(rlx_devices(&devices, &error));
  EXPECT(strstr(devices, "{\"name\":\"cpu\",\"available\":true,\"accelerates\":false,") != NULL);
  EXPECT(strstr(devices, "{\"name\":\"null\",\"available\":false,") != NULL);

  /* The report comes before the compile, and is the same. */
  options.more = "{rounding = relaxed, force_common = [\"softmax\"], skip_passes = [\"fuse_elementwise\"]}";
  options.donate = donated, options.donate_count = 1;
  OK(rlx_graph_report(graph, "cpu", &options, &report, &error));
  EXPECT(strstr(report, "\"composed\"") != NULL && strstr(report, "\"native\"") != NULL);
  OK(rlx_compile(session, graph, &options, &compiled, &error));
  OK(rlx_compiled_report(compiled, &json, &error));
  EXPECT(strcmp(report, json) == 0);

  /* So is that of a file that it is saved to, which another session loads. */
  char path[] = "/tmp/rlx-saved-XXXXXX", *about = NULL, *target = NULL;
  rlx_compiled* loaded = NULL;
  rlx_graph* source = NULL;
  const int file = mkstemp(path);
  EXPECT(file >= 0);
  close(file);
  OK(rlx_compiled_save(compiled, path, NULL, NULL, 0, &error));
  OK(rlx_session_load(session, path, &loaded, &error));
  OK(rlx_compiled_report(loaded, &json, &error));
  EXPECT(strcmp(report, json) == 0);
  EXPECT(rlx_compiled_count(loaded, 0) == 1 &&
         rlx_compiled_input_mode(loaded, 0) == rlx_compiled_input_mode(compiled, 0));
  OK(rlx_artifact_describe(path, &about, &error));
  EXPECT(strstr(about, "\"kind\": \"compiled graph\"") != NULL && strstr(about, "\"rounding\": \"relaxed\"") != NULL);
  OK(rlx_artifact_graph(path, &source, &error));
  EXPECT(strstr(rlx_graph_text(source), "softmax") != NULL);
  OK(rlx_device_target("tiny", &target, &error));
  EXPECT(strstr(target, "\"buffers_per_launch\": 8") != NULL);
  rlx_text_free(target);
  rlx_text_free(about);
  rlx_graph_free(source);
  rlx_compiled_free(loaded);
  remove(path);

  /* A compile that fails carries it; another error carries none, and a struct of before has fewer members. */
  rlx_compiled* none = NULL;
  options.strict = 1;
  EXPECT(rlx_compile(session, graph, &options, &none, &error) == RLX_UNSUPPORTED && none == NULL);
  EXPECT(strcmp(rlx_error_report(error), report) == 0);
  rlx_error_free(error);
  options.more = "{isa = \"mmx\"}";
  EXPECT(rlx_compile(session, graph, &options, &none, &error) == RLX_INVALID_ARGUMENT && none == NULL);
  EXPECT(strstr(rlx_error_message(error), "isa=mmx is no instruction set: take one of ") != NULL);
  rlx_error_free(error);
  options.more = "{donut = 3}";
  EXPECT(rlx_compile(session, graph, &options, &none, &error) == RLX_PARSE_ERROR);
  EXPECT(strstr(rlx_error_message(error), "donut") != NULL && rlx_error_report(error)[0] == '\0');
  rlx_error_free(error);
  options.struct_size = offsetof(rlx_compile_options, donate);
  OK(rlx_compile(session, graph, &options, &none, &error));
  rlx_compiled_free(none);
  rlx_compiled_free(compiled);
  rlx_text_free(report);
  rlx_text_free(devices);
  rlx_session_free(session);
  rlx_graph_free(graph);
}

static void a_compile_takes_text_and_constants(void) {
  static const char kShifted[] =
      "graph @shifted {\n"
      "  %0 = input() @\"x\" : f32[2]\n"
      "  %1 = constant() {value = f32[2] @\"shift\"} : f32[2]\n"
      "  %2 = add(%0, %1) : f32[2]\n"
      "  return %2 @\"y\"\n"
      "}\n";
  rlx_error* error = NULL;
  rlx_session* session = NULL;
  rlx_compiled* compiled = NULL;
  float shift[] = {10, 20}, x[] = {1, 2}, y[] = {0, 0};
  const char *names[] = {"shift"}, *types[] = {"f32[2]"}, *others[] = {"other"}, *wide[] = {"f32[1000000000]"};
  const rlx_buffer value = {shift, sizeof shift}, input = {x, sizeof x}, output = {y, sizeof y};
  OK(rlx_session_create("cpu", NULL, &session, &error));
  OK(rlx_compile_text(session, kShifted, strlen(kShifted), names, types, &value, 1, NULL, &compiled, &error));
  shift[0] = shift[1] = 0; /* they were copied */
  OK(rlx_compiled_call(compiled, &input, 1, &output, 1, &error));
  EXPECT(y[0] == 11 && y[1] == 22);
  float other_shift[] = {3, 4};
  const rlx_buffer other = {other_shift, sizeof other_shift};
  rlx_graph* graph = NULL;
  OK(rlx_graph_parse_with(kShifted, strlen(kShifted), names, types, &other, 1, &graph, &error));
  rlx_compiled* of_graph = NULL;
  OK(rlx_compile(session, graph, NULL, &of_graph, &error));
  OK(rlx_compiled_call(of_graph, &input, 1, &output, 1, &error));
  EXPECT(y[0] == 4 && y[1] == 6);
  rlx_compiled_free(of_graph);
  rlx_graph_free(graph);
  rlx_compiled* none = NULL;
  rlx_status status =
      rlx_compile_text(session, kShifted, strlen(kShifted), others, types, &value, 1, NULL, &none, &error);
  EXPECT(status == RLX_NOT_FOUND && none == NULL && strstr(rlx_error_message(error), "'shift'") != NULL);
  rlx_error_free(error);
  status = rlx_compile_text(session, kShifted, strlen(kShifted), names, wide, &value, 1, NULL, &none, &error);
  EXPECT(status != RLX_OK && none == NULL && strstr(rlx_error_message(error), "the constant 'shift'") != NULL);
  rlx_error_free(error);
  rlx_compiled_free(compiled);
  rlx_session_free(session);
}

int main(void) {
  a_parsed_graph_runs();
  a_graph_is_built();
  mistakes_have_messages();
  a_graph_goes_into_itself();
  a_bool_is_0_or_1();
  a_compile_is_told_what_to_do_and_says_what_it_would();
  a_compile_takes_text_and_constants();
  printf("RLX %s: 7 passed, %d failed\n", rlx_version_string(), failures);
  return failures ? 1 : 0;
}
