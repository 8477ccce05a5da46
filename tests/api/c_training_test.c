/* Training from C: a session steps, accumulates, evaluates, saves and goes on; mistakes have messages. */
#define _POSIX_C_SOURCE 200809L
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "c_expect.h"
#include "rlx/c.h"

/* The linear regression of tests/train/problems.h: x_i = ((7 i + 1) mod 11) / 11 - 0.5, t = x (0.5, -1, 2). */
static const char kLoss[] =
    "rlx 1\n"
    "graph @regression {\n"
    "  %0 = input() @\"x\" : f32[8, 3]\n"
    "  %1 = input() @\"t\" : f32[8, 1]\n"
    "  %2 = param() @\"w\" : f32[3, 1]\n"
    "  %3 = matmul(%0, %2) : f32[8, 1]\n"
    "  %4 = mse(%3, %1) {reduction = sum} : f32[]\n"
    "  return %4 @\"loss\", %3 @\"prediction\"\n"
    "}\n";
static const char* const kBatchNames[] = {"x", "t"};
static const char* const kParamNames[] = {"w"};
static const int64_t kXDims[] = {8, 3}, kTDims[] = {8, 1}, kWDims[] = {3, 1};

static rlx_session* device = NULL;
static rlx_graph* loss = NULL;
static rlx_tensor *x = NULL, *t = NULL, *w = NULL;

static rlx_training* session_of(const char* config) {
  rlx_error* error = NULL;
  rlx_training* training = NULL;
  const rlx_tensor* initial[] = {w};
  OK(rlx_training_create(device, loss, kParamNames, initial, 1, config, &training, &error));
  return training;
}

static void it_learns(void) {
  rlx_error* error = NULL;
  rlx_training* training = session_of(
      "{optimizer = \"sgd\", attributes = \"{momentum = 0.5}\", learning_rate = {peak = 0.1, shape = constant}, ema = "
      "0.5}");
  const rlx_tensor* batch[] = {x, t};
  rlx_step_result result = {sizeof result, 0, 0, 0, 0, 0, 0, 0};
  rlx_tensor* prediction = NULL;
  OK(rlx_training_step(training, kBatchNames, batch, 2, 0, &result, &prediction, 1, &error));
  double first = result.loss;
  EXPECT(result.step == 1 && result.path == 1 && !result.skipped && result.learning_rate == 0.1);
  EXPECT(rlx_tensor_dims(prediction)[0] == 8 && ((const float*)rlx_tensor_data(prediction))[0] == 0);
  rlx_tensor_free(prediction);
  for (int i = 0; i < 60; ++i) OK(rlx_training_step(training, kBatchNames, batch, 2, 0, &result, NULL, 0, &error));
  EXPECT(result.loss < 1e-3 * first && rlx_training_steps(training) == 61);
  rlx_tensor *now = NULL, *mean = NULL;
  OK(rlx_training_param(training, "w", 0, &now, &error));
  OK(rlx_training_param(training, "w", 1, &mean, &error));
  EXPECT(fabs(((const float*)rlx_tensor_data(now))[1] + 1) < 5e-2);
  EXPECT(fabs(((const float*)rlx_tensor_data(mean))[1] + 1) < 5e-2);
  rlx_tensor_free(now);
  rlx_tensor_free(mean);

  OK(rlx_training_step(training, kBatchNames, batch, 2, 1, NULL, NULL, 0, &error));
  OK(rlx_training_step(training, kBatchNames, batch, 2, 1, &result, NULL, 0, &error));
  EXPECT(rlx_training_pending(training) == 2 && result.path == 0);
  int64_t count = 0;
  OK(rlx_training_step_accumulated(training, &count, &error));
  EXPECT(count == 2 && rlx_training_pending(training) == 0);
  rlx_tensor* outputs[2] = {NULL, NULL};
  OK(rlx_training_evaluate(training, kBatchNames, batch, 2, 1, outputs, 2, &error));
  EXPECT(rlx_tensor_rank(outputs[0]) == 0 && rlx_tensor_rank(outputs[1]) == 2);
  rlx_tensor_free(outputs[0]);
  rlx_tensor_free(outputs[1]);
  const char* json = NULL;
  OK(rlx_training_status(training, &json, &error));
  EXPECT(strstr(json, "\"update_path\":\"fused\"") && strstr(json, "\"supported\":false") &&
         strstr(json, "\"params\":12"));
  OK(rlx_training_report(training, &json, &error));
  EXPECT(strstr(json, "\"native\"") != NULL);
  OK(rlx_training_set_learning_rate(training, 0.25, &error));
  OK(rlx_training_step(training, kBatchNames, batch, 2, 0, &result, NULL, 0, &error));
  EXPECT(result.learning_rate == 0.25);
  OK(rlx_training_set_loss(training, loss, &error));
  EXPECT(rlx_training_fused_active(training));
  OK(rlx_training_with_fused_optimizer(training, 0, &error));
  OK(rlx_training_step(training, kBatchNames, batch, 2, 0, &result, NULL, 0, &error));
  EXPECT(!rlx_training_fused_active(training) && result.path == 0);
  OK(rlx_training_with_fused_optimizer(training, 1, &error));
  OK(rlx_training_with_precision_policy(training, "{precision = f16, loss_scale = {initial = 512}}", &error));
  OK(rlx_training_step(training, kBatchNames, batch, 2, 0, &result, NULL, 0, &error));
  EXPECT(result.path == 1 && result.loss_scale == 512);
  OK(rlx_training_with_precision_policy(training, NULL, &error));
  OK(rlx_training_step(training, kBatchNames, batch, 2, 0, &result, NULL, 0, &error));
  EXPECT(result.loss_scale == 1);
  EXPECT(rlx_training_with_precision_policy(training, "{precision = f64}", &error) == RLX_INVALID_ARGUMENT &&
         strstr(rlx_error_message(error), "a step computes in f32, f16 or bf16, got f64") != NULL);
  rlx_error_free(error);
  error = NULL;
  rlx_training_free(training);
}

static void it_goes_on(const char* path) {
  rlx_error* error = NULL;
  const char* config =
      "{optimizer = \"adamw\", learning_rate = {peak = 0.1, shape = cosine, steps = 50, warmup = 5}, "
      "groups = [{params = [\"w*\"], lr_scale = 1, weight_decay = 0, frozen = false}]}";
  rlx_training *whole = session_of(config), *resumed = session_of(config);
  const rlx_tensor* batch[] = {x, t};
  for (int i = 0; i < 7; ++i) OK(rlx_training_step(whole, kBatchNames, batch, 2, 0, NULL, NULL, 0, &error));
  const char *const names[] = {"epoch"}, *const texts[] = {"3"};
  OK(rlx_training_save(whole, path, names, texts, 1, &error));
  const char* notes = NULL;
  OK(rlx_training_load(resumed, path, &notes, &error));
  EXPECT(strcmp(notes, "{\"epoch\":\"3\"}") == 0 && rlx_training_steps(resumed) == 7);
  rlx_step_result a = {sizeof a, 0, 0, 0, 0, 0, 0, 0}, b = a;
  for (int i = 0; i < 5; ++i) {
    OK(rlx_training_step(whole, kBatchNames, batch, 2, 0, &a, NULL, 0, &error));
    OK(rlx_training_step(resumed, kBatchNames, batch, 2, 0, &b, NULL, 0, &error));
    EXPECT(a.loss == b.loss);
  }
  rlx_training* other = session_of("{optimizer = \"lion\"}");
  EXPECT(rlx_training_load(other, path, NULL, &error) == RLX_INVALID_ARGUMENT &&
         strstr(rlx_error_message(error), "it was trained as 'w: adam_update") != NULL);
  rlx_error_free(error);
  rlx_training_free(whole);
  rlx_training_free(resumed);
  rlx_training_free(other);
  remove(path);
}

static void expect_refused(const char* config, const char* message) {
  rlx_error* error = NULL;
  rlx_training* training = NULL;
  const rlx_tensor* initial[] = {w};
  EXPECT(rlx_training_create(device, loss, kParamNames, initial, 1, config, &training, &error) != RLX_OK);
  if (!error || !strstr(rlx_error_message(error), message)) {
    fprintf(stderr, "%s: %s\n", config, error ? rlx_error_message(error) : "no error");
    ++failures;
  }
  rlx_error_free(error);
  EXPECT(training == NULL);
}

static void mistakes_have_messages(void) {
  rlx_error* error = NULL;
  expect_refused("{optimizer = \"adamn\"}", "there is no optimizer 'adamn'; there are sgd, adam,");
  expect_refused("{optimizer = \"sgd\", attributes = \"{momentun = 1}\"}", "attributes of the optimizer 'sgd'");
  expect_refused("{learning_rates = 1}", "a known attribute (optimizer, ");
  expect_refused("{learning_rate = {peak = -1}}", "the learning rate is -1; it is finite and not below 0");
  expect_refused("{precision = f64}", "a step computes in f32, f16 or bf16, got f64");
  expect_refused("{} more", "the end of the text");
  rlx_training* training = session_of(NULL);
  const rlx_tensor* batch[] = {x, t};
  EXPECT(rlx_training_step(training, kBatchNames, batch, 1, 0, NULL, NULL, 0, &error) == RLX_INVALID_ARGUMENT &&
         strstr(rlx_error_message(error), "the batch has no 't'") != NULL);
  rlx_error_free(error);
  rlx_tensor* outputs[3] = {NULL, NULL, NULL};
  EXPECT(rlx_training_step(training, kBatchNames, batch, 2, 0, NULL, outputs, 3, &error) == RLX_INVALID_ARGUMENT);
  rlx_error_free(error);
  rlx_step_result unset = {0, 0, 0, 0, 0, 0, 0, 0};
  EXPECT(rlx_training_step(training, kBatchNames, batch, 2, 0, &unset, NULL, 0, &error) == RLX_INVALID_ARGUMENT);
  rlx_error_free(error);
  EXPECT(rlx_training_steps(training) == 0);
  EXPECT(rlx_training_step_accumulated(training, NULL, NULL) == RLX_INVALID_ARGUMENT);
  EXPECT(rlx_training_param(training, "v", 0, &outputs[0], NULL) == RLX_NOT_FOUND && outputs[0] == NULL);
  EXPECT(rlx_training_step(NULL, NULL, NULL, 0, 0, NULL, NULL, 0, NULL) == RLX_INVALID_ARGUMENT);
  rlx_training_free(training);
  rlx_training_free(NULL);
}

int main(void) {
  rlx_error* error = NULL;
  float xs[24], ts[8];
  static const float zeros[3];
  for (int i = 0; i < 24; ++i) xs[i] = (float)((7 * i + 1) % 11) / 11 - 0.5f;
  for (int n = 0; n < 8; ++n) ts[n] = 0.5f * xs[3 * n] - xs[3 * n + 1] + 2 * xs[3 * n + 2];
  OK(rlx_session_create("cpu", NULL, &device, &error));
  OK(rlx_graph_parse(kLoss, strlen(kLoss), &loss, &error));
  OK(rlx_tensor_create("f32", kXDims, 2, xs, sizeof xs, &x, &error));
  OK(rlx_tensor_create("f32", kTDims, 2, ts, sizeof ts, &t, &error));
  OK(rlx_tensor_create("f32", kWDims, 2, zeros, sizeof zeros, &w, &error));
  it_learns();
  char path[] = "/tmp/rlx-c-training-XXXXXX";
  int file = mkstemp(path);
  EXPECT(file >= 0);
  close(file);
  it_goes_on(path);
  mistakes_have_messages();
  rlx_tensor_free(x);
  rlx_tensor_free(t);
  rlx_tensor_free(w);
  rlx_graph_free(loss);
  rlx_session_free(device);
  printf("RLX %s: 3 passed, %d failed\n", rlx_version_string(), failures);
  return failures ? 1 : 0;
}
