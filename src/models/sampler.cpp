// The next token from logits; see rlx/sampler.h. A vocabulary has a quarter of a million tokens: nothing here sorts
// them all but for typical_p.
#include "rlx/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/random/random_bits.h"
#include "rlx/error.h"

namespace rlx {
namespace {

void check(const SamplerOptions& o) {
  auto refuse = [](std::string_view name, double value, std::string_view wanted) {
    fail(ErrorCode::invalid_argument, name, " is ", value, "; it is ", wanted);
  };
  if (!(o.temperature >= 0) || std::isinf(o.temperature))
    refuse("temperature", o.temperature, "0 for greedy, or above");
  if (o.top_k < 0) refuse("top_k", static_cast<double>(o.top_k), "0 for all, or above");
  if (!(o.top_p > 0 && o.top_p <= 1)) refuse("top_p", o.top_p, "above 0 and at most 1");
  if (!(o.min_p >= 0 && o.min_p <= 1)) refuse("min_p", o.min_p, "from 0 to 1");
  if (!(o.typical_p > 0 && o.typical_p <= 1)) refuse("typical_p", o.typical_p, "above 0 and at most 1");
  if (!(o.repetition_penalty > 0) || std::isinf(o.repetition_penalty))
    refuse("repetition_penalty", o.repetition_penalty, "above 0");
  if (!std::isfinite(o.presence_penalty)) refuse("presence_penalty", o.presence_penalty, "a number");
  if (!std::isfinite(o.frequency_penalty)) refuse("frequency_penalty", o.frequency_penalty, "a number");
  for (const auto& [id, bias] : o.logit_bias)
    if (std::isnan(bias) || bias == std::numeric_limits<double>::infinity())
      refuse("the logit_bias of token " + std::to_string(id), bias, "a number, or -inf");
}

/// Whether `a` comes before `b`: the greater logit, then the lower id.
template <class C>
bool is_before(const C& a, const C& b) {
  return a.logit > b.logit || (a.logit == b.logit && a.id < b.id);
}

constexpr size_t kLanes = 64;
constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// The greatest of each kLanes logits, the last of which may be fewer; whether one is NaN or +inf. What follows looks
/// only into the few blocks whose greatest one is large enough.
bool greatest_of_blocks(std::span<const float> values, std::vector<float>& greatest) {
  greatest.clear();
  int wrong = 0;
  auto block = [&](const float* v, auto count) {
    // Lanes of their own, so that the compiler makes vectors of them.
    float most[8];
    int odd[8] = {};
    std::fill(most, most + 8, -kInfinity);
    for (size_t i = 0; i < count; i += 8)
      for (size_t j = 0; j < 8; ++j) {
        most[j] = v[i + j] > most[j] ? v[i + j] : most[j];
        odd[j] |= !(v[i + j] < kInfinity);
      }
    for (size_t j = 0; j < 8; ++j) wrong |= odd[j];
    greatest.push_back(*std::max_element(most, most + 8));
  };
  size_t at = 0;
  for (; at + kLanes <= values.size(); at += kLanes)
    block(values.data() + at, std::integral_constant<size_t, kLanes>());
  if (at < values.size()) {
    float rest[kLanes];
    std::fill(rest, rest + kLanes, -kInfinity);
    std::copy(values.begin() + static_cast<ptrdiff_t>(at), values.end(), rest);
    block(rest, std::integral_constant<size_t, kLanes>());
  }
  return wrong != 0;
}

/// Calls `use(i)` for the values of blocks that have one of at least `least()`, which may grow.
template <class Least, class Use>
void for_large(std::span<const float> values, const std::vector<float>& blocks, Least least, Use use) {
  for (size_t b = 0; b < blocks.size(); ++b) {
    if (blocks[b] < least()) continue;
    const size_t end = std::min(values.size(), (b + 1) * kLanes);
    for (size_t i = b * kLanes; i < end; ++i)
      if (values[i] >= least()) use(i);
  }
}

/// The k-th greatest value: one pass, with a heap of the k greatest so far.
float kth_greatest(std::span<const float> values, const std::vector<float>& blocks, size_t k) {
  std::vector<float> heap;
  float least = -kInfinity;
  for_large(
      values, blocks, [&] { return least; },
      [&](size_t i) {
        if (heap.size() == k) {
          if (values[i] == least) return;
          std::pop_heap(heap.begin(), heap.end(), std::greater<>());
          heap.pop_back();
        }
        heap.push_back(values[i]);
        std::push_heap(heap.begin(), heap.end(), std::greater<>());
        if (heap.size() == k) least = heap.front();
      });
  return least;
}

}  // namespace

Sampler::Sampler(SamplerOptions options) : options_(std::move(options)) { check(options_); }

void Sampler::see(std::span<const int32_t> tokens) { seen_.insert(tokens.begin(), tokens.end()); }

void Sampler::reset() {
  drawn_.clear();
  seen_.clear();
  draws_ = 0;
}

double Sampler::uniform() {
  const std::array<uint32_t, 4> counter{static_cast<uint32_t>(draws_), static_cast<uint32_t>(draws_ >> 32), 0, 0};
  const std::array<uint32_t, 2> key{static_cast<uint32_t>(options_.seed), static_cast<uint32_t>(options_.seed >> 32)};
  ++draws_;
  const auto bits = philox_4x32_10<uint32_t>(counter, key);
  return static_cast<double>((uint64_t{bits[1]} << 32 | bits[0]) >> 11) * 0x1p-53;
}

/// Leaves in `candidates_` what may be drawn, with weights.
void Sampler::filter(std::span<const float> logits) {
  if (logits.empty() || logits.size() > static_cast<size_t>(std::numeric_limits<int32_t>::max()))
    fail(ErrorCode::invalid_argument, "a token cannot be drawn from ", logits.size(), " logits");
  scores_.assign(logits.begin(), logits.end());
  auto in_range = [&](int32_t id) { return id >= 0 && static_cast<size_t>(id) < scores_.size(); };
  for (const auto& [id, bias] : options_.logit_bias) {
    if (!in_range(id))
      fail(ErrorCode::invalid_argument, "logit_bias names token ", id, "; there are ", scores_.size(), " logits");
    float& score = scores_[static_cast<size_t>(id)];
    score = static_cast<float>(score + bias);
  }
  if (options_.repetition_penalty != 1)
    for (const int32_t id : seen_)
      if (in_range(id)) {
        float& score = scores_[static_cast<size_t>(id)];
        score =
            static_cast<float>(score < 0 ? score * options_.repetition_penalty : score / options_.repetition_penalty);
      }
  if (options_.presence_penalty != 0 || options_.frequency_penalty != 0)
    for (const auto& [id, count] : drawn_)
      if (in_range(id)) {
        float& score = scores_[static_cast<size_t>(id)];
        score = static_cast<float>(score - options_.presence_penalty -
                                   options_.frequency_penalty * static_cast<double>(count));
      }

  if (greatest_of_blocks(scores_, blocks_)) {
    const auto at = std::find_if(scores_.begin(), scores_.end(), [](float s) { return !(s < kInfinity); });
    fail(ErrorCode::invalid_argument, "the logit of token ", at - scores_.begin(), " is ", *at,
         "; no token can be drawn beside it");
  }
  const float greatest = *std::max_element(blocks_.begin(), blocks_.end());
  if (greatest == -kInfinity)
    fail(ErrorCode::invalid_argument, "all ", scores_.size(), " logits are -inf: no token can be drawn");

  candidates_.clear();
  sorted_ = true;
  if (options_.temperature == 0) {
    const auto at = std::find(scores_.begin(), scores_.end(), greatest);
    candidates_.push_back({greatest, static_cast<int32_t>(at - scores_.begin()), 1});
    return;
  }
  const double scale = 1 / options_.temperature;
  float least = std::numeric_limits<float>::lowest();  // leaves out -inf
  if (options_.top_k > 0 && static_cast<size_t>(options_.top_k) < scores_.size())
    least = std::max(least, kth_greatest(scores_, blocks_, static_cast<size_t>(options_.top_k)));
  for_large(
      scores_, blocks_, [&] { return least; },
      [&](size_t i) {
        candidates_.push_back({scores_[i], static_cast<int32_t>(i), std::exp((double{scores_[i]} - greatest) * scale)});
      });
  sorted_ = false;
  if (options_.top_p < 1) keep_top_p();
  if (options_.min_p > 0)  // the likeliest token has weight 1
    std::erase_if(candidates_, [&](const Candidate& c) { return c.weight < options_.min_p; });
  if (options_.typical_p < 1) keep_typical();
}

void Sampler::keep_top_p() {
  double total = 0;
  for (const Candidate& c : candidates_) total += c.weight;
  // All that are less likely than an n-th of what is cut off are cut off, and need no order.
  const double least = total * (1 - options_.top_p) / static_cast<double>(candidates_.size()) * 0.999;
  std::erase_if(candidates_, [&](const Candidate& c) { return c.weight < least; });
  std::sort(candidates_.begin(), candidates_.end(), is_before<Candidate>);
  sorted_ = true;
  double before = 0;
  size_t kept = 0;
  while (kept < candidates_.size() && (kept == 0 || before < options_.top_p * total))
    before += candidates_[kept++].weight;
  candidates_.resize(kept);
}

void Sampler::keep_typical() {
  double total = 0, entropy = 0;
  for (const Candidate& c : candidates_) total += c.weight;
  const double log_total = std::log(total);
  auto information = [&](const Candidate& c) { return log_total - std::log(c.weight); };
  for (const Candidate& c : candidates_)
    if (c.weight > 0) entropy += c.weight / total * information(c);
  struct Place {
    double distance;
    size_t at;
  };
  std::vector<Place> places;
  for (size_t i = 0; i < candidates_.size(); ++i)
    places.push_back({std::abs(information(candidates_[i]) - entropy), i});
  std::sort(places.begin(), places.end(), [](const Place& a, const Place& b) {
    return a.distance < b.distance || (a.distance == b.distance && a.at < b.at);
  });
  double sum = 0;
  size_t last = 0;
  while (last + 1 < places.size() && (sum += candidates_[places[last].at].weight) < options_.typical_p * total) ++last;
  std::vector<Candidate> kept;
  for (const Place& place : places)
    if (place.distance <= places[last].distance) kept.push_back(candidates_[place.at]);
  candidates_ = std::move(kept);
  sorted_ = false;
}

int32_t Sampler::sample(std::span<const float> logits) {
  filter(logits);
  if (!sorted_ && options_.typical_p < 1) std::sort(candidates_.begin(), candidates_.end(), is_before<Candidate>);
  int32_t id = candidates_.front().id;
  if (options_.temperature > 0) {
    double total = 0;
    for (const Candidate& c : candidates_) total += c.weight;
    double left = uniform() * total;
    for (const Candidate& c : candidates_) {
      if (c.weight > 0) id = c.id;
      if ((left -= c.weight) < 0) break;
    }
  }
  ++drawn_[id];
  seen_.insert(id);
  return id;
}

int32_t Sampler::sample(const Tensor& logits) {
  if (logits.dtype() != DType::f32 || logits.shape().size() != 1)
    fail(ErrorCode::shape_mismatch, "logits are f32[vocabulary], got ", name_of(logits.dtype()), " of rank ",
         logits.shape().size());
  return sample(logits.values<float>());
}

std::vector<TokenChance> Sampler::chances(std::span<const float> logits) {
  filter(logits);
  std::sort(candidates_.begin(), candidates_.end(), is_before<Candidate>);
  double total = 0;
  for (const Candidate& c : candidates_) total += c.weight;
  std::vector<TokenChance> made;
  for (const Candidate& c : candidates_) made.push_back({c.id, c.weight / total});
  return made;
}

}  // namespace rlx
