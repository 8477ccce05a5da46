// JSON texts from files as a tree. nlohmann::json reads them, event by event; its own tree is not used, because its
// destructor allocates memory, and ends the process if there is none. Destroying this one allocates nothing.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace rlx {

class JsonTree {
 public:
  /// `skipped`: an object or array of which nothing was kept.
  enum class Kind : uint8_t { null, truth, integer, natural, real, string, array, object, skipped };

  JsonTree() = default;  // null

  bool is_null() const { return kind_ == Kind::null; }
  bool is_boolean() const { return kind_ == Kind::truth; }
  /// A number written without point and exponent; `is_natural` if it is not negative, too.
  bool is_integer() const { return kind_ == Kind::integer || kind_ == Kind::natural; }
  bool is_natural() const { return kind_ == Kind::natural; }
  bool is_number() const { return is_integer() || kind_ == Kind::real; }
  bool is_string() const { return kind_ == Kind::string; }
  bool is_array() const { return kind_ == Kind::array; }
  bool is_object() const { return kind_ == Kind::object; }

  // Each fails, as a parse error, for a value of another kind.
  bool boolean() const;
  /// Fails beyond 64 bits with a sign.
  int64_t integer() const;
  uint64_t natural() const;
  double number() const;
  const std::string& string() const;

  /// Of an array, or of an object in order of the names.
  const std::vector<JsonTree>& elements() const { return elements_; }
  /// As a member of an object: its name.
  const std::string& name() const { return name_; }
  /// A member; null if there is none, or if this is no object. Of two with one name the last counts.
  const JsonTree* find(std::string_view name) const;
  /// The same; fails if there is none.
  const JsonTree& at(std::string_view name) const;

  /// What it is, for messages: JSON of some 60 bytes at most, "an object of 3 members" ...
  std::string shown() const;

 private:
  friend class JsonReader;
  void expect(bool is_so, const char* wanted) const;

  Kind kind_ = Kind::null;
  union {
    bool boolean_;
    int64_t integer_;
    uint64_t natural_ = 0;
    double real_;
  };
  std::string name_, string_;
  std::vector<JsonTree> elements_;
};

/// Fails for what is no JSON, and for values that nest more than 200 deep.
JsonTree parse_json(std::string_view text);
/// Null for these.
JsonTree json_or_null(std::string_view text);

/// As `parse_json`, but the members of the object at `outer`.`inner` are given to `visit` one by one and not kept: a
/// vocabulary of 30,000 tokens as a tree would be most of the time that loading takes. A member that is an object or
/// array itself is given as `skipped`.
using VisitMember = std::function<void(const std::string& name, const JsonTree& value)>;
JsonTree parse_json(std::string_view text, std::string_view outer, std::string_view inner, const VisitMember& visit);

}  // namespace rlx
