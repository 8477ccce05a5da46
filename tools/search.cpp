// `rlx search`: the lines of a text that mean most nearly what a query says.
#include <CLI/CLI.hpp>
#include <numeric>

#include "tools/encoder_options.h"
#include "tools/output.h"
#include "tools/progress_bar.h"
#include "tools/search_index.h"
#include "tools/subcommands.h"
#include "tools/text_input.h"
#include "tools/text_table.h"

namespace rlx::tools {
namespace {

struct Search {
  explicit Search(CLI::App& app)
      : encoder(app), queries(app, "QUERY", "what to look for; several are answered one after the other") {
    app.add_option("--corpus", corpus, "the text, one sentence a line; - reads standard input")
        ->type_name("FILE")
        ->required();
    app.add_option("--top", top, "how many lines to show (default 5)")
        ->option_text("N")
        ->check(CLI::Range(size_t{1}, size_t{1} << 30));
    app.add_option(
           "--index", index,
           "where the vectors of the lines are kept, so that a text is embedded once (default: of a file in the "
           "folder of caches)")
        ->type_name("FILE");
    app.add_flag("--no-index", without_index, "keep no vectors, and use none that were kept");
    app.add_flag("--json", json, "print one JSON object a query: {query, hits: [{line, score, text}]}");
    queries.require();
    app.footer(R"(The score is the cosine of the embeddings, 1 for the same meaning; lines are counted from 1.
Vectors are kept by the contents of their lines and of the model: when some lines are changed, those are embedded anew.

Examples:
  rlx search --model all-MiniLM-L6-v2 --corpus faq.txt "how do I get my money back?"
  man gcc | rlx search --model all-MiniLM-L6-v2 --corpus - --top 3 "treat warnings as errors")");
  }
  void run() const;

  EncoderOptions encoder;
  Words queries;
  std::string corpus, index;
  size_t top = 5;
  bool json = false, without_index = false;
};

struct Hit {
  size_t line;
  float score;
};

/// The best rows, best first; of equal ones the first stands first.
std::vector<Hit> nearest(const Tensor& corpus, std::span<const float> query, size_t top) {
  auto values = corpus.values<float>();
  std::vector<Hit> hits(static_cast<size_t>(corpus.shape()[0]));
  for (size_t row = 0; row < hits.size(); ++row)
    hits[row] = {row, std::inner_product(query.begin(), query.end(),
                                         values.begin() + static_cast<std::ptrdiff_t>(row * query.size()), 0.0f)};
  top = std::min(top, hits.size());
  std::partial_sort(
      hits.begin(), hits.begin() + static_cast<std::ptrdiff_t>(top), hits.end(),
      [](const Hit& a, const Hit& b) { return a.score != b.score ? a.score > b.score : a.line < b.line; });
  hits.resize(top);
  return hits;
}

void print_json(const std::string& query, const std::vector<Hit>& hits, const std::vector<std::string>& lines) {
  std::string out = "{\"query\": " + json_text(query) + ", \"hits\": [";
  for (size_t i = 0; i < hits.size(); ++i)
    out += text_of(i ? ", " : "", "{\"line\": ", hits[i].line + 1, ", \"score\": ", number_text(hits[i].score),
                   ", \"text\": ", json_text(lines[hits[i].line]), "}");
  write_out(out + "]}\n");
}

void print_table(const std::vector<Hit>& hits, const std::vector<std::string>& lines) {
  TextTable table("rrl");
  table.add({"score", "line", "text"});
  for (const Hit& hit : hits)
    table.add({fixed_text(hit.score, 3), std::to_string(hit.line + 1), line_text(lines[hit.line], 200)});
  write_out(table.text());
}

void Search::run() const {
  if (without_index && !index.empty()) throw UsageError("give either --index or --no-index, not both");
  if (!index.empty()) require_index_or_none(index);
  std::vector<std::string> lines = read_lines(corpus), words = queries.all();
  if (lines.empty()) fail(ErrorCode::invalid_argument, "'", corpus, "' has no lines to search");
  SentenceEncoder model = encoder.load();
  const Tensor wanted = model.embed(words);
  const std::string file = without_index    ? std::string()
                           : !index.empty() ? index
                           : corpus == "-"  ? std::string()
                                            : index_file_of(corpus, encoder.model);
  const SearchIndex kept(file, file.empty() ? std::string() : made_by_text(encoder.model, encoder.setting()));
  const Tensor vectors = kept.vectors_of(lines, model.width(), [&](const std::vector<std::string>& missing) {
    ProgressBar bar("embedding");
    return model.embed(missing, [&](size_t done, size_t all) { bar.show(done, all); });
  });
  auto width = static_cast<size_t>(model.width());
  for (size_t q = 0; q < words.size(); ++q) {
    std::vector<Hit> hits = nearest(vectors, wanted.values<float>().subspan(q * width, width), top);
    if (json) {
      print_json(words[q], hits, lines);
      continue;
    }
    if (words.size() > 1) write_out(text_of(q ? "\n" : "", line_text(words[q], 200), "\n"));
    print_table(hits, lines);
  }
}

}  // namespace

Subcommand add_search(CLI::App& rlx) {
  CLI::App* app = rlx.add_subcommand("search", "The lines of a text nearest to a query");
  auto search = std::make_shared<Search>(*app);
  return {app, [search] { search->run(); }};
}

}  // namespace rlx::tools
