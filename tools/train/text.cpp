// See the header.
#include "tools/train/text.h"

namespace rlx::tools {
namespace {

constexpr uint32_t kDraws = 18;  // the stream of keys by which characters are drawn

}  // namespace

std::string written_text(const TrainModel& model, const NamedTensors& params, const TrainSettings& s,
                         const Session& device) {
  CompiledGraph writer = device.compile(*model.writer);
  writer.set_params(params);
  Tensor start = model.characters.encode(s.prompt);
  auto values = start.values<int32_t>();
  std::vector<int32_t> written(values.begin(), values.end());
  if (written.empty()) written.push_back(0);
  std::string text = s.prompt;
  RandomStream random(static_cast<uint64_t>(s.seed), kDraws);
  for (int64_t i = 0; i < s.length; ++i) {
    // What stands behind a place does not change it: the model is causal.
    size_t seen = std::min(written.size(), static_cast<size_t>(s.context));
    Tensor x(i32, {1, s.context});
    std::copy(written.end() - static_cast<std::ptrdiff_t>(seen), written.end(), x.mutable_values<int32_t>().begin());
    uint32_t first = random.next();
    Tensor next = writer.run({{"x", x}, {"key", Tensor::of<uint32_t>({2}, {first, random.next()})}})[0];
    written.push_back(next.values<int32_t>()[seen - 1]);
    text += model.characters.all[static_cast<size_t>(written.back())];
  }
  return text;
}

}  // namespace rlx::tools
