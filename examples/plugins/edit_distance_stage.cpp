// A library that brings two stages of its own for pipelines (docs/pipelines.md), one on the host and one in the graph:
//
//   rlx --load build/release/examples/edit_distance_stage.so run pipeline.toml --input texts=names.txt
//
// "edit_distances" compares texts with a list of known ones on the host; "soft_vote" makes weights of the distances,
// and is compiled with the stages around it.
#include <rlx/rlx.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace {

struct KnownSettings {
  std::vector<std::string> known;
  RLX_FIELDS(KnownSettings, rlx::field("known", &KnownSettings::known));
};

/// The fewest insertions, deletions and replacements of bytes between two texts (Levenshtein 1966).
float distance(const std::string& a, const std::string& b) {
  std::vector<int64_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), int64_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    int64_t diagonal = std::exchange(row[0], static_cast<int64_t>(i) + 1);
    for (size_t j = 0; j < b.size(); ++j) {
      const int64_t replaced = diagonal + (a[i] != b[j]);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, row[j + 1] + 1});
    }
  }
  return static_cast<float>(row.back());
}

rlx::HostStage open_distances(std::span<const rlx::StageType> taken, const KnownSettings& settings,
                              const rlx::StagePlace&) {
  if (taken[0]) rlx::fail(rlx::ErrorCode::invalid_argument, "it takes texts, got ", *taken[0]);
  if (settings.known.empty()) rlx::fail(rlx::ErrorCode::invalid_argument, "the setting 'known' has no texts");
  const auto columns = static_cast<int64_t>(settings.known.size());
  auto run = [known = settings.known, columns](std::span<const rlx::StageValue> in) {
    const auto& texts = std::get<std::vector<std::string>>(in[0]);
    std::vector<float> distances;
    for (const std::string& text : texts)
      for (const std::string& each : known) distances.push_back(distance(text, each));
    return std::vector<rlx::StageValue>{
        rlx::Tensor::of<float>({static_cast<int64_t>(texts.size()), columns}, distances)};
  };
  return {{rlx::Type{rlx::f32, {rlx::Dim::symbol("N"), columns}}}, run};
}

struct VoteSettings {
  double sharpness = 1;
  RLX_FIELDS(VoteSettings, rlx::field("sharpness", &VoteSettings::sharpness));
};

}  // namespace

/// What `rlx --load` and rlx::load_plugin call.
extern "C" void rlx_register() {
  rlx::register_stage(rlx::define_stage<KnownSettings>({
      .name = "edit_distances",
      .doc = "how far each text is from each of `known`: f32[N, known]",
      .names = {{"texts"}, {"distances"}},
      .open = open_distances,
  }));
  rlx::register_stage(rlx::define_stage<VoteSettings>({
      .name = "soft_vote",
      .doc = "weights that add up to 1, the largest for the least distance",
      .names = {{"distances"}, {"weights"}},
      .build = [](rlx::StageGraph&, rlx::Values in, const VoteSettings& s,
                  const rlx::StagePlace&) -> rlx::Many<rlx::Value> { return rlx::softmax(in[0] * -s.sharpness); },
  }));
}
