/* What the program that tests/api/c_odd_arguments.py writes is made of: odd arguments, and what is asked of each call.
   The call that is being made is printed first, so that the last line names one that ends the process. */
#ifndef RLX_TESTS_API_C_ODD_ARGUMENTS_H
#define RLX_TESTS_API_C_ODD_ARGUMENTS_H
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "api/c_objects.h"

enum asked { WORKS, REFUSES_NULL, REFUSED, ANY };

static const char* call_said = "";
static rlx_error* error = NULL;
static rlx_tensor* made_tensors[16];
static rlx_graph *made_graph, *other;
static rlx_session* made_session;
static rlx_compiled* made_compiled;
static rlx_training* made_training;
static rlx_quantization* made_quantization;
static rlx_coreml* made_coreml;
static rlx_coreml_state* made_state;
static rlx_mil* made_mil;
static rlx_state* made_kept;
static rlx_tokenizer* made_tokenizer;
static rlx_chat_template* made_chat_template;
static rlx_decode_stream* made_decode_stream;
static rlx_encodings* made_encodings;
static rlx_encoder* made_encoder;
static rlx_lora* made_lora;
static rlx_gguf* made_gguf;
static rlx_language_model* made_language_model;
static rlx_sequence* made_sequence;
static rlx_sampler* made_sampler;
static rlx_generator* made_generator;
static int32_t made_ids[4];
static double made_probabilities[4];
static int32_t made_id;
static rlx_device_tensor* made_device_tensors[16];
static rlx_event* made_event;
static rlx_run* made_run;
static rlx_memory made_memory;
static rlx_transfers made_transfers;
static int made_done;
static rlx_value made_values[4];
static rlx_step_result made_step;
static size_t made_count, made_size;
static int64_t made_steps;
static uint64_t made_bytes;
static char *made_text, buffer[256], written_package[64], written_adapter[64], written_gguf[64];
static const char *made_json, *made_names[16];

static char deep_text[100001];
static const rlx_value first_value = {0, 0}, one_value[] = {{0, 0}};
static const rlx_value odd_values[] = {{-1, 0}, {0, -1}, {INT32_MAX, 0}, {0, INT32_MAX}};
static const int64_t negative_dims[] = {-2, -3}, huge_dims[] = {INT64_MAX, INT64_MAX};
static const char *no_texts[] = {NULL, NULL}, *odd_texts[] = {"\xff", NULL};
static const rlx_tensor* no_tensors[] = {NULL, NULL};
static const rlx_device_tensor* no_device_tensors[] = {NULL, NULL};
static const uint8_t one_byte[] = {1}, odd_bytes[] = {255};
static const int32_t kIds[] = {5}, kMilIds[] = {0};
static const float kLogits[] = {0.5f};
static const rlx_buffer text_memory = {"a cat", 5};
static float in_numbers[6], out_numbers[4];
static const rlx_buffer in_memory = {in_numbers, sizeof in_numbers}, out_memory = {out_numbers, sizeof out_numbers},
                        no_memory = {NULL, sizeof in_numbers}, small_memory = {in_numbers, 1},
                        huge_memory = {in_numbers, SIZE_MAX}, empty_memory = {NULL, 0};

static void ignore_message(void* context, rlx_log_level level, const char* message) {
  (void)context, (void)level, (void)message;
}
static void ignore_end(void* context, rlx_status status, const char* message) {
  (void)context, (void)status, (void)message;
}
static void prepare(void) {
  if (!mkdtemp(folder) || chdir(folder) != 0) exit(1); /* odd paths are relative ones */
  snprintf(written_package, sizeof written_package, "%s/written.mlpackage", folder);
  snprintf(written_gguf, sizeof written_gguf, "%s/written.gguf", folder);
  snprintf(written_adapter, sizeof written_adapter, "%s/written_adapter", folder);
  memset(deep_text, '[', sizeof deep_text - 1);
}
static int has_results(void) {
  return made_graph || made_session || made_compiled || made_training || made_quantization || made_coreml ||
         made_state || made_kept || made_text || made_json || made_tensors[0] || made_tokenizer || made_chat_template ||
         made_encodings || made_encoder || made_gguf || made_lora || made_language_model || made_sequence ||
         made_sampler || made_generator || made_mil || made_device_tensors[0] || made_event || made_run;
}
static void after(rlx_status status, enum asked asked, int has_error) {
  const char* message = error ? rlx_error_message(error) : "";
  int holds = status >= RLX_OK && status <= RLX_TOO_LARGE;
  if (asked == WORKS) holds &= status == RLX_OK;
  if (asked == REFUSED) holds &= status != RLX_OK;
  if (asked == REFUSES_NULL) holds &= status == RLX_INVALID_ARGUMENT && strstr(message, "is NULL") != NULL;
  if (status == RLX_OK) holds &= error == NULL;
  else holds &= !has_results() && (!has_error || message[0] != '\0');
  if (!holds) {
    fprintf(stderr, "not as it should be: %s gave status %d, '%.300s'%s\n", call_said, (int)status, message,
            status != RLX_OK && has_results() ? ", and results" : "");
    ++failures;
  }
}
static void free_results(void) {
  rlx_error_free(error);
  for (size_t i = 0; i < sizeof made_tensors / sizeof *made_tensors; ++i) rlx_tensor_free(made_tensors[i]);
  if (made_run) rlx_run_wait(made_run, -1, NULL, NULL); /* it may read `o`'s params */
  rlx_run_free(made_run);
  rlx_event_free(made_event);
  for (size_t i = 0; i < sizeof made_device_tensors / sizeof *made_device_tensors; ++i)
    rlx_device_tensor_free(made_device_tensors[i]);
  memset(made_device_tensors, 0, sizeof made_device_tensors);
  made_run = NULL, made_event = NULL;
  rlx_graph_free(made_graph);
  rlx_session_free(made_session);
  rlx_compiled_free(made_compiled);
  rlx_training_free(made_training);
  rlx_quantization_free(made_quantization);
  rlx_coreml_free(made_coreml);
  rlx_coreml_state_free(made_state);
  rlx_mil_free(made_mil);
  rlx_state_free(made_kept);
  rlx_tokenizer_free(made_tokenizer);
  rlx_chat_template_free(made_chat_template);
  rlx_decode_stream_free(made_decode_stream);
  rlx_encodings_free(made_encodings);
  rlx_encoder_free(made_encoder);
  rlx_lora_free(made_lora);
  rlx_gguf_free(made_gguf);
  rlx_language_model_free(made_language_model);
  rlx_sequence_free(made_sequence);
  rlx_sampler_free(made_sampler);
  rlx_generator_free(made_generator);
  made_language_model = NULL, made_sequence = NULL, made_sampler = NULL, made_generator = NULL;
  rlx_text_free(made_text);
  made_tokenizer = NULL, made_chat_template = NULL, made_decode_stream = NULL, made_encodings = NULL;
  made_encoder = NULL, made_lora = NULL, made_gguf = NULL, made_kept = NULL;
  error = NULL, made_graph = NULL, made_session = NULL, made_compiled = NULL, made_training = NULL;
  made_quantization = NULL, made_coreml = NULL, made_state = NULL, made_text = NULL, made_json = NULL, made_mil = NULL;
  memset(made_tensors, 0, sizeof made_tensors);
}
static int finish(int functions, int calls) {
  char command[128];
  snprintf(command, sizeof command, "rm -r '%s'", folder);
  if (system(command) != 0) ++failures;
  printf("%d functions, %d calls, %d failures\n", functions, calls, failures);
  return failures != 0;
}

/* ---- all arguments at once ---- */
static uint64_t draw_state;
static int64_t drawn_calls;
static char drawn_said[256];

/* Knuth's MMIX generator: the high bits of it. */
static int draw(int below) {
  draw_state = draw_state * 6364136223846793005u + 1442695040888963407u;
  return (int)((draw_state >> 33) % (uint64_t)below);
}
static void say_drawn(const char* function, const int* drawn, int count) {
  int at = snprintf(drawn_said, sizeof drawn_said, "%s with its choices", function);
  for (int i = 0; i < count && at < (int)sizeof drawn_said; ++i)
    at += snprintf(drawn_said + at, sizeof drawn_said - (size_t)at, " %d", drawn[i]);
  call_said = drawn_said;
  ++drawn_calls;
}
static void say_and_end(int number) {
  static const char kEnded[] = "\nended by a signal in: ";
  if (write(2, kEnded, sizeof kEnded - 1) < 0 || write(2, drawn_said, strlen(drawn_said)) < 0 || write(2, "\n", 1) < 0)
    _exit(2);
  _exit(128 + number);
}
static int draw_for(double seconds, uint64_t seed, void (*const* functions)(void), size_t count) {
  const int signals[] = {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL};
  for (size_t i = 0; i < sizeof signals / sizeof *signals; ++i) signal(signals[i], say_and_end);
  draw_state = seed;
  printf("seed %llu, %g s\n", (unsigned long long)seed, seconds);
  fflush(stdout);
  const time_t end = time(NULL) + (time_t)seconds;
  while (time(NULL) < end && failures < 20) functions[draw((int)count)]();
  printf("%zu functions, %lld calls with drawn arguments, %d failures\n", count, (long long)drawn_calls, failures);
  char command[128];
  snprintf(command, sizeof command, "rm -r '%s'", folder);
  if (system(command) != 0) ++failures;
  return failures != 0;
}

#define BEGIN                                                                                         \
  objects o = make_objects();                                                                         \
  const rlx_tensor *inputs[] = {o.x, NULL}, *params[] = {o.w, NULL}, *halves[] = {o.half, NULL},      \
                   *wrong_tensors[] = {o.half, NULL}, *lora_params[] = {o.w, o.lora_a, o.lora_b};     \
  const rlx_device_tensor *there[] = {o.there, NULL}, *wrong_device_tensors[] = {o.half_there, NULL}; \
  made_memory.struct_size = sizeof made_memory;                                                       \
  made_transfers.struct_size = sizeof made_transfers;                                                 \
  made_step.struct_size = sizeof made_step;                                                           \
  expect_ok(rlx_graph_parse(kPlain, strlen(kPlain), &other, &error), error, __LINE__);                \
  (void)inputs, (void)params, (void)halves, (void)wrong_tensors, (void)there;                         \
  (void)wrong_device_tensors, (void)lora_params;
#define BEFORE(said) \
  call_said = said;  \
  puts(call_said);   \
  fflush(stdout);
#define FREE_RESULTS free_results();
#define END              \
  rlx_graph_free(other); \
  other = NULL;          \
  free_objects(&o);
#endif
