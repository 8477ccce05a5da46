// `rlx embed`: sentences to vectors. Neighbour: tools/search.cpp, which compares them.
#include <CLI/CLI.hpp>
#include <optional>

#include "io/atomic_file.h"
#include "rlx/io.h"
#include "rlx/models.h"
#include "tools/encoder_options.h"
#include "tools/output.h"
#include "tools/progress_bar.h"
#include "tools/subcommands.h"
#include "tools/text_input.h"
#include "tools/text_table.h"

namespace rlx::tools {
namespace {

struct Embed {
  explicit Embed(CLI::App& app) : encoder(app), sentences(app) {
    app.add_option("--npy", npy, "write the vectors to this file, one row a sentence (NumPy, f32)")->type_name("FILE");
    app.add_flag("--json", json, "print the vectors, one JSON array of numbers a line");
    app.footer(
        R"(The mean over the tokens of the last layer, with norm 1, so that a dot product is the cosine; or what modules.json of the
folder says. Models are BERT and ModernBERT. A sentence is cut at the model's number of tokens (sentence_bert_config.json). Without
--npy and --json, a summary is printed.

Examples:
  rlx embed --model all-MiniLM-L6-v2 "A sentence." "Another one."
  rlx embed --model all-MiniLM-L6-v2 --file lines.txt --npy vectors.npy
  cut -f2 table.tsv | rlx embed --model all-MiniLM-L6-v2 --json - > vectors.jsonl)");
  }
  void run() const;

  EncoderOptions encoder;
  Sentences sentences;
  std::string npy;
  bool json = false;
};

void print_json(const Tensor& vectors) {
  auto values = vectors.values<float>();
  auto width = static_cast<size_t>(vectors.shape()[1]);
  for (size_t at = 0; at < values.size(); at += width) {
    std::string line = "[";
    for (size_t i = 0; i < width; ++i) (line += i ? "," : "") += number_text(values[at + i]);
    write_out(line + "]\n");
  }
}

void print_summary(const Tensor& vectors, const std::vector<std::string>& sentences) {
  constexpr size_t kMostRows = 10;
  auto values = vectors.values<float>();
  auto width = static_cast<size_t>(vectors.shape()[1]);
  TextTable table("rll");
  table.add({"line", "first values", "sentence"});
  for (size_t row = 0; row < std::min(kMostRows, sentences.size()); ++row) {
    std::string first;
    for (size_t i = 0; i < std::min<size_t>(4, width); ++i) first += fixed_text(values[row * width + i], 4) + " ";
    table.add({std::to_string(row + 1), first + "...", line_text(sentences[row], 60)});
  }
  write_out(table.text());
  if (sentences.size() > kMostRows) write_out(text_of("... and ", sentences.size() - kMostRows, " more\n"));
  write_out(text_of(sentences.size(), " vectors of ", width, " numbers; --npy FILE writes them, --json prints them\n"));
}

void Embed::run() const {
  // What cannot be written is said before the work, not behind it.
  if (!npy.empty()) AtomicFile probe(npy);
  std::vector<std::string> texts = sentences.read();
  SentenceEncoder model = encoder.load();
  Tensor vectors;
  {
    ProgressBar bar("embedding");
    vectors = model.embed(texts, [&](size_t done, size_t all) { bar.show(done, all); });
  }
  if (!npy.empty()) write_npy(npy, vectors);
  if (json) print_json(vectors);
  else if (npy.empty()) print_summary(vectors, texts);
}

}  // namespace

Subcommand add_embed(CLI::App& rlx) {
  CLI::App* app = rlx.add_subcommand("embed", "Sentences to vectors");
  auto embed = std::make_shared<Embed>(*app);
  return {app, [embed] { embed->run(); }};
}

}  // namespace rlx::tools
