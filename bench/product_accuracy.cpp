// How exact products of f32 are, and what is made of them, beside OpenBLAS (what NumPy multiplies with) and oneDNN
// (what PyTorch, OpenVINO and ONNX Runtime multiply with): for each distribution of rows and of weights and each size
// the worst element, and the one in a thousand, of
//
//   (|y - exact| - half a unit in the last place of exact) / unit,   unit = 2^-24 sum |x| |w|
//
// A product of f32 may lose some sqrt(k) of these, as every step of a sum is rounded. Exact is a product in f64. What
// the unit of attention and of LSTM is stands in their files in product_accuracy/.
//
//   product_accuracy [--op matmul|linear|conv|attention|lstm|all] [--isa native|sse4|avx2|avx512] [--peers]
//                    [--accuracy f32|exact|row_relative] [--limit TIMES]
//                    [--rows NAME] [--weights NAME] [--csv FILE] | [--search SECONDS [--seed N]]
//
// Prints a line for each pair of distributions (worst over the sizes), then the worst of all over sqrt(k), and exits
// with 1 if a cell of ours is beyond four times the worse of the two peers' (--limit) or a one-hot row is not exact.
// --peers runs the peers alone: so the constant of the contract in docs/runtime.md was fixed. --search compares random
// sizes and scales instead (product_accuracy/search.h).
#include <CLI/CLI.hpp>
#include <cstdio>

#include "bench/product_accuracy/instruction_set.h"
#include "bench/product_accuracy/search.h"
#include "bench/product_accuracy/table.h"

namespace rlx::accuracy {
namespace {

int run(int argc, char** argv) {
  constexpr const Op* kOps[] = {&kMatmul, &kLinear, &kConvolution, &kAttention, &kLstm};
  std::vector<std::string> op_names;
  for (const Op* op : kOps) op_names.emplace_back(op->name);
  op_names.emplace_back("all");

  std::string op_name = "matmul", isa = "native", accuracy = "f32";
  bool peers_only = false;
  TableOptions table;
  SearchOptions trials;
  CLI::App app("Errors of f32 products beside OpenBLAS and oneDNN");
  app.add_option("--op", op_name, "what is made of the products")->check(CLI::IsMember(op_names));
  app.add_option("--isa", isa, "the instructions that ours and the peers may use")
      ->check(CLI::IsMember(instruction_sets()));
  app.add_flag("--peers", peers_only, "the peers alone");
  app.add_option("--limit", table.limit, "how many times the worse peer's error a cell may have");
  app.add_option("--rows", table.rows, "these rows alone");
  app.add_option("--weights", table.weights, "these weights alone");
  app.add_option("--csv", table.csv, "every cell to this file");
  app.add_option("--accuracy", accuracy, "as whoever compiles asks for it")
      ->check(CLI::IsMember({"f32", "exact", "row_relative"}));
  const CLI::Option* searches = app.add_option("--search", trials.seconds, "random sizes and scales for so long");
  app.add_option("--seed", trials.seed, "of the search's first trial; --search 0 runs that one alone");
  CLI11_PARSE(app, argc, argv);

  choose_instruction_set(isa, argv);
  std::printf("%s; accuracy %s\n", chosen_instruction_sets().c_str(), accuracy.c_str());
  CompileOptions options = CompileOptions::from_environment();
  options.accuracy = accuracy == "f32"     ? Accuracy::as_f32
                     : accuracy == "exact" ? Accuracy::exact
                                           : Accuracy::row_relative;
  const std::vector<Way> ways = all_ways(peers_only, options);
  std::vector<const Op*> ops;
  for (const Op* op : kOps)
    if (op_name == "all" || op_name == op->name) ops.push_back(op);
  trials.limit = table.limit, trials.is_verbose = trials.seconds == 0;
  return (searches->count() > 0 ? search(ops, ways, trials) : print_tables(ops, ways, table)) == 0 ? 0 : 1;
}

}  // namespace
}  // namespace rlx::accuracy

int main(int argc, char** argv) {
  try {
    return rlx::accuracy::run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "product_accuracy: %s\n", error.what());
    return 2;
  }
}
