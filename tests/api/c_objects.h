/* One valid object of each kind, for tests/api/c_odd_arguments.py, whose calls are given these but for one argument. */
#ifndef RLX_TESTS_API_C_OBJECTS_H
#define RLX_TESTS_API_C_OBJECTS_H
#include <limits.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "api/c_expect.h"

static const char kModel[] =
    "rlx 1\n"
    "graph @model {\n"
    "  %0 = input() @\"x\" : f32[2, 3]\n"
    "  %1 = param() @\"w\" : f32[3, 2]\n"
    "  %2 = matmul(%0, %1) : f32[2, 2]\n"
    "  return %2 @\"y\"\n"
    "}\n";
static const char kLoss[] =
    "rlx 1\n"
    "graph @loss {\n"
    "  %0 = input() @\"x\" : f32[2, 3]\n"
    "  %1 = param() @\"w\" : f32[3, 2]\n"
    "  %2 = matmul(%0, %1) : f32[2, 2]\n"
    "  %3 = mean(%2) {axes = [0, 1]} : f32[]\n"
    "  return %3 @\"loss\"\n"
    "}\n";
static const char kPlain[] =
    "rlx 1\n"
    "graph @plain {\n"
    "  %0 = input() @\"x\" : f32[2, 3]\n"
    "  %1 = exp(%0) : f32[2, 3]\n"
    "  return %1 @\"y\"\n"
    "}\n";
static const char kStep[] =
    "rlx 1\n"
    "graph @step {\n"
    "  %0 = input() @\"x\" : f16[1, 4]\n"
    "  %1 = input() @\"total\" : f16[1, 4]\n"
    "  %2 = add(%1, %0) : f16[1, 4]\n"
    "  return %2 @\"next\", %2 @\"y\"\n"
    "}\n";

typedef struct objects {
  rlx_session* session;
  rlx_graph *plain, *model, *loss, *fake;
  rlx_tensor *x, *w, *half;
  rlx_compiled* compiled;
  rlx_training* training;
  rlx_quantization* quantization;
  rlx_coreml* coreml;
  rlx_coreml_state* state;
  rlx_device_tensor *there, *w_there, *half_there;
  rlx_event* event;
  rlx_run* run;
  rlx_error* failure;
  char* ranges;
} objects;

static const int64_t kXDims[] = {2, 3}, kWDims[] = {3, 2}, kHalfDims[] = {1, 4};
static const float kNumbers[] = {1, 2, 3, 4, 5, 6};
static const char *kWName[] = {"w", NULL}, *kXName[] = {"x", NULL};
static char folder[] = "/tmp/rlx-test-XXXXXX";
static char package_path[64], checkpoint_path[64], graph_path[64], written_path[64];

static void make_files(void);

static objects make_objects(void) {
  objects o;
  rlx_error* error = NULL;
  rlx_session_options one_thread = {sizeof one_thread, 1};
  memset(&o, 0, sizeof o);
  OK(rlx_session_create("cpu", &one_thread, &o.session, &error));
  OK(rlx_graph_parse(kPlain, strlen(kPlain), &o.plain, &error));
  OK(rlx_graph_parse(kModel, strlen(kModel), &o.model, &error));
  OK(rlx_graph_parse(kLoss, strlen(kLoss), &o.loss, &error));
  OK(rlx_tensor_create("f32", kXDims, 2, kNumbers, sizeof kNumbers, &o.x, &error));
  OK(rlx_tensor_create("f32", kWDims, 2, kNumbers, sizeof kNumbers, &o.w, &error));
  OK(rlx_tensor_create("f16", kHalfDims, 2, NULL, 0, &o.half, &error));
  OK(rlx_compile(o.session, o.model, NULL, &o.compiled, &error));
  OK(rlx_compiled_set_param(o.compiled, "w", o.w, &error));
  const rlx_tensor *params[] = {o.w}, *inputs[] = {o.x};
  OK(rlx_device_put(o.x, "cpu", &o.there, &error));
  OK(rlx_device_put(o.w, "cpu", &o.w_there, &error));
  OK(rlx_device_put(o.half, "cpu", &o.half_there, &error));
  rlx_device_tensor* output = NULL;
  OK(rlx_compiled_run_async(o.compiled, inputs, 1, &output, 1, &o.run, &error));
  rlx_device_tensor_free(output);
  OK(rlx_run_event(o.run, &o.event, &error));
  OK(rlx_training_create(o.session, o.loss, kWName, params, 1, "{optimizer = \"sgd\", ema = 0.5}", &o.training,
                         &error));
  OK(rlx_calibrate(o.session, o.model, kWName, params, 1, kXName, 1, inputs, 1, NULL, NULL, &o.ranges, &error));
  OK(rlx_quantize(o.model, "{weights = fixed}", 0, &o.quantization, &error));
  OK(rlx_quantization_graph(o.quantization, &o.fake, &error));
  make_files();
  OK(rlx_coreml_load(package_path, NULL, &o.coreml, &error));
  OK(rlx_coreml_make_state(o.coreml, &o.state, &error));
  rlx_graph_load("/nowhere/at/all.rlx", &o.plain, &o.failure);
  EXPECT(o.failure != NULL && o.plain != NULL);
  return o;
}

static void free_objects(objects* o) {
  rlx_error_free(o->failure);
  rlx_run_wait(o->run, -1, NULL, NULL);
  rlx_run_free(o->run);
  rlx_event_free(o->event);
  rlx_device_tensor_free(o->there);
  rlx_device_tensor_free(o->w_there);
  rlx_device_tensor_free(o->half_there);
  rlx_coreml_state_free(o->state);
  rlx_coreml_free(o->coreml);
  rlx_quantization_free(o->quantization);
  rlx_text_free(o->ranges);
  rlx_training_free(o->training);
  rlx_compiled_free(o->compiled);
  rlx_tensor_free(o->x);
  rlx_tensor_free(o->w);
  rlx_tensor_free(o->half);
  rlx_graph_free(o->plain);
  rlx_graph_free(o->model);
  rlx_graph_free(o->loss);
  rlx_graph_free(o->fake);
  rlx_session_free(o->session);
}

/* A package with a state, a graph and a checkpoint, in a folder of their own; written once. */
static void make_files(void) {
  static int are_made = 0;
  if (are_made) return;
  are_made = 1;
  rlx_error* error = NULL;
  rlx_graph *step = NULL, *loss = NULL;
  rlx_session* session = NULL;
  rlx_training* training = NULL;
  rlx_tensor* w = NULL;
  rlx_coreml_write_options options;
  memset(&options, 0, sizeof options);
  options.struct_size = sizeof options;
  options.features = "{\"states\": [[\"total\", \"next\"]]}";
  snprintf(package_path, sizeof package_path, "%s/state.mlpackage", folder);
  snprintf(checkpoint_path, sizeof checkpoint_path, "%s/checkpoint.safetensors", folder);
  snprintf(graph_path, sizeof graph_path, "%s/graph.rlx", folder);
  snprintf(written_path, sizeof written_path, "%s/written", folder);
  OK(rlx_graph_parse(kStep, strlen(kStep), &step, &error));
  OK(rlx_coreml_write(package_path, step, NULL, NULL, 0, &options, NULL, &error));
  OK(rlx_graph_save(step, graph_path, &error));
  OK(rlx_graph_parse(kLoss, strlen(kLoss), &loss, &error));
  OK(rlx_session_create("cpu", NULL, &session, &error));
  OK(rlx_tensor_create("f32", kWDims, 2, kNumbers, sizeof kNumbers, &w, &error));
  const rlx_tensor* params[] = {w};
  OK(rlx_training_create(session, loss, kWName, params, 1, "{optimizer = \"sgd\", ema = 0.5}", &training, &error));
  OK(rlx_training_save(training, checkpoint_path, NULL, NULL, 0, &error));
  rlx_training_free(training);
  rlx_tensor_free(w);
  rlx_session_free(session);
  rlx_graph_free(loss);
  rlx_graph_free(step);
}
#endif
