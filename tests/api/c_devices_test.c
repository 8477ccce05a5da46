/* Tensors on devices, events and runs in the background through the C ABI, on the processor and on a device whose
   memory the host cannot point into. */
#include <string.h>

#include "c_expect.h"

static const char kAdding[] =
    "rlx 1\n"
    "graph @adding {\n"
    "  %0 = input() @\"x\" : f32[4]\n"
    "  %1 = input() @\"y\" : f32[4]\n"
    "  %2 = add(%0, %1) : f32[4]\n"
    "  return %2 @\"x\"\n"
    "}\n";
static const char kScaled[] =
    "rlx 1\n"
    "graph @scaled {\n"
    "  %0 = input() @\"x\" : f32[4]\n"
    "  %1 = param() @\"w\" : f32[4]\n"
    "  %2 = mul(%0, %1) : f32[4]\n"
    "  return %2 @\"y\"\n"
    "}\n";
/* Counts up to a number that no float reaches by ones. */
static const char kEndless[] =
    "rlx 1\n"
    "graph @endless {\n"
    "  %0 = input() @\"x\" : f32[]\n"
    "  %1 = while_loop(%0) {condition = graph @goes_on {\n"
    "    %0 = input() @\"x\" : f32[]\n"
    "    %1 = constant() {value = f32[] [-1]} : f32[]\n"
    "    %2 = compare(%0, %1) {direction = gt} : bool[]\n"
    "    return %2\n"
    "  }, body = graph @step {\n"
    "    %0 = input() @\"x\" : f32[]\n"
    "    %1 = sin(%0) : f32[]\n"
    "    %2 = abs(%1) : f32[]\n"
    "    return %2\n"
    "  }} : f32[]\n"
    "  return %1\n"
    "}\n";

static const char* const kDevices[] = {"cpu", "loopback"};
static const int64_t kDims[] = {4};
static const float kOnes[] = {1, 1, 1, 1}, kCount[] = {0, 1, 2, 3};

static rlx_error* error = NULL;

static rlx_tensor* on_host(const float* values) {
  rlx_tensor* made = NULL;
  OK(rlx_tensor_create("f32", kDims, 1, values, sizeof kOnes, &made, &error));
  return made;
}
static rlx_device_tensor* on_device(const float* values, const char* device) {
  rlx_tensor* host = on_host(values);
  rlx_device_tensor* made = NULL;
  OK(rlx_device_put(host, device, &made, &error));
  rlx_tensor_free(host);
  return made;
}
static int holds(const rlx_device_tensor* tensor, float a, float b, float c, float d) {
  const float wanted[] = {a, b, c, d};
  rlx_tensor* host = NULL;
  OK(rlx_device_tensor_to_host(tensor, &host, &error));
  const int same = rlx_tensor_size(host) == sizeof wanted && memcmp(rlx_tensor_data(host), wanted, sizeof wanted) == 0;
  rlx_tensor_free(host);
  return same;
}
static rlx_compiled* compiled_for(const char* device, const char* text, const char* donated) {
  rlx_graph* graph = NULL;
  rlx_session* session = NULL;
  rlx_compiled* compiled = NULL;
  rlx_compile_options options;
  memset(&options, 0, sizeof options);
  options.struct_size = sizeof options;
  options.donate = &donated;
  options.donate_count = donated != NULL;
  OK(rlx_graph_parse(text, strlen(text), &graph, &error));
  OK(rlx_session_create(device, NULL, &session, &error));
  OK(rlx_compile(session, graph, &options, &compiled, &error));
  rlx_graph_free(graph);
  rlx_session_free(session);
  return compiled;
}
static void a_tensor_goes_there_and_back(const char* device) {
  rlx_device_tensor *there = on_device(kCount, device), *elsewhere = NULL;
  rlx_event* ready = NULL;
  int done = 0;
  EXPECT(strcmp(rlx_device_tensor_dtype(there), "f32") == 0 && rlx_device_tensor_rank(there) == 1 &&
         rlx_device_tensor_dims(there)[0] == 4 && rlx_device_tensor_size(there) == sizeof kCount &&
         strcmp(rlx_device_tensor_device(there), device) == 0);
  OK(rlx_device_tensor_ready(there, &ready, &error));
  OK(rlx_event_wait(ready, -1, &done, &error));
  EXPECT(done == 1 && rlx_event_is_done(ready));
  rlx_event_free(ready);
  EXPECT(holds(there, 0, 1, 2, 3));
  OK(rlx_device_tensor_to(there, "cpu", &elsewhere, &error));
  EXPECT(strcmp(rlx_device_tensor_device(elsewhere), "cpu") == 0 && holds(elsewhere, 0, 1, 2, 3));
  rlx_device_tensor_free(elsewhere);
  rlx_tensor* ones = on_host(kOnes);
  OK(rlx_device_tensor_write(there, ones, &error));
  rlx_tensor_free(ones);
  EXPECT(holds(there, 1, 1, 1, 1));
  rlx_device_tensor_free(there);
}

static void memory_is_described(void) {
  rlx_memory memory;
  memset(&memory, 0, sizeof memory);
  memory.struct_size = sizeof memory;
  OK(rlx_device_memory("cpu", &memory, &error));
  EXPECT(memory.host_access == 0 && memory.alignment >= 16 && memory.name[0] != '\0');
  OK(rlx_device_memory("loopback", &memory, &error));
  EXPECT(memory.host_access == 2 && memory.capacity > 0 && memory.struct_size == sizeof memory);
  memory.struct_size = 0;
  FAILS(rlx_device_memory("cpu", &memory, &error), RLX_INVALID_ARGUMENT, "struct_size is 0");
  memory.struct_size = sizeof memory;
  FAILS(rlx_device_memory("none such", &memory, &error), RLX_NOT_FOUND, "none such");
}

static void transfers_are_counted(void) {
  const float values[] = {1, 2, 3};
  const int64_t dims[] = {3};
  rlx_transfers before, after;
  rlx_tensor *sent = NULL, *back = NULL;
  rlx_device_tensor* there = NULL;
  memset(&before, 0, sizeof before);
  memset(&after, 0, sizeof after);
  before.struct_size = after.struct_size = sizeof before;
  OK(rlx_tensor_create("f32", dims, 1, values, sizeof values, &sent, &error));
  OK(rlx_device_transfers("loopback", &before, &error));
  OK(rlx_device_put(sent, "loopback", &there, &error));
  OK(rlx_device_tensor_to_host(there, &back, &error));
  OK(rlx_device_transfers("loopback", &after, &error));
  EXPECT(after.copies_to_device - before.copies_to_device == 1 && after.bytes_to_device - before.bytes_to_device == 12);
  EXPECT(after.copies_to_host - before.copies_to_host == 1 && after.bytes_to_host - before.bytes_to_host == 12);
  EXPECT(after.host_waits - before.host_waits == 1 && after.donated_copies == before.donated_copies);
  rlx_tensor_free(sent);
  rlx_tensor_free(back);
  rlx_device_tensor_free(there);
  OK(rlx_device_transfers("cpu", &after, &error));
  EXPECT(after.copies_to_device == 0 && after.host_waits == 0);
  FAILS(rlx_device_transfers("none such", &after, &error), RLX_NOT_FOUND, "none such");
}

static void runs_follow_one_another(const char* device) {
  rlx_compiled* add = compiled_for(device, kAdding, NULL);
  rlx_device_tensor *one = on_device(kOnes, device), *sum = on_device(kCount, device), *next = NULL;
  EXPECT(rlx_compiled_input_mode(add, 0) == 0);
  for (int i = 0; i < 20; ++i) {
    const rlx_device_tensor* inputs[] = {sum, one};
    OK(rlx_compiled_submit(add, inputs, 2, &next, 1, NULL, &error));
    rlx_device_tensor_free(sum);
    sum = next;
  }
  EXPECT(holds(sum, 20, 21, 22, 23));
  const rlx_device_tensor* inputs[] = {sum, one};
  FAILS(rlx_compiled_submit(add, inputs, 1, &next, 1, NULL, &error), RLX_INVALID_ARGUMENT, "has 2 inputs, got 1");
  FAILS(rlx_compiled_submit(add, inputs, 2, &next, 2, NULL, &error), RLX_INVALID_ARGUMENT, "1 outputs, got room for 2");
  rlx_device_tensor* other = on_device(kOnes, strcmp(device, "cpu") == 0 ? "loopback" : "cpu");
  inputs[1] = other;
  FAILS(rlx_compiled_submit(add, inputs, 2, &next, 1, NULL, &error), RLX_INVALID_ARGUMENT, "input 'y' is on ");
  rlx_device_tensor_free(other);
  rlx_device_tensor_free(one);
  rlx_device_tensor_free(sum);
  rlx_compiled_free(add);
}

static void a_donated_input_is_gone(const char* device) {
  rlx_compiled* add = compiled_for(device, kAdding, "x");
  rlx_device_tensor *one = on_device(kOnes, device), *x = on_device(kCount, device), *sum = NULL;
  EXPECT(rlx_compiled_input_mode(add, 0) == 1 && rlx_compiled_input_mode(add, 1) == 0);
  EXPECT(strcmp(rlx_device_tensor_why_gone(x), "") == 0);
  const rlx_device_tensor* inputs[] = {x, one};
  OK(rlx_compiled_submit(add, inputs, 2, &sum, 1, NULL, &error));
  EXPECT(holds(sum, 1, 2, 3, 4));
  EXPECT(strstr(rlx_device_tensor_why_gone(x), "donated to the run of 'adding'") != NULL);
  rlx_tensor* host = NULL;
  FAILS(rlx_device_tensor_to_host(x, &host, &error), RLX_INVALID_ARGUMENT, "donated to the run of 'adding'");
  EXPECT(host == NULL);
  rlx_device_tensor_free(one);
  rlx_device_tensor_free(x);
  rlx_device_tensor_free(sum);
  rlx_compiled_free(add);
}

static void a_param_is_on_the_device(const char* device) {
  rlx_compiled* scaled = compiled_for(device, kScaled, NULL);
  rlx_device_tensor *w = on_device(kCount, device), *y = NULL;
  rlx_tensor* x = on_host(kCount);
  rlx_run* run = NULL;
  int done = 0;
  OK(rlx_compiled_set_param_on_device(scaled, "w", w, &error));
  rlx_device_tensor_free(w);
  const rlx_tensor* inputs[] = {x};
  OK(rlx_compiled_run_async(scaled, inputs, 1, &y, 1, &run, &error));
  rlx_tensor_free(x);
  OK(rlx_run_wait(run, -1, &done, &error));
  EXPECT(done == 1 && holds(y, 0, 1, 4, 9));
  rlx_run_free(run);
  rlx_device_tensor_free(y);
  rlx_compiled_free(scaled);
}

static void it_tells_whether_it_is_compiled(const char* device) {
  rlx_compiled* scaled = compiled_for(device, kScaled, NULL);
  int is_compiled = -1;
  OK(rlx_compiled_is_compiled(scaled, &is_compiled, &error));
  EXPECT(is_compiled == (strcmp(device, "mlx:compiled") == 0));
  FAILS(rlx_compiled_is_compiled(scaled, NULL, &error), RLX_INVALID_ARGUMENT, "is_compiled");
  rlx_compiled_free(scaled);
}

static void runs_are_committed(const char* device) {
  rlx_compiled* scaled = compiled_for(device, kScaled, NULL);
  rlx_tensor *x = on_host(kCount), *w = on_host(kCount), *y = NULL;
  OK(rlx_compiled_set_param(scaled, "w", w, &error));
  const rlx_tensor *inputs[] = {x}, *others[] = {w};
  OK(rlx_compiled_sync_pending(scaled, &y, 1, &error));
  EXPECT(y == NULL);
  OK(rlx_compiled_commit_no_wait(scaled, inputs, 1, &error));
  OK(rlx_compiled_run(scaled, others, 1, &y, 1, &error));
  rlx_tensor_free(y);
  OK(rlx_compiled_sync_pending(scaled, &y, 1, &error));
  EXPECT(y != NULL && memcmp(rlx_tensor_data(y), (const float[]){0, 1, 4, 9}, 4 * sizeof(float)) == 0);
  rlx_tensor_free(y);
  OK(rlx_compiled_sync_pending(scaled, &y, 1, &error));
  EXPECT(y == NULL);
  FAILS(rlx_compiled_commit_no_wait(scaled, inputs, 0, &error), RLX_INVALID_ARGUMENT, "has 1 inputs");
  FAILS(rlx_compiled_sync_pending(scaled, NULL, 0, &error), RLX_INVALID_ARGUMENT, "has 1 outputs");
  rlx_tensor_free(x);
  rlx_tensor_free(w);
  rlx_compiled_free(scaled);
}

typedef struct ending {
  volatile int calls;
  rlx_status status;
  char message[256];
} ending;
static void note_ending(void* context, rlx_status status, const char* message) {
  ending* e = context;
  e->status = status;
  snprintf(e->message, sizeof e->message, "%s", message);
  __atomic_add_fetch(&e->calls, 1, __ATOMIC_RELEASE);
}
static void await(const ending* e) {
  while (__atomic_load_n(&e->calls, __ATOMIC_ACQUIRE) == 0) {
  }
}

static void a_run_is_cancelled(const char* device) {
  rlx_compiled* endless = compiled_for(device, kEndless, NULL);
  static const float kStart = 1;
  rlx_tensor* x = NULL;
  rlx_device_tensor* y = NULL;
  rlx_run* run = NULL;
  rlx_event* event = NULL;
  ending end = {0, RLX_OK, ""};
  int done = 1;
  OK(rlx_tensor_create("f32", NULL, 0, &kStart, sizeof kStart, &x, &error));
  const rlx_tensor* inputs[] = {x};
  OK(rlx_compiled_run_async(endless, inputs, 1, &y, 1, &run, &error));
  OK(rlx_run_wait(run, 1000000, &done, &error));
  EXPECT(done == 0);
  OK(rlx_run_event(run, &event, &error));
  OK(rlx_event_on_done(event, note_ending, &end, &error));
  EXPECT(!rlx_event_is_done(event));
  rlx_event_free(event);
  OK(rlx_run_cancel(run, &error));
  done = 0;
  FAILS(rlx_run_wait(run, -1, &done, &error), RLX_CANCELLED, "cancelled");
  EXPECT(done == 1); /* it has ended, and not well */
  await(&end);
  EXPECT(end.calls == 1 && end.status == RLX_CANCELLED && strstr(end.message, "endless") != NULL);
  rlx_tensor* host = NULL;
  FAILS(rlx_device_tensor_to_host(y, &host, &error), RLX_CANCELLED, "cancelled");
  rlx_run_free(run);
  rlx_device_tensor_free(y);
  rlx_tensor_free(x);
  rlx_compiled_free(endless);
}

int main(void) {
  memory_is_described();
  transfers_are_counted();
  for (size_t i = 0; i < sizeof kDevices / sizeof *kDevices; ++i) {
    a_tensor_goes_there_and_back(kDevices[i]);
    runs_follow_one_another(kDevices[i]);
    a_donated_input_is_gone(kDevices[i]);
    a_param_is_on_the_device(kDevices[i]);
    it_tells_whether_it_is_compiled(kDevices[i]);
    runs_are_committed(kDevices[i]);
    a_run_is_cancelled(kDevices[i]);
  }
  if (failures == 0) puts("all hold");
  return failures != 0;
}
