// Varying the samples of ops; see the header.
#include "attack/op_uses.h"

#include <algorithm>
#include <sstream>

#include "ir/rewrite.h"
#include "support/laws.h"

namespace rlx::attack {
namespace {

constexpr int64_t kMostElements = 1 << 14;

std::string text_of_attrs(const Attrs& attrs) {
  if (attrs.empty()) return "";
  std::ostringstream out;
  print(out, attrs);
  return out.str();
}
bool set_attrs(OpUse& use, const std::string& text) {
  try {
    Scanner in(text);
    use.attrs = use.op->parse_attrs(in);
    return in.at_end();
  } catch (const Error& e) {
    if (is_our_mistake(e))
      throw Broken(text_of("reading the attributes ", text, " of '", use.op->name, "': ", e.what()));
    return false;
  }
}

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }
/// `text` with another word in place of each `word`.
std::string with_word(const std::string& text, std::string_view word, std::string_view other) {
  std::string out;
  for (size_t i = 0; i < text.size();) {
    const bool here = text.compare(i, word.size(), word) == 0 && (i == 0 || !is_word(text[i - 1])) &&
                      (i + word.size() == text.size() || !is_word(text[i + word.size()]));
    if (here) out += other, i += word.size();
    else out += text[i++];
  }
  return out;
}

/// The dtype in place of another one, in operands and, where the op then takes it, in attributes and sub-graphs.
bool change_dtype(OpUse& use, DType from, DType to) {
  OpUse changed = use;
  for (Type& t : changed.types)
    if (t.dtype == from) t.dtype = to;
  if (is_integer(to)) changed.lo = std::min(use.lo, -3.0), changed.hi = std::max(use.hi, 9.0);
  if (kind_of(to) == Kind::unsigned_int || use.op->name == "pow") changed.lo = 0;
  const std::string text = text_of_attrs(use.attrs), renamed = with_word(text, name_of(from), name_of(to));
  if ((renamed != text && set_attrs(changed, renamed) && is_accepted(changed)) ||
      (changed.attrs = use.attrs, is_accepted(changed))) {
    use = std::move(changed);
    return true;
  }
  return false;
}

void vary_dtype(OpUse& use, Random& random) {
  constexpr DType kOthers[] = {i8, i16, i32, i64, u8, u16, u32, u64, boolean, c64, c128};
  const auto drawn = [&] { return random.chance(4) ? random.of(kOthers) : drawn_float(random); };
  const bool generic = std::any_of(use.types.begin(), use.types.end(), [](const Type& t) { return t.dtype == f64; });
  if (generic) {
    for (int tries = 0; tries < 6; ++tries) {
      const DType to = drawn();
      if (to == f64 || change_dtype(use, f64, to)) return;
    }
  } else if (!use.types.empty() && random.chance(3)) {
    const DType from = random.of(use.types).dtype;
    const DType to = is_block(from) ? DType(random.below(kDTypeCount)) : drawn();
    if (is_block(from) == is_block(to)) change_dtype(use, from, to);
  }
}

struct Place {
  size_t operand, dim;
};
void vary_extent(OpUse& use, Random& random) {
  std::vector<Place> places;
  for (size_t i = 0; i < use.types.size(); ++i)
    for (size_t d = 0; d < use.types[i].rank(); ++d) places.push_back({i, d});
  if (places.empty()) return;
  const Place first = random.of(places);
  const Dim old = use.types[first.operand].dims[first.dim];
  int64_t extent = drawn_extent(random);
  if (is_block(use.types[first.operand].dtype) && first.dim + 1 == use.types[first.operand].rank())
    extent = info(use.types[first.operand].dtype).block_elements * static_cast<int64_t>(1 + random.below(3));
  const auto mapped = [&](const Dim& d) { return d == old ? Dim(extent) : d; };
  std::vector<OpUse> forms;
  for (bool everywhere : {true, false})
    for (bool in_attributes : {true, false}) {
      OpUse changed = use;
      for (Place p : places)
        if (everywhere ? use.types[p.operand].dims[p.dim] == old : p.operand == first.operand && p.dim == first.dim)
          changed.types[p.operand].dims[p.dim] = extent;
      try {
        if (in_attributes) changed.attrs = with_extents(use.attrs, mapped);
      } catch (const Error& e) {
        if (is_our_mistake(e)) throw Broken(text_of("other extents in a body of '", use.op->name, "': ", e.what()));
        continue;  // a constant of the sub-graph has that extent too
      }
      forms.push_back(std::move(changed));
    }
  if (random.chance(3)) std::reverse(forms.begin(), forms.end());
  for (OpUse& form : forms)
    if (is_accepted(form)) {
      use = std::move(form);
      return;
    }
}

void vary_rank(OpUse& use, Random& random) {
  if (use.types.empty()) return;
  OpUse changed = use;
  if (use.op->elementwise && random.chance(2)) {
    const Dims dims = drawn_dims(random), old = use.types[0].dims;
    for (Type& t : changed.types)
      if (t.dims == old) t.dims = dims;
  } else {
    const Dim extent = drawn_extent(random);
    const bool all = random.chance(2), drop = random.chance(3);
    for (size_t i = 0; i < (all ? changed.types.size() : 1); ++i) {
      Dims& dims = changed.types[i].dims;
      if (!drop && dims.size() < 5) dims.insert(dims.begin(), extent);
      if (drop && !dims.empty()) dims.erase(dims.begin());
    }
  }
  if (is_accepted(changed)) use = std::move(changed);
}

/// "{axis = 1, dims = [2, 3]}" by name and value, in order.
std::vector<std::pair<std::string, std::string>> attributes_in(const std::string& text) {
  std::vector<std::pair<std::string, std::string>> all;
  size_t at = 1;
  while (at < text.size() && text[at] != '}') {
    const size_t equals = text.find(" = ", at);
    if (equals == std::string::npos) break;
    const std::string name = text.substr(at, equals - at);
    size_t end = equals + 3;
    bool quoted = false;
    for (int depth = 0; end < text.size(); ++end) {
      const char c = text[end];
      if (c == '"' && text[end - 1] != '\\') quoted = !quoted;
      if (quoted) continue;
      if (depth == 0 && (c == ',' || c == '}')) break;
      if (c == '[' || c == '{' || c == '(') ++depth;
      if (c == ']' || c == '}' || c == ')') --depth;
    }
    all.emplace_back(name, text.substr(equals + 3, end - equals - 3));
    at = text[end] == ',' ? end + 2 : end;
  }
  return all;
}

std::string drawn_integer(Random& random) {
  constexpr const char* kIntegers[] = {"-2", "-1", "0", "1", "2", "3", "4", "5", "7", "8", "16", "17", "32"};
  return random.of(kIntegers);
}
std::string drawn_number(Random& random) {
  constexpr const char* kNumbers[] = {"0", "1", "-1", "0.5", "2", "1e-05", "0.1", "-0.25", "0.9", "3.5", "1e-12"};
  return random.of(kNumbers);
}
/// A list with one number changed, dropped or added.
std::string varied_list(const std::string& list, bool whole, Random& random) {
  std::vector<std::string> items;
  std::string item;
  for (size_t i = 1; i + 1 < list.size(); ++i) {
    if (list[i] == ',') items.push_back(std::exchange(item, ""));
    else if (list[i] != ' ') item += list[i];
  }
  if (!item.empty()) items.push_back(item);
  const std::string fresh = whole ? drawn_integer(random) : drawn_number(random);
  switch (items.empty() ? 3 : random.below(5)) {
    case 0: items.pop_back(); break;
    case 3: items.insert(items.begin() + static_cast<std::ptrdiff_t>(random.below(items.size() + 1)), fresh); break;
    case 4:
      if (items.size() > 1) std::swap(items[random.below(items.size())], items[random.below(items.size())]);
      break;
    default: items[random.below(items.size())] = fresh;
  }
  std::string out = "[";
  for (size_t i = 0; i < items.size(); ++i) out += (i ? ", " : "") + items[i];
  return out + "]";
}
std::vector<std::string> words_of(const std::string& kind) {
  std::vector<std::string> words(1);
  for (char c : kind) {
    if (c == '|') words.emplace_back();
    else words.back() += c;
  }
  return words;
}
/// Another value of that kind; empty if there is nothing to draw.
std::string varied_value(std::string kind, const std::string& old, Random& random) {
  if (kind.ends_with(" or none")) {
    if (random.chance(4)) return "none";
    kind.resize(kind.size() - std::string_view(" or none").size());
  }
  if (kind == "bool") return old == "true" ? "false" : "true";
  if (kind == "int" || kind == "dim") return drawn_integer(random);
  if (kind == "float") return drawn_number(random);
  if (kind == "dtype") return std::string(name_of(DType(random.below(kDTypeCount))));
  if (kind == "list of int" || kind == "list of dim") return varied_list(old, true, random);
  if (kind == "list of float") return varied_list(old, false, random);
  if (kind.find('|') != std::string::npos && kind.find(' ') == std::string::npos) return random.of(words_of(kind));
  return "";
}

void vary_attribute(OpUse& use, Random& random) {
  const std::vector<AttrInfo> infos = use.op->describe_attrs();
  if (infos.empty()) return;
  const AttrInfo& chosen = random.of(infos);
  auto attributes = attributes_in(text_of_attrs(use.attrs));
  auto found =
      std::find_if(attributes.begin(), attributes.end(), [&](const auto& a) { return a.first == chosen.name; });
  if (found == attributes.end()) found = attributes.insert(found, {chosen.name, chosen.default_text});
  const std::string value = varied_value(chosen.kind, found->second, random);
  if (value.empty()) return;
  found->second = value;
  std::string text = "{";
  for (const auto& [name, each] : attributes) text += (text.size() > 1 ? ", " : "") + name + " = " + each;
  OpUse changed = use;
  if (set_attrs(changed, text + "}") && is_accepted(changed)) use = std::move(changed);
}

}  // namespace

bool is_our_mistake(const Error& e) {
  return e.code() == ErrorCode::internal || std::string_view(e.what()).find(" threw") != std::string_view::npos;
}

bool is_small(const std::vector<Type>& types) {
  int64_t all = 0;
  for (const Type& t : types) {
    int64_t elements = 1;
    for (const Dim& d : t.dims) {
      if (!d.is_static() || d.value() < 0 || d.value() > kMostElements) return false;
      elements *= std::max<int64_t>(d.value(), 1);
      if (elements > kMostElements) return false;
    }
    all += elements;
  }
  return all <= 2 * kMostElements;
}

bool is_accepted(const OpUse& use) {
  if (!is_small(use.types)) return false;
  for (const Type& t : use.types) {
    if (t.rank() > 5) return false;
    if (is_block(t.dtype) && (t.rank() == 0 || t.dims.back().value() % info(t.dtype).block_elements != 0)) return false;
  }
  try {
    return is_small(infer_types(*use.op, use.types, use.attrs));
  } catch (const Error& e) {
    if (!is_our_mistake(e)) return false;
    std::ostringstream out;
    print(out << "inferring the types of '" << use.op->name << "' for ", use.types);
    print(out << " ", use.attrs);
    throw Broken(out.str() + ": " + e.what());
  }
}

OpUse drawn_use(const OpDef& op, Random& random) {
  const std::vector<Sample> samples = op.samples();
  laws::Case c = laws::case_of(random.of(samples));
  OpUse use{&op, std::move(c.types), std::move(c.attrs), c.lo, c.hi};
  vary_dtype(use, random);
  if (random.chance(3)) vary_rank(use, random);
  for (size_t times = random.below(4); times > 0; --times) vary_extent(use, random);
  for (size_t times = random.below(3); times > 0; --times) vary_attribute(use, random);
  if (random.chance(3)) vary_extent(use, random);
  return use;
}

int64_t drawn_extent(Random& random) {
  constexpr int64_t kExtents[] = {0, 1, 1, 2, 2, 3, 3, 4, 5, 5, 7, 8, 9, 16, 17, 33, 64, 129};
  return random.of(kExtents);
}
Dims drawn_dims(Random& random) {
  Dims dims(random.below(6));
  for (Dim& d : dims) d = drawn_extent(random);
  while (element_count(dims).value() > (1 << 12)) dims[random.below(dims.size())] = 1 + random.below(3);
  return dims;
}
DType drawn_float(Random& random) {
  constexpr DType kFloats[] = {f32, f32, f32, f32, f64, f16, bf16};
  return random.of(kFloats);
}

Attrs with_extents(const Attrs& attrs, const std::function<Dim(const Dim&)>& mapped) {
  if (attrs.empty()) return attrs;
  return attrs.mapped({mapped, [&](const Subgraph& g) { return Subgraph(with_extents(*g, mapped)); }});
}
Graph with_extents(const Graph& g, const std::function<Dim(const Dim&)>& mapped) {
  return with_leaves(
      g,
      [&](Graph& to, const Node& leaf) {
        Type type = leaf.types[0];
        const bool is_input = leaf.op->name == "input";
        if (!is_input) return to.param(leaf.name, type);  // bound before any symbol has a number
        for (Dim& d : type.dims) d = mapped(d);
        return to.input(leaf.name, type);
      },
      [&](const Site& site) {
        std::vector<Value> operands(site.operands.begin(), site.operands.end());
        return std::optional(site.to.emit(*site.node.op, std::move(operands), with_extents(site.node.attrs, mapped)));
      });
}

}  // namespace rlx::attack
