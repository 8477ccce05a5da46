// Attributes of ops that are registered through the C ABI: names, kinds and defaults are known at run time only.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "rlx/op_def.h"

namespace rlx {

using CustomValue = std::variant<bool, int64_t, double, std::string, std::vector<int64_t>, std::vector<double>>;
constexpr std::array<std::string_view, 6> kCustomKinds = {"bool",   "int",         "float",
                                                          "string", "list of int", "list of float"};

struct CustomAttribute {
  std::string name;
  CustomValue value;
  bool operator==(const CustomAttribute&) const = default;
};

/// Those that were given another value than their default, in the order in which the op declares them.
struct CustomAttrs {
  std::vector<CustomAttribute> given = {};
  static constexpr auto fields(auto use) { return use(field("given", &CustomAttrs::given)); }
  bool operator==(const CustomAttrs&) const = default;
};
// What the fields' table would derive, had these a table.
void print(std::ostream& out, const CustomAttrs& attrs);
size_t hash_of(const CustomAttrs& attrs);
inline void map(CustomAttrs&, const AttrMapper&) {}  // neither dims nor sub-graphs are among the kinds

/// The attributes that an op has, with their defaults.
class CustomDeclaration {
 public:
  CustomDeclaration() = default;
  /// "limit: float = 1, axes: list of int = [], name: string = \"\"". Fails for another form, an unknown kind, and a
  /// name twice.
  explicit CustomDeclaration(const std::string& text);

  /// Reads {name = value, ...}.
  CustomAttrs read(Scanner& in) const;
  /// Whether these names, with values of these kinds, are declared here.
  bool has(const CustomAttrs& attrs) const;
  std::vector<AttrInfo> describe() const;
  /// Every attribute by its name as a JSON object. Floats that are no JSON numbers are "inf", "-inf" and "nan".
  std::string json(const CustomAttrs& attrs) const;

 private:
  std::vector<CustomAttribute> defaults_;
};

}  // namespace rlx
