/* A backend in C11, registered by the program itself: it subtracts, in the host's memory. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rlx/backend.h"

#define EXPECT(condition)                                                                           \
  do {                                                                                              \
    if (!(condition)) {                                                                             \
      fprintf(stderr, "%s:%d: %s; %s\n", __FILE__, __LINE__, #condition, rlx_error_message(error)); \
      exit(1);                                                                                      \
    }                                                                                               \
  } while (0)

static const rlx_backend_api* api;

static rlx_status open_device(void* context, int ordinal, const char* options, rlx_target* target, void** device,
                              rlx_error** error) {
  (void)context, (void)options, (void)device;
  if (ordinal != 0) return api->fail(error, RLX_NOT_FOUND, "there is one, 0");
  target->description = "subtracts";
  return RLX_OK;
}
static rlx_status supports(void* device, const rlx_graph_view* graph, rlx_error** error) {
  (void)device;
  const rlx_node* node = graph->nodes[graph->node_count - 1];
  if (strcmp(node->op, "sub") == 0 && strcmp(node->results[0]->dtype, "f32") == 0) return RLX_OK;
  return api->fail(error, RLX_UNSUPPORTED, "it subtracts f32, and nothing else");
}
static rlx_status compile(void* device, const rlx_compile_request* request, void** executable, rlx_error** error) {
  (void)device;
  const rlx_graph_view* graph = request->graph;
  if (graph->node_count != 3 || graph->input_count != 2)
    return api->fail(error, RLX_UNSUPPORTED, "it runs graphs of one difference");
  *executable = (void*)graph;
  return RLX_OK;
}
static rlx_status launch(void* device, void* executable, const rlx_launch* run, rlx_error** error) {
  (void)device, (void)error;
  const rlx_graph_view* graph = executable;
  const float* at[3] = {0};
  for (size_t i = 0; i < 2; ++i) at[graph->inputs[i].node] = run->inputs[i]->buffer;
  const rlx_value* operands = graph->nodes[2]->operands;
  float* y = run->outputs[0]->buffer;
  for (size_t i = 0; i < run->outputs[0]->size / sizeof(float); ++i)
    y[i] = at[operands[0].node][i] - at[operands[1].node][i];
  return RLX_OK;
}

static const char kGraph[] =
    "graph @difference {\n"
    "  %0 = input() @\"a\" : f32[2]\n  %1 = input() @\"b\" : f32[2]\n  %2 = sub(%0, %1) : f32[2]\n"
    "  return %2 @\"y\"\n}\n";

int main(void) {
  rlx_error* error = NULL;
  api = rlx_backend_functions();
  EXPECT(api->struct_size >= sizeof *api);
  rlx_backend table = {0};
  table.struct_size = sizeof table;
  table.name = "minus";
  table.open = open_device, table.supports = supports, table.compile = compile, table.launch = launch;
  EXPECT(api->register_backend(&table, &error) == RLX_OK);
  EXPECT(api->register_backend(&table, &error) == RLX_INVALID_ARGUMENT);
  EXPECT(strstr(rlx_error_message(error), "there is a backend 'minus' already"));
  rlx_error_free(error), error = NULL;
  EXPECT(rlx_device_available("minus") == 1);

  rlx_graph* graph = NULL;
  rlx_session* session = NULL;
  rlx_compiled* compiled = NULL;
  EXPECT(rlx_graph_parse(kGraph, strlen(kGraph), &graph, &error) == RLX_OK);
  EXPECT(rlx_session_create("minus", NULL, &session, &error) == RLX_OK);
  EXPECT(rlx_compile(session, graph, NULL, &compiled, &error) == RLX_OK);
  const float a[2] = {5, 7}, b[2] = {1, 2};
  const int64_t dims[1] = {2};
  rlx_tensor* inputs[2];
  rlx_tensor* outputs[1];
  EXPECT(rlx_tensor_create("f32", dims, 1, a, sizeof a, &inputs[0], &error) == RLX_OK);
  EXPECT(rlx_tensor_create("f32", dims, 1, b, sizeof b, &inputs[1], &error) == RLX_OK);
  EXPECT(rlx_compiled_run(compiled, (const rlx_tensor* const*)inputs, 2, outputs, 1, &error) == RLX_OK);
  const float* y = rlx_tensor_data(outputs[0]);
  EXPECT(y[0] == 4 && y[1] == 5);
  rlx_tensor_free(outputs[0]), rlx_tensor_free(inputs[0]), rlx_tensor_free(inputs[1]);
  rlx_compiled_free(compiled), rlx_session_free(session), rlx_graph_free(graph);

  EXPECT(rlx_load_plugin("no such file.so", &error) == RLX_IO_ERROR);
  EXPECT(strstr(rlx_error_message(error), "while loading 'no such file.so'"));
  rlx_error_free(error), error = NULL;
  EXPECT(rlx_load_plugin(NULL, &error) == RLX_INVALID_ARGUMENT);
  rlx_error_free(error);
  return 0;
}
