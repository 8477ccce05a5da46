// See the header.
#include "io/json_tree.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "rlx/error.h"

namespace rlx {

/// What nlohmann's parser tells of a text, put together.
class JsonReader {
 public:
  JsonReader() = default;
  JsonReader(std::string_view outer, std::string_view inner, const VisitMember& visit)
      : outer_(outer), inner_(inner), visit_(&visit) {}
  JsonTree take() { return std::move(root_); }

  bool null() { return add({}); }
  bool boolean(bool value) {
    JsonTree v = of(JsonTree::Kind::truth);
    v.boolean_ = value;
    return add(std::move(v));
  }
  bool number_integer(int64_t value) {
    JsonTree v = of(JsonTree::Kind::integer);
    v.integer_ = value;
    return add(std::move(v));
  }
  bool number_unsigned(uint64_t value) {
    JsonTree v = of(JsonTree::Kind::natural);
    v.natural_ = value;
    return add(std::move(v));
  }
  bool number_float(double value, const std::string&) {
    JsonTree v = of(JsonTree::Kind::real);
    v.real_ = value;
    return add(std::move(v));
  }
  bool string(std::string& value) {
    JsonTree v = of(JsonTree::Kind::string);
    v.string_ = std::move(value);
    return add(std::move(v));
  }
  bool binary(nlohmann::json::binary_t&) { return add({}); }  // JSON has none
  bool key(std::string& name) {
    name_ = std::move(name);
    return true;
  }
  bool start_object(size_t) { return begin(JsonTree::Kind::object); }
  bool start_array(size_t) { return begin(JsonTree::Kind::array); }
  bool end_object() { return end(); }
  bool end_array() { return end(); }
  bool parse_error(size_t, const std::string&, const nlohmann::json::exception& error) {
    std::string_view what = error.what();  // begins with a number in brackets of its own
    if (const size_t bracket = what.find("] "); what.starts_with('[') && bracket != what.npos)
      what.remove_prefix(bracket + 2);
    fail(ErrorCode::parse, "this is no JSON: ", what.substr(0, 300));
  }

 private:
  static JsonTree of(JsonTree::Kind kind) {
    JsonTree v;
    v.kind_ = kind;
    return v;
  }
  bool add(JsonTree value) {
    if (skipped_ > 0) return true;
    if (is_visited()) {
      (*visit_)(name_, value);
      return true;
    }
    place(std::move(value));
    return true;
  }
  bool begin(JsonTree::Kind kind) {
    constexpr size_t kDeepest = 200;  // whoever walks the tree, its destructor too, recurses
    if (open_.size() + skipped_ == kDeepest)
      fail(ErrorCode::parse, "values in JSON are read up to ", kDeepest, " deep, and these nest deeper");
    if (skipped_ > 0 || is_visited()) {
      if (skipped_++ == 0) (*visit_)(name_, of(JsonTree::Kind::skipped));
      return true;
    }
    const bool is_inner = visit_ && kind == JsonTree::Kind::object && open_.size() == 2 && open_[0]->is_object() &&
                          open_[1]->is_object() && open_[1]->name_ == outer_ && name_ == inner_;
    open_.push_back(&place(of(kind)));
    if (is_inner) inner_depth_ = open_.size();
    return true;
  }
  bool end() {
    if (skipped_ > 0) {
      --skipped_;
      return true;
    }
    if (open_.size() == inner_depth_) inner_depth_ = 0;
    JsonTree& done = *open_.back();
    open_.pop_back();
    if (!done.is_object()) return true;
    std::vector<JsonTree>& all = done.elements_;
    std::stable_sort(all.begin(), all.end(), [](const JsonTree& a, const JsonTree& b) { return a.name_ < b.name_; });
    // From the end on: of several with one name the last stays.
    const auto kept =
        std::unique(all.rbegin(), all.rend(), [](const JsonTree& a, const JsonTree& b) { return a.name_ == b.name_; });
    all.erase(all.begin(), kept.base());
    return true;
  }
  /// Whether values here are members of the object whose members are visited.
  bool is_visited() const { return inner_depth_ > 0 && open_.size() == inner_depth_; }
  JsonTree& place(JsonTree value) {
    if (open_.empty()) return root_ = std::move(value);
    JsonTree& parent = *open_.back();
    if (parent.is_object()) value.name_ = std::move(name_);
    return parent.elements_.emplace_back(std::move(value));
  }

  JsonTree root_;
  std::vector<JsonTree*> open_;  // nothing is added to one of them but to the last, so they stay where they are
  std::string name_;
  std::string_view outer_, inner_;
  const VisitMember* visit_ = nullptr;
  size_t inner_depth_ = 0, skipped_ = 0;
};

namespace {

JsonTree parsed(std::string_view text, JsonReader reader) {
  nlohmann::json::sax_parse(text.begin(), text.end(), &reader);
  return reader.take();
}

}  // namespace

JsonTree parse_json(std::string_view text) { return parsed(text, {}); }
JsonTree json_or_null(std::string_view text) {
  try {
    return parse_json(text);
  } catch (const Error&) {
    return {};
  }
}
JsonTree parse_json(std::string_view text, std::string_view outer, std::string_view inner, const VisitMember& visit) {
  return parsed(text, {outer, inner, visit});
}

void JsonTree::expect(bool is_so, const char* wanted) const {
  if (!is_so)
    fail(ErrorCode::parse, name_.empty() ? "" : "'" + name_ + "': ", "expected ", wanted, ", but it is ", shown());
}
bool JsonTree::boolean() const {
  expect(is_boolean(), "true or false");
  return boolean_;
}
int64_t JsonTree::integer() const {
  expect(is_integer() && (kind_ == Kind::integer || natural_ <= uint64_t{std::numeric_limits<int64_t>::max()}),
         "an integer of 64 bits with a sign");
  return kind_ == Kind::integer ? integer_ : static_cast<int64_t>(natural_);
}
uint64_t JsonTree::natural() const {
  expect(is_natural(), "a count");
  return natural_;
}
double JsonTree::number() const {
  expect(is_number(), "a number");
  return kind_ == Kind::real      ? real_
         : kind_ == Kind::integer ? static_cast<double>(integer_)
                                  : static_cast<double>(natural_);
}
const std::string& JsonTree::string() const {
  expect(is_string(), "a string");
  return string_;
}

const JsonTree* JsonTree::find(std::string_view name) const {
  if (!is_object()) return nullptr;
  const auto at = std::lower_bound(elements_.begin(), elements_.end(), name,
                                   [](const JsonTree& v, std::string_view wanted) { return v.name_ < wanted; });
  return at != elements_.end() && at->name_ == name ? &*at : nullptr;
}
const JsonTree& JsonTree::at(std::string_view name) const {
  const JsonTree* found = find(name);
  if (!found) fail(ErrorCode::parse, "'", name, "' is missing");
  return *found;
}

std::string JsonTree::shown() const {
  constexpr size_t kShownBytes = 60;
  std::string text;
  switch (kind_) {
    case Kind::null: return "null";
    case Kind::truth: return boolean_ ? "true" : "false";
    case Kind::integer: return std::to_string(integer_);
    case Kind::natural: return std::to_string(natural_);
    case Kind::skipped: return "an object or an array";
    case Kind::object: return text_of("an object of ", elements_.size(), " members");
    case Kind::array: return text_of("an array of ", elements_.size(), " elements");
    case Kind::real: text = nlohmann::json(real_).dump(); break;
    case Kind::string: text = nlohmann::json(string_).dump(); break;
  }
  return text.size() <= kShownBytes ? text : text.substr(0, kShownBytes) + "...";
}

}  // namespace rlx
