/* Language models through the C ABI: logits beside those of transformers (tests/golden/language_models), greedy texts
   beside its `generate` (tests/golden/generation), sequences, samplers, generators, and what is refused. */
#define _POSIX_C_SOURCE 200809L
#include <math.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "c_expect.h"

#define GOLDEN "tests/golden/language_models/llama3"
enum { kVocabulary = 41, kTokens = 70, kPrompt = 12, kMostTokens = 40 };

static rlx_error* error = NULL;
static int32_t ids[kTokens], prompt[kPrompt], greedy[kMostTokens];
static float wanted[kTokens * kVocabulary];

/* ---- what transformers gave ---- */
/* Integers between the first [ behind `key` and its ]. */
static size_t read_ids(const char* path, const char* key, int32_t* to, size_t room) {
  static char text[1 << 16];
  FILE* file = fopen(path, "rb");
  EXPECT(file != NULL);
  text[fread(text, 1, sizeof text - 1, file)] = '\0';
  fclose(file);
  char* at = strchr(strstr(text, key), '[') + 1;
  size_t count = 0;
  while (count < room && *at != ']') {
    to[count++] = (int32_t)strtol(at, &at, 10);
    while (*at == ',' || *at == ' ') ++at;
  }
  return count;
}
static size_t read_golden(void) {
  EXPECT(read_ids(GOLDEN "/ids.json", "[", ids, kTokens) == kTokens);
  FILE* file = fopen(GOLDEN "/logits.npy", "rb");
  EXPECT(file != NULL);
  unsigned char begin[10];
  EXPECT(fread(begin, 1, sizeof begin, file) == sizeof begin);
  fseek(file, begin[8] + 256 * begin[9], SEEK_CUR);
  EXPECT(fread(wanted, sizeof(float), kTokens * kVocabulary, file) == kTokens * kVocabulary);
  fclose(file);
  /* The file has a line for each model: its prompt, then its tokens. */
  static char text[1 << 16];
  file = fopen("tests/golden/generation/greedy.json", "rb");
  EXPECT(file != NULL);
  text[fread(text, 1, sizeof text - 1, file)] = '\0';
  fclose(file);
  EXPECT(read_ids("tests/golden/generation/greedy.json", "\"llama3\"", prompt, kPrompt) == kPrompt);
  char* at = strstr(strstr(text, "\"llama3\""), "\"tokens\": [") + strlen("\"tokens\": [");
  size_t count = 0;
  while (count < kMostTokens && *at != ']') {
    greedy[count++] = (int32_t)strtol(at, &at, 10);
    while (*at == ',' || *at == ' ') ++at;
  }
  return count;
}
/* Within 1e-4 of what transformers gave behind the token at `row`, and those that follow; frees the tensor. */
static int is_wanted(rlx_tensor* tensor, int row, int rows) {
  const float* got = rlx_tensor_data(tensor);
  int same = rlx_tensor_size(tensor) == sizeof(float) * kVocabulary * (size_t)rows;
  for (int i = 0; same && i < kVocabulary * rows; ++i) same = fabsf(got[i] - wanted[row * kVocabulary + i]) < 1e-4F;
  rlx_tensor_free(tensor);
  return same;
}

static rlx_language_model* loaded(const char* path, int64_t context, int64_t chunk, int copied) {
  rlx_language_model_options options;
  memset(&options, 0, sizeof options);
  options.struct_size = sizeof options;
  options.threads = 1, options.context = context, options.chunk = chunk, options.copied = copied;
  rlx_language_model* model = NULL;
  OK(rlx_language_model_load(path, "cpu", &options, NULL, &model, &error));
  return model;
}

/* ---- what a model says of itself ---- */
static void a_model_says_what_it_is(void) {
  rlx_language_model* model = loaded(GOLDEN, 100, 0, 0);
  EXPECT(strcmp(rlx_language_model_architecture(model), "llama") == 0);
  EXPECT(rlx_language_model_vocabulary(model) == kVocabulary);
  EXPECT(rlx_language_model_context(model) == 100);
  EXPECT(rlx_language_model_bos_id(model) == 1);
  size_t count = 0;
  const int32_t* stops = rlx_language_model_stop_ids(model, &count);
  EXPECT(count == 1 && stops[0] == 2);
  EXPECT(rlx_language_model_stop_ids(model, NULL) == stops);
  char* json = NULL;
  OK(rlx_language_model_describe(model, &json, &error));
  EXPECT(strcmp(json,
                "{\"architecture\":\"llama\",\"vocabulary\":41,\"hidden\":16,\"layers\":2,\"heads\":4,\"kv_heads\":2,"
                "\"head_dim\":8,\"intermediate\":24,\"experts\":0,\"window\":0,\"promised_context\":256,"
                "\"context\":100,\"bos_id\":1,\"stop_ids\":[2],\"advice\":{\"temperature\":null,\"top_k\":null,"
                "\"top_p\":null,\"min_p\":null,\"repetition_penalty\":null}}") == 0);
  rlx_text_free(json);
  OK(rlx_language_model_report(model, &json, &error));
  EXPECT(strstr(json, "\"nodes\"") != NULL);
  rlx_text_free(json);
  rlx_tokenizer* tokenizer = NULL;
  rlx_chat_template* chat = NULL;
  rlx_tensor* tokens = NULL;
  FAILS(rlx_language_model_tokenizer(model, &tokenizer, &error), RLX_NOT_FOUND, "tokenizer");
  FAILS(rlx_language_model_prompt(model, "a", 1, 0, &tokens, &error), RLX_NOT_FOUND, "tokenizer");
  FAILS(rlx_language_model_chat_template(model, &chat, &error), RLX_NOT_FOUND, "the model has no chat template");
  EXPECT(!tokenizer && !chat && !tokens);
  rlx_language_model_free(model);

  EXPECT(strcmp(rlx_language_model_architecture(NULL), "") == 0 && rlx_language_model_vocabulary(NULL) == 0);
  EXPECT(rlx_language_model_context(NULL) == 0 && rlx_language_model_bos_id(NULL) == -1);
  EXPECT(rlx_language_model_stop_ids(NULL, &count) == NULL && count == 0);
  EXPECT(rlx_sequence_position(NULL) == 0 && rlx_sequence_memory_bytes(NULL) == 0);
}

/* ---- logits ---- */
static void logits_are_those_of_transformers(int64_t chunk, int copied, const char* path) {
  rlx_language_model* model = loaded(path, 0, chunk, copied);
  rlx_tensor* tensor = NULL;
  OK(rlx_language_model_all_logits(model, ids, kTokens, &tensor, &error));
  EXPECT(rlx_tensor_rank(tensor) == 2 && strcmp(rlx_tensor_dtype(tensor), "f32") == 0);
  EXPECT(is_wanted(tensor, 0, kTokens));
  rlx_sequence *sequence = NULL, *copy = NULL;
  OK(rlx_sequence_new(model, &sequence, &error));
  rlx_language_model_free(model); /* the sequence keeps what it needs */
  OK(rlx_sequence_logits(sequence, ids, 30, &tensor, &error));
  EXPECT(rlx_tensor_rank(tensor) == 1);
  EXPECT(is_wanted(tensor, 29, 1));
  OK(rlx_sequence_copy(sequence, &copy, &error));
  OK(rlx_sequence_logits(sequence, ids, 3, &tensor, &error)); /* others than in the copy */
  rlx_tensor_free(tensor);
  EXPECT(rlx_sequence_position(sequence) == 33 && rlx_sequence_position(copy) == 30);
  OK(rlx_sequence_all_logits(copy, ids + 30, 20, &tensor, &error));
  EXPECT(is_wanted(tensor, 30, 20));
  OK(rlx_sequence_rewind(sequence, 3, &error));
  OK(rlx_sequence_logits(sequence, ids + 30, 1, &tensor, &error));
  EXPECT(is_wanted(tensor, 30, 1));
  EXPECT(rlx_sequence_memory_bytes(copy) >=
         50 * 2 * 2 * 2 * 8 * sizeof(float)); /* keys and values: layers, heads, width */
  rlx_sequence_free(sequence);
  OK(rlx_sequence_logits(copy, ids + 50, 1, &tensor, &error));
  EXPECT(is_wanted(tensor, 50, 1));
  rlx_sequence_free(copy);
}

static void greedy_tokens_are_those_of_transformers(size_t count) {
  rlx_language_model* model = loaded(GOLDEN, 0, 0, 0);
  rlx_sequence* sequence = NULL;
  rlx_sampler* sampler = NULL;
  rlx_tensor* logits = NULL;
  OK(rlx_sequence_new(model, &sequence, &error));
  OK(rlx_sampler_new("{temperature = 0}", &sampler, &error));
  OK(rlx_sequence_logits(sequence, prompt, kPrompt, &logits, &error));
  int same = count > 0;
  for (size_t i = 0; i < count; ++i) {
    int32_t token = -1;
    OK(rlx_sampler_sample(sampler, rlx_tensor_data(logits), kVocabulary, &token, &error));
    same = same && token == greedy[i];
    rlx_tensor_free(logits);
    OK(rlx_sequence_logits(sequence, &token, 1, &logits, &error));
  }
  EXPECT(same);
  rlx_tensor_free(logits);
  rlx_sampler_free(sampler);
  rlx_sequence_free(sequence);
  rlx_language_model_free(model);
}

static void* read_text(void* model) {
  rlx_error* failed = NULL;
  for (int i = 0; i < 8; ++i) {
    rlx_tensor* tensor = NULL;
    if (rlx_language_model_all_logits(model, ids, kTokens, &tensor, &failed) || !is_wanted(tensor, 0, kTokens))
      return model;
  }
  return NULL;
}
static void threads_share_a_model(void) {
  rlx_language_model* model = loaded(GOLDEN, 0, 16, 0);
  pthread_t threads[4];
  for (int i = 0; i < 4; ++i) EXPECT(pthread_create(&threads[i], NULL, read_text, model) == 0);
  for (int i = 0; i < 4; ++i) {
    void* failed = NULL;
    pthread_join(threads[i], &failed);
    EXPECT(failed == NULL);
  }
  rlx_language_model_free(model);
}

/* ---- samplers ---- */
static void samplers_draw(void) {
  const float logits[] = {0, 1, 2, 3};
  rlx_sampler* sampler = NULL;
  int32_t drawn[2][16], kept[4];
  double probabilities[4];
  size_t made = 0;
  OK(rlx_sampler_new("{seed = 5, temperature = 2.0}", &sampler, &error));
  for (int i = 0; i < 16; ++i) OK(rlx_sampler_sample(sampler, logits, 4, &drawn[0][i], &error));
  OK(rlx_sampler_reset(sampler, &error));
  for (int i = 0; i < 16; ++i) OK(rlx_sampler_sample(sampler, logits, 4, &drawn[1][i], &error));
  EXPECT(memcmp(drawn[0], drawn[1], sizeof drawn[0]) == 0);
  int others = 0;
  for (int i = 1; i < 16; ++i) others += drawn[0][i] != drawn[0][0];
  EXPECT(others > 0);
  OK(rlx_sampler_chances(sampler, logits, 4, kept, probabilities, 4, &made, &error));
  EXPECT(made == 4 && kept[0] == 3 && kept[3] == 0);
  /* Of exp(logit / 2). */
  const double weights[] = {4.48168907033806482, 2.71828182845904524, 1.64872127070012815, 1};
  const double sum = weights[0] + weights[1] + weights[2] + weights[3];
  for (int i = 0; i < 4; ++i) EXPECT(fabs(probabilities[i] - weights[i] / sum) < 1e-9);
  probabilities[1] = -7;
  OK(rlx_sampler_chances(sampler, logits, 4, kept, probabilities, 1, NULL, &error));
  EXPECT(probabilities[1] == -7); /* there was no room for it */
  rlx_sampler_free(sampler);

  OK(rlx_sampler_new("{top_k = 2, biased_ids = [0], biases = [5]}", &sampler, &error));
  OK(rlx_sampler_chances(sampler, logits, 4, kept, probabilities, 4, &made, &error));
  EXPECT(made == 2 && kept[0] == 0 && kept[1] == 3);
  rlx_sampler_free(sampler);
  OK(rlx_sampler_new("{temperature = 0, repetition_penalty = 4}", &sampler, &error));
  const int32_t seen[] = {3};
  OK(rlx_sampler_see(sampler, seen, 1, &error));
  OK(rlx_sampler_sample(sampler, logits, 4, &drawn[0][0], &error));
  EXPECT(drawn[0][0] == 2); /* 3 / 4 is less than 2 */
  const float odd[] = {0, NAN};
  FAILS(rlx_sampler_sample(sampler, odd, 2, &drawn[0][0], &error), RLX_INVALID_ARGUMENT, "token 1");
  rlx_sampler_free(sampler);

  sampler = NULL;
  FAILS(rlx_sampler_new("{temperature = -1}", &sampler, &error), RLX_INVALID_ARGUMENT, "temperature is -1");
  FAILS(rlx_sampler_new("{top_p = 0}", &sampler, &error), RLX_INVALID_ARGUMENT, "top_p is 0");
  FAILS(rlx_sampler_new("{top_q = 1}", &sampler, &error), RLX_PARSE_ERROR, "top_q");
  FAILS(rlx_sampler_new("{seed = -1}", &sampler, &error), RLX_INVALID_ARGUMENT, "seed is -1");
  FAILS(rlx_sampler_new("{biased_ids = [1]}", &sampler, &error), RLX_INVALID_ARGUMENT, "1 biased_ids and 0 biases");
  FAILS(rlx_sampler_new("{biased_ids = [4294967296], biases = [1]}", &sampler, &error), RLX_INVALID_ARGUMENT,
        "4294967296");
  FAILS(rlx_sampler_new("{stop = [\"a\"]}", &sampler, &error), RLX_INVALID_ARGUMENT, "of a generator");
  EXPECT(sampler == NULL);
}

/* ---- generators ---- */
static char folder[] = "/tmp/rlx-test-XXXXXX";
static const char kLetters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmno";

static void write_file(const char* name, const char* text) {
  char path[64];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE* file = fopen(path, "wb");
  EXPECT(file != NULL);
  fputs(text, file);
  fclose(file);
}
/* The golden model with a tokenizer that has a letter for each token, and advice. */
static void make_folder(void) {
  char here[512], from[640], to[64], text[4096];
  EXPECT(mkdtemp(folder) != NULL && getcwd(here, sizeof here) != NULL);
  const char* names[] = {"config.json", "model.safetensors"};
  for (int i = 0; i < 2; ++i) {
    snprintf(from, sizeof from, "%s/" GOLDEN "/%s", here, names[i]);
    snprintf(to, sizeof to, "%s/%s", folder, names[i]);
    EXPECT(symlink(from, to) == 0);
  }
  size_t at =
      (size_t)snprintf(text, sizeof text,
                       "{\"version\": \"1.0\", \"added_tokens\": [], \"normalizer\": null, \"pre_tokenizer\": null, "
                       "\"post_processor\": null, \"decoder\": {\"type\": \"Fuse\"}, \"model\": {\"type\": \"BPE\", "
                       "\"merges\": [], \"vocab\": {");
  for (int i = 0; i < kVocabulary; ++i)
    at += (size_t)snprintf(text + at, sizeof text - at, "%s\"%c\": %d", i ? ", " : "", kLetters[i], i);
  snprintf(text + at, sizeof text - at, "}}}");
  write_file("tokenizer.json", text);
  write_file("generation_config.json", "{\"do_sample\": true, \"top_k\": 1}");
}
/* All of a text; `text` has room. */
static void write_out(rlx_generator* generator, const int32_t* tokens, size_t count, char* text, size_t room) {
  size_t size = 0;
  char* piece = NULL;
  OK(rlx_generator_begin(generator, tokens, count, &error));
  do {
    size_t piece_size = 0;
    OK(rlx_generator_next(generator, &piece, &piece_size, &error));
    EXPECT(piece_size == (piece ? strlen(piece) : 0));
    if (piece) {
      EXPECT(piece[0] != '\0' && size + strlen(piece) < room);
      size += (size_t)snprintf(text + size, room - size, "%s", piece);
    }
    rlx_text_free(piece);
  } while (piece);
  text[size] = '\0';
}
static int described(const rlx_generator* generator, const char* finish, int read) {
  char *json = NULL, end[96];
  OK(rlx_generator_describe(generator, &json, &error));
  snprintf(end, sizeof end, "],\"finish\":\"%s\",\"read_tokens\":%d}", finish, read);
  const int same = strstr(json, end) != NULL;
  if (!same) fprintf(stderr, "%s, and not %s\n", json, end);
  rlx_text_free(json);
  return same;
}
static void generators_write(size_t count) {
  make_folder();
  rlx_language_model* model = loaded(folder, 0, 0, 0);
  char letters[kMostTokens + 1], text[256], other[256], settings[96];
  const int ends = greedy[count - 1] == 2;
  for (size_t i = 0; i < count; ++i) letters[i] = kLetters[greedy[i]];
  letters[ends ? count - 1 : count] = '\0';

  /* The prompt as text. */
  char prompt_text[kPrompt + 1] = "";
  for (int i = 0; i < kPrompt; ++i) prompt_text[i] = kLetters[prompt[i]];
  rlx_tensor* tokens = NULL;
  for (int kind = 0; kind < 3; ++kind) {
    OK(rlx_language_model_prompt(model, prompt_text, kPrompt, kind, &tokens, &error));
    EXPECT(rlx_tensor_size(tokens) == sizeof prompt && memcmp(rlx_tensor_data(tokens), prompt, sizeof prompt) == 0);
    rlx_tensor_free(tokens);
  }
  OK(rlx_language_model_prompt(model, "", 0, 0, &tokens, &error)); /* the token with which a text begins */
  EXPECT(rlx_tensor_size(tokens) == 4 && *(const int32_t*)rlx_tensor_data(tokens) == 1);
  rlx_tensor_free(tokens);
  tokens = NULL;
  FAILS(rlx_language_model_prompt(model, "a", 1, 3, &tokens, &error), RLX_INVALID_ARGUMENT, "kind is 3");

  /* As the files advise, which is the greatest of the logits. */
  rlx_generator* generator = NULL;
  OK(rlx_generator_new(model, "{max_tokens = 40}", &generator, &error));
  rlx_text_free(NULL);
  char* nothing = text;
  OK(rlx_generator_next(generator, &nothing, NULL, &error)); /* nothing was begun */
  EXPECT(nothing == NULL);
  write_out(generator, prompt, kPrompt, text, sizeof text);
  EXPECT(strcmp(text, letters) == 0);
  EXPECT(described(generator, ends ? "end" : "length", kPrompt));
  write_out(generator, prompt, kPrompt, text, sizeof text); /* only the last token is read again */
  EXPECT(strcmp(text, letters) == 0);
  EXPECT(described(generator, ends ? "end" : "length", 1));
  FAILS(rlx_generator_begin(generator, prompt, 0, &error), RLX_INVALID_ARGUMENT, "no tokens");
  rlx_generator_free(generator);

  /* A stop string of two tokens. */
  snprintf(settings, sizeof settings, "{stop = [\"none\", \"%.2s\"]}", letters + 2);
  OK(rlx_generator_new(model, settings, &generator, &error));
  write_out(generator, prompt, kPrompt, text, sizeof text);
  const size_t stopped = (size_t)(strstr(letters, (char[]){letters[2], letters[3], '\0'}) - letters);
  EXPECT(strlen(text) == stopped && strncmp(text, letters, stopped) == 0);
  EXPECT(described(generator, "stop", kPrompt));
  rlx_generator_free(generator);

  /* The same seed gives the same text. */
  OK(rlx_generator_new(model, "{top_k = 0, seed = 3, max_tokens = 30, temperature = 3}", &generator, &error));
  write_out(generator, prompt, kPrompt, text, sizeof text);
  OK(rlx_generator_reset(generator, &error));
  write_out(generator, prompt, kPrompt, other, sizeof other);
  EXPECT(strcmp(text, other) == 0 && text[0] != '\0');
  rlx_generator_free(generator);
  OK(rlx_generator_new(model, "{top_k = 0, seed = 4, max_tokens = 30, temperature = 3}", &generator, &error));
  write_out(generator, prompt, kPrompt, other, sizeof other);
  EXPECT(strcmp(text, other) != 0);
  rlx_language_model_free(model);
  write_out(generator, prompt, kPrompt, other, sizeof other); /* the generator keeps what it needs */
  rlx_generator_free(generator);

  /* A context that is full. */
  model = loaded(folder, kPrompt + 3, 0, 1);
  OK(rlx_generator_new(model, "{temperature = 3, seed = 1, biased_ids = [2], biases = [-inf]}", &generator, &error));
  write_out(generator, prompt, kPrompt, text, sizeof text);
  EXPECT(strlen(text) == 4 && described(generator, "context", kPrompt));
  FAILS(rlx_generator_begin(generator, ids, kPrompt + 3, &error), RLX_INVALID_ARGUMENT,
        "leave no room in a context of 15");
  rlx_generator_free(generator);
  generator = NULL;
  FAILS(rlx_generator_new(model, "{max_tokens = 0}", &generator, &error), RLX_INVALID_ARGUMENT, "max_tokens is 0");
  FAILS(rlx_generator_new(model, "{stop = [\"\"]}", &generator, &error), RLX_INVALID_ARGUMENT,
        "a stop string is empty");
  FAILS(rlx_generator_new(model, "{min_p = 2}", &generator, &error), RLX_INVALID_ARGUMENT, "min_p is 2");
  FAILS(rlx_generator_new(model, "[]", &generator, &error), RLX_PARSE_ERROR, "settings");
  EXPECT(generator == NULL);
  rlx_language_model_free(model);
  char command[64];
  snprintf(command, sizeof command, "rm -r '%s'", folder);
  EXPECT(system(command) == 0);
}

/* ---- what is refused ---- */
static void what_means_nothing_is_refused(void) {
  rlx_language_model* model = NULL;
  rlx_language_model_options options;
  memset(&options, 0, sizeof options);
  options.struct_size = sizeof options;
  FAILS(rlx_language_model_load("/nowhere/at/all", "cpu", NULL, NULL, &model, &error), RLX_NOT_FOUND, "no such folder");
  FAILS(rlx_language_model_load(GOLDEN, "warp", NULL, NULL, &model, &error), RLX_NOT_FOUND, "warp");
  options.context = -1;
  FAILS(rlx_language_model_load(GOLDEN, "cpu", &options, NULL, &model, &error), RLX_INVALID_ARGUMENT,
        "a context of -1");
  options.context = 0, options.chunk = -1;
  FAILS(rlx_language_model_load(GOLDEN, "cpu", &options, NULL, &model, &error), RLX_INVALID_ARGUMENT, "a chunk of -1");
  options.chunk = 0, options.cache = "f64";
  FAILS(rlx_language_model_load(GOLDEN, "cpu", &options, NULL, &model, &error), RLX_UNSUPPORTED, "caches of f64");
  options.cache = "q8_0";
  FAILS(rlx_language_model_load(GOLDEN, "cpu", &options, NULL, &model, &error), RLX_UNSUPPORTED,
        "whose blocks have 32 elements, but heads have");
  OK(rlx_language_model_load("tests/golden/block_caches", "cpu", &options, NULL, &model, &error));
  rlx_language_model_free(model);
  model = NULL;
  options.cache = "f17";
  FAILS(rlx_language_model_load(GOLDEN, "cpu", &options, NULL, &model, &error), RLX_PARSE_ERROR,
        "there is no dtype 'f17'");
  options.cache = "bf16";
  OK(rlx_language_model_load(GOLDEN, "cpu", &options, NULL, &model, &error));
  rlx_language_model_free(model);
  model = NULL;
  options.struct_size = 3;
  FAILS(rlx_language_model_load(GOLDEN, "cpu", &options, NULL, &model, &error), RLX_INVALID_ARGUMENT,
        "struct_size is 3");
  rlx_compile_options compile;
  memset(&compile, 0, sizeof compile);
  compile.struct_size = sizeof compile, compile.accuracy = 7;
  FAILS(rlx_language_model_load(GOLDEN, "cpu", NULL, &compile, &model, &error), RLX_INVALID_ARGUMENT, "accuracy");
  EXPECT(model == NULL);

  model = loaded(GOLDEN, 8, INT64_MAX, 0);
  rlx_sequence* sequence = NULL;
  rlx_tensor* tensor = NULL;
  const int32_t odd[] = {3, 41}, negative[] = {-1};
  OK(rlx_sequence_new(model, &sequence, &error));
  FAILS(rlx_sequence_logits(sequence, odd, 2, &tensor, &error), RLX_INVALID_ARGUMENT, "token 1 is 41");
  FAILS(rlx_sequence_logits(sequence, negative, 1, &tensor, &error), RLX_INVALID_ARGUMENT, "token 0 is -1");
  FAILS(rlx_sequence_logits(sequence, odd, 0, &tensor, &error), RLX_INVALID_ARGUMENT, "no tokens");
  FAILS(rlx_sequence_logits(sequence, ids, 9, &tensor, &error), RLX_INVALID_ARGUMENT, "do not fit a context of 8");
  FAILS(rlx_sequence_logits(sequence, ids, SIZE_MAX, &tensor, &error), RLX_INVALID_ARGUMENT, "no memory holds");
  FAILS(rlx_sequence_logits(sequence, NULL, 0, &tensor, &error), RLX_INVALID_ARGUMENT, "ids is NULL");
  FAILS(rlx_sequence_rewind(sequence, 1, &error), RLX_INVALID_ARGUMENT, "1");
  FAILS(rlx_sequence_rewind(sequence, -1, &error), RLX_INVALID_ARGUMENT, "-1");
  EXPECT(tensor == NULL && rlx_sequence_position(sequence) == 0);
  OK(rlx_sequence_logits(sequence, ids, 8, &tensor, &error));
  EXPECT(is_wanted(tensor, 7, 1));
  rlx_sequence_free(sequence);
  rlx_language_model_free(model);
}

static float most_different(rlx_tensor* a, rlx_tensor* b) {
  const float *x = rlx_tensor_data(a), *y = rlx_tensor_data(b);
  float most = 0;
  for (size_t i = 0; i < rlx_tensor_size(a) / sizeof(float); ++i)
    if (fabsf(x[i] - y[i]) > most) most = fabsf(x[i] - y[i]);
  rlx_tensor_free(a), rlx_tensor_free(b);
  return most;
}
static rlx_tensor* adapted_logits(const char* const* adapters, const double* scales, size_t count) {
  rlx_language_model_options options;
  memset(&options, 0, sizeof options);
  options.struct_size = sizeof options;
  options.adapters = adapters, options.adapter_scales = scales, options.adapter_count = count;
  rlx_language_model* model = NULL;
  rlx_tensor* logits = NULL;
  OK(rlx_language_model_load(GOLDEN, "cpu", &options, NULL, &model, &error));
  OK(rlx_language_model_all_logits(model, ids, 8, &logits, &error));
  rlx_language_model_free(model);
  return logits;
}
static void adapters_stand_beside_the_products(void) {
  const char* const adapter = "tests/golden/packed_language_models/lora_llama3";
  const char* const both[] = {adapter, adapter};
  const double halves[] = {0.5, 0.5}, none[] = {0, 0};
  EXPECT(most_different(adapted_logits(both, NULL, 1), adapted_logits(both, halves, 2)) < 1e-4F);
  EXPECT(most_different(adapted_logits(both, none, 2), adapted_logits(NULL, NULL, 0)) == 0);
  EXPECT(most_different(adapted_logits(both, NULL, 1), adapted_logits(NULL, NULL, 0)) > 0.1F);
  rlx_language_model_options options;
  memset(&options, 0, sizeof options);
  options.struct_size = sizeof options;
  options.adapter_count = 1;
  rlx_language_model* model = NULL;
  FAILS(rlx_language_model_load(GOLDEN, "cpu", &options, NULL, &model, &error), RLX_INVALID_ARGUMENT, "adapters");
  const char* const missing[] = {"no/such"};
  options.adapters = missing;
  FAILS(rlx_language_model_load(GOLDEN, "cpu", &options, NULL, &model, &error), RLX_NOT_FOUND, "no/such");
}

/* llama3 as a GGUF file, in parts, and as a folder again: with the logits of transformers each time. */
static void folders_become_files_and_files_folders(void) {
  static char place[] = "/tmp/rlx_c_conversions_XXXXXX", file[96], part[96], back[96], parts[96], index[160];
  char* notes = NULL;
  EXPECT(mkdtemp(place) != NULL);
  snprintf(file, sizeof file, "%s/m.gguf", place), snprintf(parts, sizeof parts, "%s/p.gguf", place);
  snprintf(part, sizeof part, "%s/p-00001-of-00002.gguf", place), snprintf(back, sizeof back, "%s/back", place);
  snprintf(index, sizeof index, "%s/model.safetensors.index.json", back);
  OK(rlx_language_model_to_gguf(GOLDEN, file, NULL, &notes, &error));
  EXPECT(notes && strstr(notes, "\"tensors\":") && strstr(notes, "the folder has no tokenizer"));
  rlx_text_free(notes);
  logits_are_those_of_transformers(0, 0, file);
  OK(rlx_language_model_to_gguf(GOLDEN, parts, "{most_file_bytes = 15000}", NULL, &error));
  logits_are_those_of_transformers(0, 0, part);
  OK(rlx_language_model_to_folder(file, back, "{most_file_bytes = 10000}", &notes, &error));
  EXPECT(notes && strstr(notes, "the file has no tokenizer"));
  rlx_text_free(notes);
  EXPECT(access(index, R_OK) == 0);
  logits_are_those_of_transformers(0, 0, back);
  notes = NULL;
  FAILS(rlx_language_model_to_folder(file, back, NULL, &notes, &error), RLX_INVALID_ARGUMENT, "not an empty folder");
  EXPECT(notes == NULL);
  FAILS(rlx_language_model_to_folder(file, place, "{quantize = \"q8_0\"}", NULL, &error), RLX_INVALID_ARGUMENT,
        "has no blocks");
  FAILS(rlx_language_model_to_gguf(GOLDEN, file, "{most_file_bytes = -1}", NULL, &error), RLX_INVALID_ARGUMENT,
        "0 or more");
}

int main(void) {
  const size_t count = read_golden();
  EXPECT(count > 4);
  folders_become_files_and_files_folders();
  a_model_says_what_it_is();
  logits_are_those_of_transformers(0, 0, GOLDEN);
  logits_are_those_of_transformers(7, 1, GOLDEN);
  logits_are_those_of_transformers(0, 0, GOLDEN ".gguf");
  greedy_tokens_are_those_of_transformers(count);
  adapters_stand_beside_the_products();
  threads_share_a_model();
  samplers_draw();
  generators_write(count);
  what_means_nothing_is_refused();
  printf("%d failures\n", failures);
  return failures != 0;
}
