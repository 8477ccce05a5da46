/* Programs of Core ML, op by op, through the C ABI. */
#define _POSIX_C_SOURCE 200809L
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "c_expect.h"

static rlx_error* error = NULL;

static rlx_tensor* tensor_of(const char* dtype, const int64_t* dims, size_t rank, const void* data, size_t size) {
  rlx_tensor* made = NULL;
  OK(rlx_tensor_create(dtype, dims, rank, data, size, &made, &error));
  return made;
}
static int32_t input(rlx_mil* mil, const char* name, const char* type) {
  int32_t value = -1;
  OK(rlx_mil_input(mil, name, type, NULL, NULL, &value, &error));
  return value;
}
/* An op of x and, if it is not below 0, y. */
static int32_t op(rlx_mil* mil, const char* type, int32_t x, int32_t y, const char* name) {
  int32_t first = -1;
  size_t count = 0;
  OK(rlx_mil_set_values(mil, "x", &x, 1, &error));
  if (y >= 0) OK(rlx_mil_set_values(mil, "y", &y, 1, &error));
  OK(rlx_mil_op(mil, type, name, &first, &count, &error));
  EXPECT(count == 1);
  return first;
}
static rlx_tensor* predicted(rlx_coreml* model, const char* name, const rlx_tensor* x) {
  rlx_tensor* y = NULL;
  const char* names[] = {name};
  const rlx_tensor* inputs[] = {x};
  OK(rlx_coreml_predict(model, names, inputs, 1, NULL, &y, 1, &error));
  return y;
}
/* The program's prediction, which a package and the model in memory give alike. */
static rlx_tensor* result_of(rlx_mil* mil, const rlx_tensor* x) {
  char folder[] = "/tmp/rlx-test-XXXXXX", path[64], command[64], *report = NULL;
  EXPECT(mkdtemp(folder) != NULL);
  snprintf(path, sizeof path, "%s/a.mlpackage", folder);
  snprintf(command, sizeof command, "rm -r '%s'", folder);
  rlx_coreml *from_file = NULL, *in_memory = NULL;
  OK(rlx_mil_write(mil, path, &report, &error));
  EXPECT(strstr(report, "\"minimum_ios\": 15, \"needed_by\": \"\"") != NULL);
  rlx_text_free(report);
  OK(rlx_coreml_load(path, NULL, &from_file, &error));
  OK(rlx_mil_load(mil, NULL, &in_memory, &error));
  rlx_tensor *y = predicted(from_file, "x", x), *z = predicted(in_memory, "x", x);
  EXPECT(rlx_tensor_size(y) == rlx_tensor_size(z));
  EXPECT(memcmp(rlx_tensor_data(y), rlx_tensor_data(z), rlx_tensor_size(y)) == 0);
  rlx_tensor_free(z);
  rlx_coreml_free(from_file), rlx_coreml_free(in_memory);
  EXPECT(system(command) == 0);
  return y;
}
static void arguments_of_each_kind(void) {
  rlx_mil* mil = NULL;
  rlx_mil_options options;
  memset(&options, 0, sizeof options);
  options.struct_size = sizeof options, options.description = "from C";
  OK(rlx_mil_create(&options, &mil, &error));
  int32_t x = input(mil, "x", "f32[1, 1, 2, 2]"), c = -1, values[2], y = -1;
  const float kernel[] = {2}, numbers[] = {1, -2, 3, -4};
  const int64_t dims[] = {1, 1, 1, 1}, image[] = {1, 1, 2, 2}, flat[] = {1, -1}, one[] = {1, 1};
  rlx_tensor *w = tensor_of("f32", dims, 4, kernel, sizeof kernel),
             *in = tensor_of("f32", image, 4, numbers, sizeof numbers);
  OK(rlx_mil_set_values(mil, "x", &x, 1, &error));
  OK(rlx_mil_set_tensor(mil, "weight", w, &error));
  OK(rlx_mil_set_text(mil, "pad_type", "valid", &error));
  OK(rlx_mil_set_integers(mil, "strides", one, 2, &error));
  OK(rlx_mil_op(mil, "conv", "c", &c, NULL, &error));
  rlx_tensor_free(w);
  EXPECT(strcmp(rlx_mil_name(mil, c), "c") == 0);
  EXPECT(rlx_mil_name(mil, 99) == NULL);
  char type[64];
  size_t size = 0;
  OK(rlx_mil_type(mil, c, type, sizeof type, &size, &error));
  EXPECT(strcmp(type, "f32[1, 1, 2, 2]") == 0 && size == strlen(type) + 1);
  OK(rlx_mil_set_values(mil, "x", &c, 1, &error));
  OK(rlx_mil_set_number(mil, "alpha", 0.5, &error));
  OK(rlx_mil_op(mil, "leaky_relu", NULL, &values[0], NULL, &error));
  values[1] = c;
  OK(rlx_mil_set_values(mil, "values", values, 2, &error));
  OK(rlx_mil_set_integer(mil, "axis", 0, &error));
  OK(rlx_mil_set_flag(mil, "interleave", 0, &error));
  OK(rlx_mil_op(mil, "concat", NULL, &y, NULL, &error));
  OK(rlx_mil_set_values(mil, "x", &y, 1, &error));
  OK(rlx_mil_set_integers(mil, "shape", flat, 2, &error));
  OK(rlx_mil_op(mil, "reshape", NULL, &y, NULL, &error));
  OK(rlx_mil_output(mil, y, "y", &error));
  rlx_tensor* out = result_of(mil, in);
  const float wanted[] = {2, -2, 6, -4, 2, -4, 6, -8};
  EXPECT(rlx_tensor_size(out) == sizeof wanted && memcmp(rlx_tensor_data(out), wanted, sizeof wanted) == 0);
  rlx_tensor_free(out), rlx_tensor_free(in);
  rlx_mil_free(mil);
}

static void a_loop_with_a_cond_in_it(void) {
  /* Collatz' sequence from x: how many steps to 1. */
  rlx_mil* mil = NULL;
  OK(rlx_mil_create(NULL, &mil, &error));
  int32_t x = input(mil, "x", "i32[1]"), vars[2], inside, body, results, next[2];
  const int32_t numbers[] = {0, 1, 2, 3, 6};
  const int64_t dims[] = {1};
  int32_t constants[5];
  for (int i = 0; i < 5; ++i) {
    rlx_tensor* t = tensor_of("i32", NULL, 0, &numbers[i], sizeof numbers[i]);
    OK(rlx_mil_constant(mil, t, NULL, &constants[i], &error));
    rlx_tensor_free(t);
  }
  OK(rlx_mil_set_values(mil, "x", &x, 1, &error));
  OK(rlx_mil_op(mil, "squeeze", NULL, &vars[0], NULL, &error));
  vars[1] = constants[0];
  OK(rlx_mil_begin_while(mil, vars, 2, "loop", &inside, &error));
  OK(rlx_mil_begin_body(mil, op(mil, "greater", inside, constants[1], NULL), &body, &error));
  int32_t rest = op(mil, "mod", body, constants[2], NULL);
  OK(rlx_mil_begin_cond(mil, op(mil, "equal", rest, constants[0], NULL), NULL, &error));
  int32_t half = op(mil, "floor_div", body, constants[2], NULL);
  OK(rlx_mil_begin_else(mil, &half, 1, &error));
  int32_t more = op(mil, "add", op(mil, "mul", body, constants[3], NULL), constants[1], NULL);
  OK(rlx_mil_end_cond(mil, &more, 1, &next[0], &error));
  next[1] = op(mil, "add", body + 1, constants[1], NULL);
  OK(rlx_mil_end_while(mil, next, 2, &results, &error));
  FAILS(rlx_mil_set_values(mil, "x", &x, SIZE_MAX, &error), RLX_INVALID_ARGUMENT, "no memory holds");
  OK(rlx_mil_set_values(mil, "x", &half, 1, &error));
  FAILS(rlx_mil_op(mil, "relu", NULL, NULL, NULL, &error), RLX_INVALID_ARGUMENT, "a block that has ended");
  const int64_t axes[] = {0};
  int32_t steps = results + 1, y;
  OK(rlx_mil_set_values(mil, "x", &steps, 1, &error));
  OK(rlx_mil_set_integers(mil, "axes", axes, 1, &error));
  OK(rlx_mil_op(mil, "expand_dims", "steps", &y, NULL, &error));
  OK(rlx_mil_output(mil, y, NULL, &error));
  const int32_t wanted[][2] = {{1, 0}, {6, 8}, {27, 111}};
  for (int i = 0; i < 3; ++i) {
    rlx_tensor *in = tensor_of("i32", dims, 1, &wanted[i][0], sizeof(int32_t)), *out = result_of(mil, in);
    EXPECT(memcmp(rlx_tensor_data(out), &wanted[i][1], sizeof(int32_t)) == 0);
    rlx_tensor_free(in), rlx_tensor_free(out);
  }
  rlx_mil_free(mil);
}

static void what_is_wrong_is_said(void) {
  rlx_mil* mil = NULL;
  rlx_mil_options options;
  memset(&options, 0, sizeof options);
  options.struct_size = sizeof options, options.minimum_ios = 12;
  FAILS(rlx_mil_create(&options, &mil, &error), RLX_INVALID_ARGUMENT, "minimum_ios is 12; it must be 15 to 18");
  OK(rlx_mil_create(NULL, &mil, &error));
  int32_t x = input(mil, "x", "f32[2, 3]"), value = 7, none = 99;
  FAILS(rlx_mil_input(mil, "x", "f32[2]", NULL, NULL, &value, &error), RLX_INVALID_ARGUMENT, "'x' is taken");
  FAILS(rlx_mil_input(mil, "z", "f32[2", NULL, NULL, &value, &error), RLX_PARSE_ERROR, "");
  FAILS(rlx_mil_input(mil, "z", "f32[N]", "M=1..2", NULL, &value, &error), RLX_NOT_FOUND, "sizes are given for M");
  FAILS(rlx_mil_input(mil, "z", "f32[2]", NULL, "purple", &value, &error), RLX_INVALID_ARGUMENT, "not 'purple'");
  EXPECT(value == 7);
  OK(rlx_mil_set_values(mil, "x", &x, 1, &error));
  FAILS(rlx_mil_op(mil, "relo", NULL, NULL, NULL, &error), RLX_NOT_FOUND, "the nearest are 'relu'");
  /* The arguments went with the op that was refused. */
  FAILS(rlx_mil_op(mil, "relu", NULL, NULL, NULL, &error), RLX_INVALID_ARGUMENT, "the parameter 'x' is missing");
  FAILS(rlx_mil_set_values(mil, "x", &none, 1, &error), RLX_INVALID_ARGUMENT, "there is no value 99");
  FAILS(rlx_mil_begin_cond(mil, x, NULL, &error), RLX_SHAPE_MISMATCH, "it is to be bool[]");
  FAILS(rlx_mil_begin_else(mil, &x, 1, &error), RLX_INVALID_ARGUMENT, "begin_else without a begin_cond");
  FAILS(rlx_mil_abandon(mil, &error), RLX_INVALID_ARGUMENT, "there is no block to abandon");
  FAILS(rlx_mil_write(mil, "never.mlpackage", NULL, &error), RLX_INVALID_ARGUMENT, "has no output");
  char* text = NULL;
  FAILS(rlx_mil_signature("clop", 18, &text, &error), RLX_NOT_FOUND, "the nearest are 'clip'");
  OK(rlx_mil_signature("clip", 15, &text, &error));
  EXPECT(strcmp(text, "clip(x, alpha, beta)") == 0);
  rlx_text_free(text);
  rlx_mil_free(mil);
}

int main(void) {
  arguments_of_each_kind();
  a_loop_with_a_cond_in_it();
  what_is_wrong_is_said();
  return failures != 0;
}
