// Checkpoints of training sessions: one safetensors file with all that is kept; see rlx/train.h.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <iterator>
#include <limits>
#include <set>
#include <sstream>

#include "io/safetensors_header.h"
#include "train/session_state.h"

namespace rlx {
namespace {

constexpr std::string_view kFormat = "rlx training 1", kNote = "note/";

/// By which rule each param steps, one a line.
std::string rules_of(const std::vector<train::Trained>& trained) {
  std::string text;
  for (const train::Trained& t : trained) {
    Attrs attrs = std::visit([](const auto& a) { return Attrs(a); }, t.rule);
    std::ostringstream line;
    print(line << t.name << ": " << op_of(t.rule).name << " ", attrs);
    text += text_of(line.str(), " at ", t.lr_scale, " times the rate\n");
  }
  return text;
}
Tensor owned(Tensor t) {
  t.mutable_data();  // what is borrowed is copied
  return t;
}
/// What safetensors has no dtype for (weights in blocks) is stored as its bytes.
Tensor stored(const Tensor& t) {
  if (safetensors_name(t.dtype())) return t;
  Tensor bytes = Tensor::uninitialized(u8, {static_cast<int64_t>(t.byte_count())});
  if (t.byte_count()) std::memcpy(bytes.mutable_data(), t.data(), t.byte_count());
  return bytes;
}
Tensor restored(const SafetensorsFile& file, const std::string& name, const Type& type) {
  Shape shape = shape_of(type.dims);
  if (safetensors_name(type.dtype)) return owned(file.tensor(name, type.dtype, shape));
  Tensor t = Tensor::uninitialized(type.dtype, shape);
  Tensor bytes = file.tensor(name, u8, {static_cast<int64_t>(t.byte_count())});
  if (t.byte_count()) std::memcpy(t.mutable_data(), bytes.data(), t.byte_count());
  return t;
}
/// The first line in which two texts differ, of each.
std::pair<std::string, std::string> first_difference(const std::string& a, const std::string& b) {
  std::istringstream lines_a(a), lines_b(b);
  std::string one, other;
  do {
    if (!std::getline(lines_a, one)) one = "nothing";
    if (!std::getline(lines_b, other)) other = "nothing";
  } while (one == other && one != "nothing");
  return {one, other};
}

/// The params that rules are for.
std::set<std::string> params_in(const std::string& rules) {
  std::set<std::string> names;
  std::istringstream lines(rules);
  for (std::string line; std::getline(lines, line);)
    if (size_t end = line.find(": "); end != std::string::npos) names.insert(line.substr(0, end));
  return names;
}
/// Which params the rules of a checkpoint and of this session do not share: "; it trains 'a' (1 more), ...".
std::string difference_of_params(const std::string& theirs, const std::string& ours) {
  auto a = params_in(theirs), b = params_in(ours);
  auto only = [](const std::set<std::string>& in, const std::set<std::string>& not_in) {
    std::vector<std::string> names;
    std::set_difference(in.begin(), in.end(), not_in.begin(), not_in.end(), std::back_inserter(names));
    return names.empty()       ? ""
           : names.size() == 1 ? text_of("'", names[0], "'")
                               : text_of("'", names[0], "' and ", names.size() - 1, " more");
  };
  std::string text, more = only(a, b), missing = only(b, a);
  if (!more.empty()) text += "; it trains " + more + ", this session does not";
  if (!missing.empty()) text += "; this session trains " + missing + ", it does not";
  return text;
}

/// A number in the metadata; fails unless it is one that is not negative.
template <class T>
T number_in(std::string_view name, const std::string& text) {
  T value{};
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !(value >= 0))
    fail(ErrorCode::parse, "its ", name, " is '", text.substr(0, 40), "'");
  return value;
}

}  // namespace

void TrainingSession::save(const std::string& path, const Notes& notes) const {
  const State& s = *state_;
  s.require_whole();
  if (s.pending > 0)
    fail(ErrorCode::invalid_argument, "the gradients of ", s.pending, " batches wait, and a checkpoint does not keep ",
         "them; call step_accumulated() first");
  NamedTensors tensors;
  for (const auto& [name, value] : s.fixed) tensors[name] = stored(value);
  for (size_t i = 0; i < s.layout.kept.size(); ++i) tensors[s.layout.kept[i].name] = s.kept[i].to_host();
  SafetensorsFile::Metadata metadata = {
      {"format", std::string(kFormat)}, {"steps", std::to_string(s.steps)}, {"rules", rules_of(s.layout.trained)}};
  if (train::is_scaled(s.config)) {
    std::ostringstream scale;
    print(scale, s.scale);
    metadata["loss_scale"] = scale.str(), metadata["since_overflow"] = std::to_string(s.since_overflow);
  }
  for (const auto& [name, text] : notes) metadata[std::string(kNote) + name] = text;
  write_safetensors(path, tensors, metadata);
}

TrainingSession::Notes TrainingSession::load(const std::string& path) {
  return with_context(
      [&] { return text_of("loading the checkpoint '", path, "'"); },
      [&] {
        State& s = *state_;
        auto file = SafetensorsFile::open(path);
        auto metadata = [&](const std::string& key) -> const std::string& {
          auto found = file.metadata().find(key);
          if (found == file.metadata().end())
            fail(ErrorCode::parse, "it has no '", key, "' in its metadata: no training session wrote it");
          return found->second;
        };
        if (metadata("format") != kFormat)
          fail(ErrorCode::parse, "its format is '", metadata("format"), "'; this is '", kFormat, "'");
        if (std::string rules = rules_of(s.layout.trained); metadata("rules") != rules) {
          auto [theirs, ours] = first_difference(metadata("rules"), rules);
          fail(ErrorCode::invalid_argument, "it was trained as '", theirs, "', this session as '", ours, "'",
               difference_of_params(metadata("rules"), rules));
        }
        auto steps = number_in<int64_t>("steps", metadata("steps"));
        if (steps >= std::numeric_limits<int32_t>::max())
          fail(ErrorCode::parse, "its steps are ", steps, "; a step's number is an i32");
        double scale = s.scale;
        int64_t since_overflow = 0;
        if (train::is_scaled(s.config) && file.metadata().contains("loss_scale")) {
          scale = number_in<double>("loss_scale", metadata("loss_scale"));
          if (!(scale > 0 && std::isfinite(scale)))
            fail(ErrorCode::parse, "its loss_scale is ", scale, "; it is finite and above 0");
          since_overflow = number_in<int64_t>("since_overflow", metadata("since_overflow"));
        }
        // Copies: the file may be replaced by the next checkpoint.
        std::vector<train::Placed> kept;
        for (const auto& [name, type] : s.layout.kept)
          kept.push_back(s.placed(owned(file.tensor(name, type.dtype, shape_of(type.dims)))));
        NamedTensors fixed;
        for (const auto& [name, value] : s.fixed) fixed[name] = restored(file, name, value.type());
        for (const auto& entry : file.entries())
          if (!fixed.contains(entry.name) && std::none_of(s.layout.kept.begin(), s.layout.kept.end(),
                                                          [&](const auto& n) { return n.name == entry.name; }))
            fail(ErrorCode::invalid_argument, "it has '", entry.name, "', which this session has not");
        s.kept = std::move(kept), s.fixed = std::move(fixed), s.steps = steps;
        s.scale = scale, s.since_overflow = since_overflow, s.is_damaged = false;
        s.sums.clear(), s.pending = 0;
        s.bind_fixed();
        Notes notes;
        for (const auto& [key, value] : file.metadata())
          if (key.starts_with(kNote)) notes[key.substr(kNote.size())] = value;
        return notes;
      });
}

}  // namespace rlx
