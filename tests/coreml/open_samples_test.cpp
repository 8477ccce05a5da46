// The samples of every op with their extents left open: where the op takes symbols for them, the package takes any
// sizes and gives the reference's numbers at those of the sample. What is refused stands in a list here, with the
// reason.
#include <cstdlib>
#include <map>

#include "backends/coreml/coreml.h"
#include "compile/pipeline.h"
#include "coreml/samples.h"
#include "rlx/ops.h"
#include "support/sanitized.h"

using namespace rlx;
using namespace rlx::test;

namespace fs = std::filesystem;

namespace {

/// Why samples are refused, and how many for each reason. Factorizations and transforms decompose into loops and tables
/// that are made for a size; the channels of a convolution are numbers in every model.
const std::map<std::string, size_t> kRefusedOpen = {{"is for a given size", 75},
                                                    {"the features of a convolution must be numbers", 18},
                                                    {"dims of a convolution's weights must be numbers", 1},
                                                    {"is made of others only if that is a number", 6},
                                                    {"is smaller is not known", 1}};

/// The same with a symbol for each extent above 1; equal extents have the same. Those that attributes name are numbers.
std::optional<Graph> opened(const OpDef& op, laws::Case c) {
  bool any = false;
  for (Type& t : c.types)
    for (Dim& d : t.dims)
      if (int64_t n = d.value(); n > 1) d = Dim::symbol(text_of("S", n)), any = true;
  if (!any) return std::nullopt;
  try {
    return c.graph(op);
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace

TEST_CASE("every op that takes symbols for its extents is written with them open, or says why not") {
  TemporaryFolder temporary;
  const char* only = std::getenv("RLX_COREML_OPS");
  coreml::Options options{.narrow = true, .open_dims = true};
  std::map<std::string, size_t> refused;
  size_t samples = 0, written = 0;
  for (size_t number = 0; const OpDef* op : all_ops()) {
    if (left_out(*op) || (test::sanitized() && ++number % 3 != 1)) continue;  // every third, one sample each
    size_t of_op = 0;
    for (size_t s = 0; s < op->samples().size() && !(test::sanitized() && of_op > 0); ++s) {
      CAPTURE(op->name);
      CAPTURE(s);
      laws::Case c = in_f32(op->samples()[s]);
      std::optional<Graph> open = opened(*op, c);
      if (!open) continue;
      Graph g = c.graph(*op);
      const auto has_blocks = [](const std::vector<Type>& types) {
        return std::any_of(types.begin(), types.end(), [](const Type& t) { return is_block(t.dtype); });
      };
      if (!has_elements(g) || has_blocks(g.input_types()) || has_blocks(g.output_types())) continue;
      ++samples, ++of_op;
      auto refuse = [&](const std::string& why) {
        bool known = false;
        for (const auto& [reason, count] : kRefusedOpen)
          if (!known && why.find(reason) != std::string::npos) ++refused[reason], known = true;
        CHECK_MESSAGE(known, op->name, " sample ", s, " is refused: ", why);
      };
      coreml::Translated made;
      try {
        Pipelined legal = run_pipeline(*open, coreml::target(options), {});
        std::string missing;
        for (const DispatchLine& line : legal.report.lines)
          if (line.verdict == Verdict::missing && missing.empty()) missing = text_of(line.op, ": ", line.reason);
        if (!missing.empty()) {
          refuse(missing);
          continue;
        }
        made = coreml::translate(legal.graph, options);
      } catch (const Error& error) {
        CHECK_MESSAGE(error.code() == ErrorCode::unsupported, op->name, " sample ", s, ": ", error.what());
        refuse(error.what());
        continue;
      }
      ++written;
      fs::path folder = folder_for_cases(temporary) / text_of("open.", op->name, ".", s);
      std::string why = judged(folder, op->name, made, g, c.inputs(), true);
      CHECK_MESSAGE(why.empty(), op->name, " sample ", s, ", read back: ", why);
    }
  }
  for (const auto& entry : kRefusedOpen) {
    const size_t got = refused[entry.first], expected = entry.second;
    if (!only && !test::sanitized()) CHECK_MESSAGE(got == expected, entry.first);
  }
  // An op that stops taking symbols is no sample here any more, and would go without a word.
  if (!only && !test::sanitized()) CHECK(written == 880);
  MESSAGE(written, " of ", samples, " samples with open extents");
}
