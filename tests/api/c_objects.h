/* One valid object of each kind, for tests/api/c_odd_arguments.py, whose calls are given these but for one argument. */
#ifndef RLX_TESTS_API_C_OBJECTS_H
#define RLX_TESTS_API_C_OBJECTS_H
#include <limits.h>
#include <math.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>

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
/* With "total" donated, a run updates it. */
static const char kSumming[] =
    "rlx 1\n"
    "graph @summing {\n"
    "  %0 = input() @\"x\" : f16[1, 4]\n"
    "  %1 = input() @\"total\" : f16[1, 4]\n"
    "  %2 = add(%1, %0) : f16[1, 4]\n"
    "  %3 = exp(%2) : f16[1, 4]\n"
    "  return %2 @\"total\", %3 @\"y\"\n"
    "}\n";

/* A constant of it stands elsewhere. */
static const char kShifted[] =
    "rlx 1\n"
    "graph @shifted {\n"
    "  %0 = input() @\"x\" : f32[2]\n"
    "  %1 = constant() {value = f32[2] @\"shift\"} : f32[2]\n"
    "  %2 = add(%0, %1) : f32[2]\n"
    "  return %2 @\"y\"\n"
    "}\n";

static rlx_status twice_types(void* context, const rlx_op_call* call, rlx_op_results* results, rlx_error** error) {
  (void)context;
  return rlx_op_add_result(results, call->types[0], error);
}
static rlx_status twice_graph(void* context, const rlx_op_call* call, rlx_graph** graph, rlx_error** error) {
  (void)context, (void)call, (void)graph;
  *error = rlx_error_create(RLX_UNSUPPORTED, "nobody runs it");
  return RLX_UNSUPPORTED;
}
static const rlx_op_definition kOp = {
    .struct_size = sizeof kOp, .name = "c_twice", .operands = "x", .infer = twice_types, .decompose = twice_graph};

typedef struct objects {
  rlx_session* session;
  rlx_graph *plain, *model, *loss, *fake, *sums;
  rlx_tensor *x, *w, *half;
  rlx_compiled *compiled, *summing;
  rlx_state* kept;
  rlx_training* training;
  rlx_quantization* quantization;
  rlx_coreml* coreml;
  rlx_coreml_state* state;
  rlx_mil* mil; /* values: 0 an input f32[2, 3], 1 a bool[], 2 an output */
  rlx_tokenizer* tokenizer;
  rlx_chat_template* chat_template; /* NULL if RLX was built without */
  rlx_decode_stream* decode_stream;
  rlx_encodings* encodings;
  rlx_encoder* encoder;
  rlx_lora* lora;
  rlx_tensor *ids, *lora_a, *lora_b;
  rlx_device_tensor *there, *w_there, *half_there;
  rlx_event* event;
  rlx_run* run;
  rlx_gguf* gguf;
  rlx_language_model* language_model;
  rlx_sequence* sequence;
  rlx_sampler* sampler;
  rlx_generator* generator;
  rlx_error* failure;
  char* ranges;
} objects;

static const int64_t kXDims[] = {2, 3}, kWDims[] = {3, 2}, kHalfDims[] = {1, 4};
static const float kNumbers[] = {1, 2, 3, 4, 5, 6};
static float shift_numbers[] = {10, 20};
static const rlx_buffer shift_memory = {shift_numbers, sizeof shift_numbers};
static const char *kShiftName[] = {"shift", NULL}, *kShiftType[] = {"f32[2]", NULL};
static const char *kWName[] = {"w", NULL}, *kXName[] = {"x", NULL}, *kTotalName[] = {"total", NULL};
static char folder[] = "/tmp/rlx-test-XXXXXX";
static char package_path[64], checkpoint_path[64], graph_path[64], written_path[64], vocabulary_path[64],
    adapter_path[64], artifact_path[64], gguf_path[64], state_path[64], language_model_path[64], profile_path[64];
static const char* kLoraNames[] = {"w", "w.lora_A.weight", "w.lora_B.weight"};
static const int64_t kIdsDims[] = {1, 2}, kTokenIds[] = {2, 5};
static const int32_t kPromptIds[] = {2, 5};

static void make_files(void);

static objects make_objects(void) {
  objects o;
  rlx_error* error = NULL;
  rlx_session_options one_thread = {.struct_size = sizeof one_thread, .threads = 1};
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
  rlx_compile_options updating;
  memset(&updating, 0, sizeof updating);
  updating.struct_size = sizeof updating;
  updating.donate = kTotalName, updating.donate_count = 1;
  OK(rlx_graph_parse(kSumming, strlen(kSumming), &o.sums, &error));
  OK(rlx_compile(o.session, o.sums, &updating, &o.summing, &error));
  OK(rlx_compiled_new_state(o.summing, NULL, NULL, 0, NULL, &o.kept, &error));
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
  OK(rlx_compiled_save(o.compiled, artifact_path, kWName, params, 1, &error));
  OK(rlx_state_save(o.kept, state_path, &error));
  OK(rlx_coreml_load(package_path, NULL, &o.coreml, &error));
  OK(rlx_coreml_make_state(o.coreml, &o.state, &error));
  int32_t mil_values[3];
  size_t mil_count;
  rlx_tensor* yes;
  const unsigned char one = 1;
  OK(rlx_mil_create(NULL, &o.mil, &error));
  OK(rlx_mil_input(o.mil, "in", "f32[2, 3]", NULL, NULL, &mil_values[0], &error));
  OK(rlx_tensor_create("bool", NULL, 0, &one, 1, &yes, &error));
  OK(rlx_mil_constant(o.mil, yes, "yes", &mil_values[1], &error));
  rlx_tensor_free(yes);
  OK(rlx_mil_set_values(o.mil, "x", mil_values, 1, &error));
  OK(rlx_mil_op(o.mil, "relu", "out", &mil_values[2], &mil_count, &error));
  OK(rlx_mil_output(o.mil, mil_values[2], NULL, &error));
  const rlx_buffer text = {"a cat", 5};
  const char* made_names[2];
  rlx_tensor* adapter[2];
  OK(rlx_tensor_create("i64", kIdsDims, 2, kTokenIds, sizeof kTokenIds, &o.ids, &error));
  OK(rlx_encoder_load(folder, "cpu", NULL, NULL, &o.encoder, &error));
  OK(rlx_encoder_tokenizer(o.encoder, &o.tokenizer, &error));
  (void)rlx_chat_template_parse("{{ messages }}", 14, &o.chat_template, NULL);
  OK(rlx_decode_stream_new(o.tokenizer, 1, &o.decode_stream, &error));
  OK(rlx_tokenizer_encode(o.tokenizer, &text, 1, 0, 1, &o.encodings, &error));
  OK(rlx_lora_add(o.model, "{targets = [\"w\"]}", &o.lora, &error));
  OK(rlx_lora_initial(o.lora, 7, made_names, adapter, 2, NULL, &error));
  o.lora_a = adapter[0], o.lora_b = adapter[1]; /* in the order of their names */
  OK(rlx_gguf_write(gguf_path, kWName, params, 1, "{\"n\": [\"u8\", 1]}", NULL, &error));
  OK(rlx_gguf_open(gguf_path, 0, &o.gguf, &error));
  OK(rlx_language_model_load(language_model_path, "cpu", NULL, NULL, &o.language_model, &error));
  OK(rlx_sequence_new(o.language_model, &o.sequence, &error));
  OK(rlx_sampler_new(NULL, &o.sampler, &error));
  OK(rlx_generator_new(o.language_model, NULL, &o.generator, &error));
  OK(rlx_generator_begin(o.generator, kPromptIds, 2, &error));
  rlx_graph_load("/nowhere/at/all.rlx", &o.plain, &o.failure);
  EXPECT(o.failure != NULL && o.plain != NULL);
  return o;
}

static void free_objects(objects* o) {
  rlx_error_free(o->failure);
  rlx_gguf_free(o->gguf);
  rlx_generator_free(o->generator);
  rlx_sampler_free(o->sampler);
  rlx_sequence_free(o->sequence);
  rlx_language_model_free(o->language_model);
  rlx_encodings_free(o->encodings);
  rlx_decode_stream_free(o->decode_stream);
  rlx_tokenizer_free(o->tokenizer);
  rlx_chat_template_free(o->chat_template);
  rlx_encoder_free(o->encoder);
  rlx_lora_free(o->lora);
  rlx_tensor_free(o->ids);
  rlx_tensor_free(o->lora_a);
  rlx_tensor_free(o->lora_b);
  rlx_run_wait(o->run, -1, NULL, NULL);
  rlx_run_free(o->run);
  rlx_event_free(o->event);
  rlx_device_tensor_free(o->there);
  rlx_device_tensor_free(o->w_there);
  rlx_device_tensor_free(o->half_there);
  rlx_mil_free(o->mil);
  rlx_coreml_state_free(o->state);
  rlx_coreml_free(o->coreml);
  rlx_quantization_free(o->quantization);
  rlx_text_free(o->ranges);
  rlx_training_free(o->training);
  rlx_compiled_free(o->compiled);
  rlx_compiled_free(o->summing);
  rlx_state_free(o->kept);
  rlx_graph_free(o->sums);
  rlx_tensor_free(o->x);
  rlx_tensor_free(o->w);
  rlx_tensor_free(o->half);
  rlx_graph_free(o->plain);
  rlx_graph_free(o->model);
  rlx_graph_free(o->loss);
  rlx_graph_free(o->fake);
  rlx_session_free(o->session);
}

typedef struct weight {
  const char* name;
  int rows, columns; /* 0: a vector */
} weight;

static void write_file(const char* in, const char* name, const char* text) {
  char path[128];
  snprintf(path, sizeof path, "%s/%s", in, name);
  FILE* file = fopen(path, "wb");
  EXPECT(file != NULL);
  fputs(text, file);
  fclose(file);
}

/* Weights that are zero. */
static void write_weights(const char* in, const weight* weights, size_t count) {
  char path[128], header[4096];
  uint64_t size = 0, end = 0; /* of the header; of the weights, in bytes */
  for (size_t i = 0; i < count; ++i) {
    const int rows = weights[i].rows, columns = weights[i].columns;
    const uint64_t begin = end;
    end += 4 * (uint64_t)rows * (uint64_t)(columns ? columns : 1);
    char shape[32];
    snprintf(shape, sizeof shape, columns ? "%d, %d" : "%d", rows, columns);
    size +=
        (uint64_t)snprintf(header + size, sizeof header - size,
                           "%s\"%s\": {\"dtype\": \"F32\", \"shape\": [%s], \"data_offsets\": [%llu, %llu]}",
                           i ? ", " : "{", weights[i].name, shape, (unsigned long long)begin, (unsigned long long)end);
  }
  EXPECT(size + 2 < sizeof header);
  header[size++] = '}';
  snprintf(path, sizeof path, "%s/model.safetensors", in);
  FILE* file = fopen(path, "wb");
  EXPECT(file != NULL);
  for (int i = 0; i < 8; ++i) fputc((int)(size >> (8 * i) & 255), file);
  fwrite(header, 1, size, file);
  for (uint64_t i = 0; i < end; ++i) fputc(0, file);
  fclose(file);
}

/* A model folder: BERT of one layer, whose weights are zero, and a vocabulary of eight tokens. */
static void make_model(void) {
  static const weight kWeights[] = {{"embeddings.word_embeddings.weight", 8, 4},
                                    {"embeddings.position_embeddings.weight", 8, 4},
                                    {"embeddings.token_type_embeddings.weight", 2, 4},
                                    {"embeddings.LayerNorm.weight", 4, 0},
                                    {"embeddings.LayerNorm.bias", 4, 0},
                                    {"encoder.layer.0.attention.self.query.weight", 4, 4},
                                    {"encoder.layer.0.attention.self.query.bias", 4, 0},
                                    {"encoder.layer.0.attention.self.key.weight", 4, 4},
                                    {"encoder.layer.0.attention.self.key.bias", 4, 0},
                                    {"encoder.layer.0.attention.self.value.weight", 4, 4},
                                    {"encoder.layer.0.attention.self.value.bias", 4, 0},
                                    {"encoder.layer.0.attention.output.dense.weight", 4, 4},
                                    {"encoder.layer.0.attention.output.dense.bias", 4, 0},
                                    {"encoder.layer.0.attention.output.LayerNorm.weight", 4, 0},
                                    {"encoder.layer.0.attention.output.LayerNorm.bias", 4, 0},
                                    {"encoder.layer.0.intermediate.dense.weight", 6, 4},
                                    {"encoder.layer.0.intermediate.dense.bias", 6, 0},
                                    {"encoder.layer.0.output.dense.weight", 4, 6},
                                    {"encoder.layer.0.output.dense.bias", 4, 0},
                                    {"encoder.layer.0.output.LayerNorm.weight", 4, 0},
                                    {"encoder.layer.0.output.LayerNorm.bias", 4, 0}};
  write_file(folder, "config.json",
             "{\"model_type\": \"bert\", \"vocab_size\": 8, \"hidden_size\": 4, \"num_hidden_layers\": 1, "
             "\"num_attention_heads\": 2, \"intermediate_size\": 6, \"max_position_embeddings\": 8, "
             "\"type_vocab_size\": 2, \"hidden_act\": \"gelu\"}");
  write_file(folder, "vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\ncat\n##s\n");
  snprintf(vocabulary_path, sizeof vocabulary_path, "%s/vocab.txt", folder);
  write_weights(folder, kWeights, sizeof kWeights / sizeof *kWeights);
}

/* A language model in a folder of its own: Llama of one layer, whose weights are zero, with the same vocabulary. */
static void make_language_model(void) {
  static const weight kWeights[] = {{"model.embed_tokens.weight", 8, 4},
                                    {"model.layers.0.input_layernorm.weight", 4, 0},
                                    {"model.layers.0.post_attention_layernorm.weight", 4, 0},
                                    {"model.layers.0.self_attn.q_proj.weight", 4, 4},
                                    {"model.layers.0.self_attn.k_proj.weight", 2, 4},
                                    {"model.layers.0.self_attn.v_proj.weight", 2, 4},
                                    {"model.layers.0.self_attn.o_proj.weight", 4, 4},
                                    {"model.layers.0.mlp.gate_proj.weight", 6, 4},
                                    {"model.layers.0.mlp.up_proj.weight", 6, 4},
                                    {"model.layers.0.mlp.down_proj.weight", 4, 6},
                                    {"model.norm.weight", 4, 0}};
  snprintf(language_model_path, sizeof language_model_path, "%s/language_model", folder);
  EXPECT(mkdir(language_model_path, 0700) == 0);
  write_file(language_model_path, "config.json",
             "{\"model_type\": \"llama\", \"vocab_size\": 8, \"hidden_size\": 4, \"num_hidden_layers\": 1, "
             "\"num_attention_heads\": 2, \"num_key_value_heads\": 1, \"intermediate_size\": 6, "
             "\"max_position_embeddings\": 32, \"rms_norm_eps\": 1e-6, \"tie_word_embeddings\": true, "
             "\"hidden_act\": \"silu\", \"bos_token_id\": 2, \"eos_token_id\": 3}");
  write_file(language_model_path, "vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\ncat\n##s\n");
  write_file(language_model_path, "chat_template.jinja", "{{ messages }}");
  write_weights(language_model_path, kWeights, sizeof kWeights / sizeof *kWeights);
}

/* A package with a state, a graph, a checkpoint, an adapter and a model, in a folder of their own; written once. */
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
  snprintf(state_path, sizeof state_path, "%s/state.safetensors", folder);
  snprintf(profile_path, sizeof profile_path, "%s/profile.toml", folder);
  write_file(folder, "profile.toml", "device = \"cpu\"\n[phase.decode]\nthreads = 1\n");
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
  rlx_graph* model = NULL;
  rlx_lora* lora = NULL;
  const char* names[2];
  rlx_tensor* adapter[2];
  snprintf(artifact_path, sizeof artifact_path, "%s/model.rlxc", folder);
  snprintf(adapter_path, sizeof adapter_path, "%s/adapter", folder);
  snprintf(gguf_path, sizeof gguf_path, "%s/model.gguf", folder);
  OK(rlx_graph_parse(kModel, strlen(kModel), &model, &error));
  OK(rlx_lora_add(model, "{targets = [\"w\"]}", &lora, &error));
  OK(rlx_lora_initial(lora, 7, names, adapter, 2, NULL, &error));
  const rlx_tensor* adapters[] = {adapter[0], adapter[1]};
  OK(rlx_lora_save(lora, adapter_path, names, adapters, 2, &error));
  rlx_tensor_free(adapter[0]);
  rlx_tensor_free(adapter[1]);
  rlx_lora_free(lora);
  rlx_graph_free(model);
  make_model();
  make_language_model();
  rlx_training_free(training);
  rlx_tensor_free(w);
  rlx_session_free(session);
  rlx_graph_free(loss);
  rlx_graph_free(step);
}
#endif
