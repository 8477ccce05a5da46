/* A thread pool of the program's own, from C: that it computes, that results stay the same, and what is refused. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "c_expect.h"

enum { kThreads = 3, kN = 256, kBytes = kN * kN * sizeof(float) };
static long calls;

typedef struct call {
  void (*task)(void*, int64_t);
  void* context;
  int64_t index;
} call;
static void* run_one(void* given) {
  const call* c = given;
  c->task(c->context, c->index);
  return NULL;
}
static void parallel_for(void* context, int64_t count, void (*task)(void*, int64_t), void* task_context) {
  pthread_t threads[kThreads];
  call all[kThreads];
  EXPECT(context == &calls);
  EXPECT(count <= kThreads);
  ++*(long*)context;
  for (int64_t i = 0; i < count; ++i) {
    all[i] = (call){task, task_context, i};
    EXPECT(pthread_create(&threads[i], NULL, run_one, &all[i]) == 0);
  }
  for (int64_t i = 0; i < count; ++i) pthread_join(threads[i], NULL);
}

static const char kProduct[] =
    "rlx 1\n"
    "graph @product {\n"
    "  %0 = input() @\"x\" : f32[256,256]\n"
    "  %1 = matmul(%0, %0) : f32[256,256]\n"
    "  return %1 @\"y\"\n"
    "}\n";

/* The square of a matrix, by a session with so many threads; 0: the default. */
static void square(int threads, const float* x, float* y) {
  const int64_t dims[] = {kN, kN};
  const rlx_session_options options = {sizeof options, threads, 0};
  rlx_error* error = NULL;
  rlx_graph* graph = NULL;
  rlx_session* session = NULL;
  rlx_compiled* compiled = NULL;
  rlx_tensor *input = NULL, *output = NULL;
  OK(rlx_graph_parse(kProduct, strlen(kProduct), &graph, &error));
  OK(rlx_session_create("cpu", &options, &session, &error));
  OK(rlx_compile(session, graph, NULL, &compiled, &error));
  OK(rlx_tensor_create("f32", dims, 2, x, kBytes, &input, &error));
  const rlx_tensor* inputs[] = {input};
  OK(rlx_compiled_run(compiled, inputs, 1, &output, 1, &error));
  memcpy(y, rlx_tensor_data(output), kBytes);
  rlx_tensor_free(input), rlx_tensor_free(output);
  rlx_compiled_free(compiled), rlx_session_free(session), rlx_graph_free(graph);
}

int main(void) {
  float *x = malloc(kBytes), *wanted = malloc(kBytes), *y = malloc(kBytes);
  for (int i = 0; i < kN * kN; ++i) x[i] = (float)(i % 101) / 50 - 1;
  square(kThreads, x, wanted);

  rlx_error* error = NULL;
  rlx_thread_pool pool = {sizeof pool, &calls, kThreads, parallel_for};
  OK(rlx_set_thread_pool(&pool, &error));
  pool.parallel_for = NULL; /* the fields were copied */
  for (int threads = 0; threads <= kThreads; threads += kThreads) {
    calls = 0;
    memset(y, 0, kBytes);
    square(threads, x, y);
    EXPECT(calls > 0);
    EXPECT(memcmp(y, wanted, kBytes) == 0);
  }
  FAILS(rlx_set_thread_pool(&pool, &error), RLX_INVALID_ARGUMENT, "parallel_for");
  pool.struct_size = 1;
  FAILS(rlx_set_thread_pool(&pool, &error), RLX_INVALID_ARGUMENT, "struct_size");

  OK(rlx_set_thread_pool(NULL, &error));
  calls = 0;
  square(kThreads, x, y);
  EXPECT(calls == 0);
  EXPECT(memcmp(y, wanted, kBytes) == 0);
  free(x), free(wanted), free(y);
  if (failures == 0) puts("all hold");
  return failures != 0;
}
