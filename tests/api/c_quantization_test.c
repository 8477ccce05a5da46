/* Quantization from C: ranges, fake quantization, its params, the graph of codes; mistakes have messages. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "c_expect.h"
#include "rlx/c.h"

static void expect_error(rlx_status status, rlx_error* error, const char* words) {
  EXPECT(status != RLX_OK);
  if (!error || !strstr(rlx_error_message(error), words)) {
    fprintf(stderr, "expected '%s', got '%s'\n", words, error ? rlx_error_message(error) : "nothing");
    ++failures;
  }
  rlx_error_free(error);
}

#define REFUSED(call, words)            \
  do {                                  \
    rlx_status status = (call);         \
    expect_error(status, error, words); \
  } while (0)

static const char kNet[] =
    "rlx 1\n"
    "graph @net {\n"
    "  %0 = input() @\"x\" : f32[2, 3]\n"
    "  %1 = param() @\"w\" : f32[3, 2]\n"
    "  %2 = matmul(%0, %1) : f32[2, 2]\n"
    "  return %2 @\"y\"\n"
    "}\n";
/* y = x w = (1, -0.5; 0.5, 2), in exact numbers. */
static const float kX[] = {1, 0, -1, 0, 2, 1}, kW[] = {0.5F, 0.25F, 0.5F, 0.625F, -0.5F, 0.75F};

int main(void) {
  rlx_error* error = NULL;
  rlx_session* session = NULL;
  rlx_graph *net = NULL, *faked = NULL, *int8 = NULL;
  rlx_tensor *x = NULL, *w = NULL;
  const int64_t x_dims[] = {2, 3}, w_dims[] = {3, 2};
  OK(rlx_session_create("cpu", NULL, &session, &error));
  OK(rlx_graph_parse(kNet, strlen(kNet), &net, &error));
  OK(rlx_tensor_create("f32", x_dims, 2, kX, sizeof kX, &x, &error));
  OK(rlx_tensor_create("f32", w_dims, 2, kW, sizeof kW, &w, &error));
  const char *param_names[3] = {"w"}, *inputs[] = {"x"};
  const rlx_tensor *params[6] = {w}, *batches[] = {x};

  char *ranges = NULL, *table = NULL;
  OK(rlx_calibrate(session, net, param_names, params, 1, inputs, 1, batches, 1, NULL, "{method = min_max}", &ranges,
                   &error));
  OK(rlx_ranges_table(ranges, &table, &error));
  EXPECT(strstr(table, "w.output"));
  rlx_text_free(table);

  rlx_quantization* made = NULL;
  OK(rlx_quantize(net, "{weights = fixed}", 0, &made, &error));
  OK(rlx_quantization_graph(made, &faked, &error));
  const char* json = NULL;
  OK(rlx_quantization_describe(made, &json, &error));
  EXPECT(strstr(json, "\"frozen\":true"));
  const char* names[6] = {"w"};
  rlx_tensor* values[5] = {NULL};
  size_t count = 0;
  OK(rlx_quantization_initial(made, param_names, params, 1, ranges, NULL, NULL, 0, &count, &error));
  EXPECT(count == 5); /* a scale of the weight, scales and zero points of x and y */
  OK(rlx_quantization_initial(made, param_names, params, 1, ranges, names + 1, values, 5, NULL, &error));
  for (int i = 0; i < 5; ++i) params[i + 1] = values[i];
  OK(rlx_export_int8(session, faked, names, params, 6, &int8, &table, &error));
  EXPECT(strstr(table, "qmatmul"));
  rlx_text_free(table);

  rlx_compiled* compiled = NULL;
  rlx_tensor* y = NULL;
  OK(rlx_compile(session, int8, NULL, &compiled, &error));
  OK(rlx_compiled_run(compiled, batches, 1, &y, 1, &error));
  const float* got = rlx_tensor_data(y);
  const float exact[] = {1, -0.5F, 0.5F, 2};
  for (int i = 0; i < 4; ++i) EXPECT(fabsf(got[i] - exact[i]) < 0.03F);

  rlx_quantization* none = NULL;
  REFUSED(rlx_quantize(faked, NULL, 0, &none, &error), "is quantized already");
  REFUSED(rlx_quantize(net, "{activations = mean}", 0, &none, &error), "reading the config");
  REFUSED(rlx_quantization_initial(made, param_names, params, 1, NULL, NULL, NULL, 0, &count, &error),
          "calibrate the graph first");
  REFUSED(rlx_quantization_initial(made, param_names, params, 1, ranges, names, values, 2, NULL, &error),
          "got room for 2");
  REFUSED(rlx_calibrate(session, net, param_names, params, 1, inputs, 1, NULL, 0, NULL, NULL, &table, &error),
          "there are no calibration data");
  REFUSED(rlx_export_int8(session, net, param_names, params, 1, &int8, NULL, &error), "has no fake quantization");
  REFUSED(rlx_ranges_table("{}", &table, &error), "they are no ranges");

  rlx_tensor_free(y), rlx_tensor_free(x), rlx_tensor_free(w);
  for (int i = 0; i < 5; ++i) rlx_tensor_free(values[i]);
  rlx_compiled_free(compiled);
  rlx_graph_free(int8), rlx_graph_free(faked), rlx_graph_free(net);
  rlx_quantization_free(made);
  rlx_text_free(ranges);
  rlx_session_free(session);
  return failures ? 1 : 0;
}
