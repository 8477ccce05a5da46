/* States through the C ABI: several of one graph, on the processor and on a device whose memory the host cannot point
   into. */
#define _POSIX_C_SOURCE 200809L
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "c_expect.h"

static const char kSumming[] =
    "rlx 1\n"
    "graph @summing {\n"
    "  %0 = input() @\"total\" : f32[N]\n"
    "  %1 = input() @\"x\" : f32[N]\n"
    "  %2 = add(%0, %1) : f32[N]\n"
    "  %3 = mul(%2, %2) : f32[N]\n"
    "  return %2 @\"total\", %3 @\"squared\"\n"
    "}\n";
static const char* const kDevices[] = {"cpu", "loopback"};
static const char* const kTotal[] = {"total"};
static const int64_t kDims[] = {2};

static rlx_error* error = NULL;

static rlx_tensor* pair_of(float a, float b) {
  const float values[] = {a, b};
  rlx_tensor* made = NULL;
  OK(rlx_tensor_create("f32", kDims, 1, values, sizeof values, &made, &error));
  return made;
}
static int is_pair(rlx_tensor* tensor, float a, float b) {
  const float wanted[] = {a, b};
  const int same =
      rlx_tensor_size(tensor) == sizeof wanted && memcmp(rlx_tensor_data(tensor), wanted, sizeof wanted) == 0;
  rlx_tensor_free(tensor);
  return same;
}
static int holds(const rlx_state* state, float a, float b) {
  rlx_tensor* total = NULL;
  OK(rlx_state_tensor(state, "total", &total, &error));
  return is_pair(total, a, b);
}
static int adds(const rlx_compiled* compiled, rlx_state* state, float a, float b, float y0, float y1) {
  rlx_tensor *x = pair_of(a, b), *y = NULL;
  const rlx_tensor* inputs[] = {x};
  OK(rlx_compiled_run_with_state(compiled, state, inputs, 1, &y, 1, &error));
  rlx_tensor_free(x);
  return is_pair(y, y0, y1);
}
static void a_graph_has_states(const char* device) {
  rlx_graph* graph = NULL;
  rlx_session* session = NULL;
  rlx_compiled* compiled = NULL;
  rlx_compile_options options;
  memset(&options, 0, sizeof options);
  options.struct_size = sizeof options;
  options.donate = kTotal, options.donate_count = 1;
  OK(rlx_graph_parse(kSumming, strlen(kSumming), &graph, &error));
  OK(rlx_session_create(device, NULL, &session, &error));
  OK(rlx_compile(session, graph, &options, &compiled, &error));
  EXPECT(rlx_compiled_input_mode(compiled, 0) == 1 && rlx_compiled_input_mode(compiled, 1) == 0);
  EXPECT(rlx_compiled_output_is_update(compiled, 0) == 1 && rlx_compiled_output_is_update(compiled, 1) == 0 &&
         rlx_compiled_output_is_update(compiled, 9) == 0);

  rlx_state *state = NULL, *other = NULL, *fork = NULL, *loaded = NULL;
  FAILS(rlx_compiled_new_state(compiled, NULL, NULL, 0, NULL, &state, &error), RLX_INVALID_ARGUMENT,
        "whose extent N is not known");
  FAILS(rlx_compiled_new_state(compiled, NULL, NULL, 0, "N", &state, &error), RLX_INVALID_ARGUMENT, "NAME=NUMBER");
  OK(rlx_compiled_new_state(compiled, NULL, NULL, 0, "N=2", &state, &error));
  rlx_tensor* first = pair_of(10, 20);
  const rlx_tensor* values[] = {first};
  OK(rlx_compiled_new_state(compiled, kTotal, values, 1, NULL, &other, &error));
  EXPECT(rlx_state_count(state) == 1 && strcmp(rlx_state_name(state, 0), "total") == 0 && !rlx_state_name(state, 1));
  char type[32];
  OK(rlx_state_type(state, 0, type, sizeof type, NULL, &error));
  EXPECT(strcmp(type, "f32[2]") == 0);

  EXPECT(adds(compiled, state, 1, 2, 1, 4) && adds(compiled, state, 1, 2, 4, 16));
  EXPECT(adds(compiled, other, 1, 1, 121, 441));
  OK(rlx_state_copy(state, &fork, &error));
  EXPECT(adds(compiled, fork, 1, 1, 9, 25));
  EXPECT(holds(state, 2, 4) && holds(other, 11, 21) && holds(fork, 3, 5));

  char path[] = "/tmp/rlx-state-XXXXXX";
  const int file = mkstemp(path);
  EXPECT(file >= 0);
  close(file);
  OK(rlx_state_save(fork, path, &error));
  OK(rlx_compiled_load_state(compiled, path, &loaded, &error));
  EXPECT(holds(loaded, 3, 5));
  remove(path);
  FAILS(rlx_compiled_load_state(compiled, path, &loaded, &error), RLX_NOT_FOUND, "rlx-state-");

  rlx_tensor* x = pair_of(1, 1);
  const rlx_tensor* inputs[] = {x};
  rlx_device_tensor* there = NULL;
  rlx_run* run = NULL;
  OK(rlx_compiled_run_async_with_state(compiled, fork, inputs, 1, &there, 1, &run, &error));
  OK(rlx_run_wait(run, -1, NULL, &error));
  rlx_tensor* y = NULL;
  OK(rlx_device_tensor_to_host(there, &y, &error));
  EXPECT(is_pair(y, 16, 36) && holds(fork, 4, 6));
  rlx_run_free(run);
  rlx_device_tensor_free(there);
  char* why = NULL;
  OK(rlx_state_why_torn(fork, &why, &error));
  EXPECT(why[0] == '\0');
  rlx_text_free(why);
  OK(rlx_state_reset(fork, kTotal, values, 1, &error));
  EXPECT(holds(fork, 10, 20));
  OK(rlx_state_reset(fork, NULL, NULL, 0, &error));
  EXPECT(holds(fork, 0, 0));

  y = NULL;
  FAILS(rlx_compiled_run_with_state(compiled, state, inputs, 0, &y, 1, &error), RLX_INVALID_ARGUMENT,
        "1 inputs that are not in its state, got 0");
  FAILS(rlx_compiled_run_with_state(compiled, state, inputs, 1, &y, 2, &error), RLX_INVALID_ARGUMENT,
        "1 outputs that are not in its state, got room for 2");
  FAILS(rlx_state_tensor(state, "x", &y, &error), RLX_NOT_FOUND, "has no 'x'; it has 'total'");
  EXPECT(y == NULL && holds(state, 2, 4));
  rlx_tensor_free(x);
  rlx_tensor_free(first);
  rlx_state_free(state);
  rlx_state_free(other);
  rlx_state_free(fork);
  rlx_state_free(loaded);
  rlx_compiled_free(compiled);
  rlx_session_free(session);
  rlx_graph_free(graph);
}

int main(void) {
  for (size_t i = 0; i < sizeof kDevices / sizeof *kDevices; ++i) a_graph_has_states(kDevices[i]);
  if (failures == 0) puts("all hold");
  return failures != 0;
}
