// Memory that runs out while a file is read ends in an error, never in an abort: a destructor that takes memory, or a
// function that promises not to throw and does, would end the process. The n-th allocation is made to fail, for n = 1,
// 2, 3 ... until the work is done without meeting it. This replaces operator new, so the area has its own program.
#include <doctest/doctest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <functional>
#include <new>

#include "io/json_tree.h"
#include "rlx/graph_file.h"
#include "rlx/io.h"
#include "rlx/models.h"
#include "rlx/quantization.h"
#include "rlx/session.h"
#include "rlx/tokenizer.h"
#include "support/malloc_deletes.h"
#include "support/sanitized.h"

namespace {

std::atomic<int64_t> left_before_failure{-1};  // below 0: none fails
bool all_that_follow = false;

void* taken(size_t bytes, size_t alignment) {
  if (left_before_failure >= 0 && left_before_failure-- == 0) {
    if (all_that_follow) left_before_failure = 0;
    throw std::bad_alloc();
  }
  bytes = (std::max<size_t>(bytes, 1) + alignment - 1) / alignment * alignment;
  void* p = alignment <= alignof(std::max_align_t) ? std::malloc(bytes) : std::aligned_alloc(alignment, bytes);
  if (!p) throw std::bad_alloc();
  return p;
}

}  // namespace

void* operator new(size_t bytes) { return taken(bytes, alignof(std::max_align_t)); }
void* operator new[](size_t bytes) { return taken(bytes, alignof(std::max_align_t)); }
void* operator new(size_t bytes, std::align_val_t a) { return taken(bytes, static_cast<size_t>(a)); }
void* operator new[](size_t bytes, std::align_val_t a) { return taken(bytes, static_cast<size_t>(a)); }
// The standard library's call those above; the address sanitizer's own do not (std::stable_sort uses them).
void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  try {
    return taken(bytes, alignof(std::max_align_t));
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}
void* operator new[](size_t bytes, const std::nothrow_t& n) noexcept { return operator new(bytes, n); }

using namespace rlx;

namespace {

constexpr const char* kTokenizer = R"({
  "version": "1.0",
  "truncation": {"max_length": 8, "strategy": "LongestFirst", "stride": 0, "direction": "Right"},
  "padding": {"strategy": {"Fixed": 8}, "direction": "Right", "pad_to_multiple_of": null, "pad_id": 0,
              "pad_type_id": 0, "pad_token": "[PAD]"},
  "added_tokens": [{"id": 1, "content": "[UNK]", "single_word": false, "lstrip": false, "rstrip": false,
                    "normalized": false, "special": true}],
  "normalizer": {"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true, "strip_accents": null,
                 "lowercase": true},
  "pre_tokenizer": {"type": "BertPreTokenizer"},
  "post_processor": {"type": "TemplateProcessing",
    "single": [{"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
    "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
    "special_tokens": {"[CLS]": {"id": "[CLS]", "ids": [2], "tokens": ["[CLS]"]}}},
  "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": true},
  "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100,
            "vocab": {"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "hello": 3, "world": 4, "##s": 5}}
})";

constexpr const char* kConfig = R"({"model_type": "bert", "vocab_size": 100, "hidden_size": 8, "num_hidden_layers": 1,
  "num_attention_heads": 2, "intermediate_size": 16, "max_position_embeddings": 16, "type_vocab_size": 2})";

constexpr const char* kRanges = R"({"format": "rlx calibration 1", "method": "min_max", "averaging": 0.01,
  "percentile": 99.99, "bins": 2048, "levels": 128,
  "activations": [{"name": "x", "low": -1, "high": 1, "least": -1, "greatest": 1, "count": 3}]})";

constexpr const char* kGraph = R"(rlx 1
graph @g {
  %0 = input() @"x" : f32[2, 3]
  %1 = softmax(%0) {axis = 1} @"soft" : f32[2, 3]
  return %1 @"y"
}
)";

constexpr const char* kModel = R"(rlx 1
graph @g {
  %0 = input() @"x" : f32[4, 16]
  %1 = param() @"w" : f32[16, 32]
  %2 = matmul(%0, %1) @"head" : f32[4, 32]
  %3 = gelu(%2) : f32[4, 32]
  %4 = softmax(%3) {axis = 1} : f32[4, 32]
  return %4 @"y"
}
)";

/// What ends `work` for some n otherwise than by a result or an error; "" if nothing does. A child process tries, as an
/// abort would end this one.
std::string broken(const std::function<void()>& work) {
  for (const bool all_of_them : {false, true}) {
    int numbers[2];
    REQUIRE(pipe(numbers) == 0);
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      close(numbers[0]);
      all_that_follow = all_of_them;
      const int64_t step = test::sanitized() ? 7 : 1;
      for (int64_t n = 0;; n += step) {
        if (write(numbers[1], &n, sizeof n) != sizeof n) _exit(3);
        left_before_failure = n;
        try {
          work();
        } catch (const std::bad_alloc&) {
        } catch (const Error&) {
        } catch (...) {
          _exit(2);
        }
        const bool met = all_of_them ? left_before_failure == 0 : left_before_failure < 0;
        left_before_failure = -1;
        if (!met) _exit(0);
      }
    }
    close(numbers[1]);
    int64_t n = -1, last = -1;
    while (read(numbers[0], &n, sizeof n) == sizeof n) last = n;
    close(numbers[0]);
    int status = 0;
    waitpid(child, &status, 0);
    if (WIFSIGNALED(status))
      return "allocation " + std::to_string(last) + " fails: signal " + std::to_string(WTERMSIG(status));
    if (WEXITSTATUS(status) != 0) return "allocation " + std::to_string(last) + " fails: neither a result nor an error";
    if (last < 3) return "only " + std::to_string(last) + " allocations were met";
  }
  return "";
}

}  // namespace

TEST_CASE("a tokenizer.json that is read while memory runs out is an error or a tokenizer") {
  CHECK(broken([] { Tokenizer::from_json(kTokenizer).encode("Hello worlds"); }) == "");
}

TEST_CASE("so are the other texts that are read") {
  CHECK(broken([] { Tokenizer::from_vocabulary("[UNK]\n[CLS]\n[SEP]\n[PAD]\nhello\n"); }) == "");
  CHECK(broken([] {
          parse_json(R"({"a": [1, {"b": [2.5, "text that is long enough to be on the heap"]}], "c": {}})");
        }) == "");
  CHECK(broken([] { BertConfig::from_json(kConfig); }) == "");
  CHECK(broken([] { Calibration::from_json(kRanges); }) == "");
  CHECK(broken([] { parse_graph_text(kGraph); }) == "");
}

TEST_CASE("a text that is no JSON is an error while memory runs out") {
  CHECK(broken([] { parse_json(R"({"a": [1, {"b": [2.5, "text that is long enough to be on the heap")"); }) == "");
}

TEST_CASE("a graph that is compiled and run while memory runs out is an error or a result") {
  const Graph g = parse_graph_text(kModel);
  const Tensor x(f32, {4, 16}), w(f32, {16, 32});
  const auto run = [&] {
    CompiledGraph compiled = Session(Device::cpu(), {1}).compile(g);
    compiled.set_param("w", w);
    compiled.run_ordered({&x, 1});
  };
  run();  // what is made once in a process is there before
  CHECK(broken(run) == "");
}
