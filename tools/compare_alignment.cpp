// See the header.
#include "tools/compare_alignment.h"

#include <algorithm>
#include <cctype>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>

namespace rlx::tools {
namespace {

constexpr size_t kWindow = 400;  // nodes on each side among which the order is searched for where both go on alike
constexpr double kAlike = 0.3;   // values that only their likeness tells apart are no further from one another

bool is_commutative(std::string_view op) {
  for (std::string_view each :
       {"add", "mul", "maximum", "minimum", "equal", "not_equal", "logical_and", "logical_or", "logical_xor"})
    if (op == each) return true;
  return false;
}

/// One package, with what is asked of it again and again.
struct Side {
  const ProgramStructure& s;
  std::vector<std::optional<size_t>> other;                               // of each value: its partner
  std::vector<std::vector<std::pair<size_t, std::string>>> readers = {};  // of each value: node and argument
  std::vector<std::vector<uint64_t>> around = {};                         // by depth, of each value: what reads it

  explicit Side(const ProgramStructure& structure) : s(structure), other(structure.values.size()) {
    readers.resize(s.values.size());
    for (size_t n = 0; n < s.nodes.size(); ++n) {
      const bool any_order = is_commutative(s.nodes[n].op);
      for (const auto& operand : s.nodes[n].operands)
        readers[operand.value].emplace_back(n, any_order ? "" : operand.argument);
    }
  }

  const ProgramStructure::Node& node_of(size_t value) const { return s.nodes[s.values[value].node]; }
  bool is_free(size_t n) const {
    const auto& node = s.nodes[n];
    for (size_t r = 0; r < node.results; ++r)
      if (other[node.first + r]) return false;
    return node.results > 0;
  }
  std::string shapes(size_t n) const {
    std::string all;
    for (size_t r = 0; r < s.nodes[n].results; ++r) all += s.values[s.nodes[n].first + r].shape;
    return all;
  }

  /// What reads a value, and what reads that, so many steps far: equal where that is the same in both packages.
  uint64_t reading(size_t value, size_t depth) {
    while (around.size() <= depth) {
      std::vector<uint64_t> next(s.values.size());
      for (size_t v = 0; v < next.size(); ++v) {
        std::vector<uint64_t> all;
        for (const auto& [n, argument] : readers[v]) {
          const auto& node = s.nodes[n];
          uint64_t h = std::hash<std::string>{}(node.op + " " + argument + " " + shapes(n));
          for (size_t r = 0; r < node.results && !around.empty(); ++r)
            h = h * 1099511628211ull + around.back()[node.first + r];
          all.push_back(h);
        }
        for (const auto& output : s.outputs)
          if (output.value == v) all.push_back(1);
        std::sort(all.begin(), all.end());
        uint64_t whole = 1469598103934665603ull;
        for (uint64_t h : all) whole = (whole ^ h) * 1099511628211ull;
        next[v] = whole;
      }
      around.push_back(std::move(next));
    }
    return around[depth][value];
  }
};

class Aligner {
 public:
  Aligner(const ProgramStructure& a, const ProgramStructure& b, const Likeness& distance)
      : a_(a), b_(b), distance_(distance) {}

  Alignment run() {
    align_inputs();
    align_forwards();
    align_names();
    align_outputs();
    bool aligned_more;
    do {
      do {
        const bool forwards = align_forwards();
        aligned_more = align_backwards() || forwards;  // both take their turn
      } while (aligned_more);
    } while (go_on_behind_a_difference());
    return {a_.other, b_.other};
  }

 private:
  using Node = ProgramStructure::Node;
  const Node& node_a(size_t n) const { return a_.s.nodes[n]; }
  const Node& node_b(size_t n) const { return b_.s.nodes[n]; }

  void match_values(size_t a, size_t b) { a_.other[a] = b, b_.other[b] = a; }
  void match(size_t na, size_t nb) {
    for (size_t r = 0; r < node_a(na).results; ++r) match_values(node_a(na).first + r, node_b(nb).first + r);
  }

  /// Operation, number and shapes of results, and arguments that both spell: equal, or alike.
  bool are_like(size_t na, size_t nb) const {
    const Node &x = node_a(na), &y = node_b(nb);
    if (x.op != y.op || x.op == "input" || x.results != y.results || x.has_blocks != y.has_blocks) return false;
    if (a_.shapes(na) != b_.shapes(nb)) return false;
    for (const auto& [argument, literal] : x.literals)
      if (auto found = y.literals.find(argument); found != y.literals.end() && !literal.is_like(found->second))
        return false;
    return true;
  }
  static std::string spelled(const Node& node) {
    std::string all;
    for (const auto& [argument, literal] : node.literals) all += argument + "=" + literal.text + ";";
    return all;
  }

  /// The operands of both, by their arguments; of commutative operations in the order that contradicts nothing. Nothing
  /// if there is none.
  std::optional<std::vector<std::pair<size_t, size_t>>> operand_pairs(size_t na, size_t nb) const {
    const auto &x = node_a(na).operands, &y = node_b(nb).operands;
    if (x.size() != y.size()) return std::nullopt;
    std::vector<std::pair<size_t, size_t>> pairs;
    for (size_t i = 0; i < x.size(); ++i) {
      if (x[i].argument != y[i].argument && !is_commutative(node_a(na).op)) return std::nullopt;
      pairs.emplace_back(x[i].value, y[i].value);
    }
    const auto contradicts = [&](const std::pair<size_t, size_t>& p) {
      return (a_.other[p.first] && *a_.other[p.first] != p.second) ||
             (b_.other[p.second] && *b_.other[p.second] != p.first);
    };
    if (std::none_of(pairs.begin(), pairs.end(), contradicts)) {
      // In either order, if nothing is aligned yet: then the shapes of what makes them decide, or nobody.
      return pairs;
    }
    if (!is_commutative(node_a(na).op) || pairs.size() != 2) return std::nullopt;
    std::swap(pairs[0].second, pairs[1].second);
    if (std::none_of(pairs.begin(), pairs.end(), contradicts)) return pairs;
    return std::nullopt;
  }
  bool is_aligned(const std::pair<size_t, size_t>& p) const { return a_.other[p.first] == p.second; }

  // ---- what both packages say of themselves ----

  void align_inputs() {
    for (size_t n = 0; n < a_.s.nodes.size(); ++n)
      for (size_t m = 0; m < b_.s.nodes.size(); ++m)
        if (node_a(n).op == "input" && node_b(m).op == "input" && b_.is_free(m) && a_.is_free(n) &&
            node_a(n).literals.at("name").text == node_b(m).literals.at("name").text)
          match(n, m);
    // Those of other names in their order, where it is the only one left of its shape or each has its like.
    std::vector<size_t> left, right;
    for (size_t n = 0; n < a_.s.nodes.size(); ++n)
      if (node_a(n).op == "input" && a_.is_free(n)) left.push_back(n);
    for (size_t n = 0; n < b_.s.nodes.size(); ++n)
      if (node_b(n).op == "input" && b_.is_free(n)) right.push_back(n);
    if (left.size() != right.size()) return;
    for (size_t i = 0; i < left.size(); ++i)
      if (a_.shapes(left[i]) == b_.shapes(right[i])) match(left[i], right[i]);
  }

  void align_outputs() {
    const auto pair_up = [&](size_t a, size_t b) {
      if (a_.other[a] || b_.other[b] || a_.s.values[a].shape != b_.s.values[b].shape) return;
      const size_t na = a_.s.values[a].node, nb = b_.s.values[b].node;
      const bool same_result = a - node_a(na).first == b - node_b(nb).first;
      if (same_result && a_.is_free(na) && b_.is_free(nb) && are_like(na, nb) && operand_pairs(na, nb)) match(na, nb);
      else match_values(a, b);
    };
    for (const auto& x : a_.s.outputs)
      for (const auto& y : b_.s.outputs)
        if (x.name == y.name) pair_up(x.value, y.value);
    if (a_.s.outputs.size() != b_.s.outputs.size()) return;
    for (size_t i = 0; i < a_.s.outputs.size(); ++i) pair_up(a_.s.outputs[i].value, b_.s.outputs[i].value);
  }

  bool align_names() {
    std::unordered_map<std::string, std::vector<size_t>> left, right;
    for (size_t n = 0; n < a_.s.nodes.size(); ++n)
      if (a_.is_free(n)) left[given_name(a_.s.values[node_a(n).first].name, node_a(n).op)].push_back(n);
    for (size_t n = 0; n < b_.s.nodes.size(); ++n)
      if (b_.is_free(n)) right[given_name(b_.s.values[node_b(n).first].name, node_b(n).op)].push_back(n);
    bool any = false;
    for (const auto& [name, nodes] : left) {
      const auto found = right.find(name);
      if (name.empty() || found == right.end() || nodes.size() != 1 || found->second.size() != 1) continue;
      const size_t na = nodes[0], nb = found->second[0];
      if (are_like(na, nb) && operand_pairs(na, nb)) match(na, nb), any = true;
    }
    return any;
  }

  // ---- from the inputs on ----

  /// Operation, results and aligned operands, as the first package numbers them; nothing if one is not aligned.
  static std::string key_of(const Side& side, size_t n, bool translated) {
    const Node& node = side.s.nodes[n];
    if (node.op == "input" || !side.is_free(n)) return "";
    std::vector<std::string> operands;
    const bool any_order = is_commutative(node.op);
    for (const auto& operand : node.operands) {
      if (!side.other[operand.value]) return "";
      const size_t number = translated ? *side.other[operand.value] : operand.value;
      operands.push_back((any_order ? "" : operand.argument) + ":" + std::to_string(number));
    }
    if (any_order) std::sort(operands.begin(), operands.end());
    std::string key = node.op + side.shapes(n);
    for (const std::string& each : operands) key += "," + each;
    return key;
  }

  bool align_forwards() {
    bool any = false;
    for (bool again = true; again;) {
      again = false;
      std::unordered_map<std::string, std::pair<std::vector<size_t>, std::vector<size_t>>> groups;
      std::vector<std::string> order;
      for (size_t n = 0; n < a_.s.nodes.size(); ++n)
        if (std::string key = key_of(a_, n, false); !key.empty()) {
          auto& group = groups[key];
          if (group.first.empty()) order.push_back(key);
          group.first.push_back(n);
        }
      for (size_t n = 0; n < b_.s.nodes.size(); ++n)
        if (std::string key = key_of(b_, n, true); !key.empty())
          if (auto found = groups.find(key); found != groups.end()) found->second.second.push_back(n);
      for (const std::string& key : order) {
        auto& [left, right] = groups.at(key);
        if (!right.empty() && tell_apart(left, right)) again = any = true;
      }
    }
    return any;
  }

  /// Matches nodes that read the same. True if any was.
  bool tell_apart(const std::vector<size_t>& left, const std::vector<size_t>& right) {
    bool any = false;
    // Those that spell the same constants first, then those whose constants only do not contradict.
    std::map<std::string, std::pair<std::vector<size_t>, std::vector<size_t>>> spelt;
    for (size_t n : left) spelt[spelled(node_a(n))].first.push_back(n);
    for (size_t n : right) spelt[spelled(node_b(n))].second.push_back(n);
    for (auto& [text, both] : spelt) any |= tell_equal_apart(both.first, both.second);
    std::vector<size_t> rest_a, rest_b;
    for (size_t n : left)
      if (a_.is_free(n)) rest_a.push_back(n);
    for (size_t n : right)
      if (b_.is_free(n)) rest_b.push_back(n);
    for (size_t na : rest_a) {
      std::vector<size_t> fits;
      for (size_t nb : rest_b)
        if (b_.is_free(nb) && are_like(na, nb)) fits.push_back(nb);
      if (fits.size() != 1) continue;
      const auto others = std::count_if(rest_a.begin(), rest_a.end(), [&](size_t n) { return are_like(n, fits[0]); });
      if (others == 1) match(na, fits[0]), any = true;
    }
    return any;
  }

  /// Of nodes that are equal to the structure: by names, by what reads them, by their results.
  bool tell_equal_apart(std::vector<size_t> left, std::vector<size_t> right) {
    bool any = false;
    const auto drop_matched = [&] {
      std::erase_if(left, [&](size_t n) { return !a_.is_free(n); });
      std::erase_if(right, [&](size_t n) { return !b_.is_free(n); });
    };
    const auto match_unique = [&](auto key_a, auto key_b) {
      std::unordered_map<std::string, std::pair<std::vector<size_t>, std::vector<size_t>>> by_key;
      for (size_t n : left) by_key[key_a(n)].first.push_back(n);
      for (size_t n : right) by_key[key_b(n)].second.push_back(n);
      for (const auto& [key, both] : by_key)
        if (!key.empty() && both.first.size() == 1 && both.second.size() == 1 &&
            are_like(both.first[0], both.second[0]))
          match(both.first[0], both.second[0]), any = true;
      drop_matched();
    };
    if (left.size() == 1 && right.size() == 1) {
      if (are_like(left[0], right[0])) match(left[0], right[0]), any = true;
      return any;
    }
    match_unique([&](size_t n) { return given_name(a_.s.values[node_a(n).first].name, node_a(n).op); },
                 [&](size_t n) { return given_name(b_.s.values[node_b(n).first].name, node_b(n).op); });
    for (size_t depth : {0, 1, 3, 7})
      match_unique([&](size_t n) { return std::to_string(a_.reading(node_a(n).first, depth)); },
                   [&](size_t n) { return std::to_string(b_.reading(node_b(n).first, depth)); });
    // Each the other's nearest.
    const auto far = [&](size_t na, size_t nb) {
      const auto found = distance_(node_a(na).first, node_b(nb).first);
      return are_like(na, nb) && found ? *found : 1e300;
    };
    for (bool again = true; again;) {
      again = false;
      for (size_t na : std::vector<size_t>(left)) {
        const auto nearest_b = [&](size_t n) {
          return std::min_element(right.begin(), right.end(),
                                  [&](size_t x, size_t y) { return far(n, x) < far(n, y); });
        };
        const auto nb = nearest_b(na);
        if (nb == right.end() || !a_.is_free(na)) continue;
        const double best = far(na, *nb);
        if (!(best <= kAlike)) continue;
        if (std::any_of(left.begin(), left.end(), [&](size_t n) { return far(n, *nb) < best; })) continue;
        match(na, *nb), any = again = true;
        drop_matched();
      }
    }
    return any;
  }

  // ---- from what is aligned back ----

  bool align_backwards() {
    bool any = false;
    for (size_t n = a_.s.nodes.size(); n-- > 0;) {
      const Node& node = node_a(n);
      if (node.results == 0 || node.op == "input" || !a_.other[node.first]) continue;
      const size_t partner = b_.s.values[*a_.other[node.first]].node;
      // A value that another operation makes says nothing of what that reads.
      if (!are_like(n, partner) || *a_.other[node.first] != node_b(partner).first) continue;
      const auto pairs = operand_pairs(n, partner);
      if (!pairs) continue;
      for (const auto& pair : *pairs) {
        const auto& [a, b] = pair;
        if (a_.other[a] || b_.other[b] || a_.s.values[a].shape != b_.s.values[b].shape) continue;
        const size_t na = a_.s.values[a].node, nb = b_.s.values[b].node;
        const bool others =
            std::all_of(pairs->begin(), pairs->end(), [&](const auto& p) { return &p == &pair || is_aligned(p); });
        // In a commutative operation whose operands are both unknown, either could be the other.
        if (!others && is_commutative(node.op)) continue;
        const bool same_result = a - node_a(na).first == b - node_b(nb).first;
        if (same_result && a_.is_free(na) && b_.is_free(nb) && are_like(na, nb) && operand_pairs(na, nb))
          match(na, nb), any = true;
        else if (others) match_values(a, b), any = true;
      }
    }
    return any;
  }

  // ---- behind what only one of them has ----

  /// Aligns one operation whose operands are not all aligned, where the order of what is left says so. False if there
  /// is none.
  bool go_on_behind_a_difference() {
    std::vector<size_t> left, right;
    for (size_t n = 0; n < a_.s.nodes.size() && left.size() < kWindow; ++n)
      if (a_.is_free(n) && node_a(n).op != "input") left.push_back(n);
    for (size_t n = 0; n < b_.s.nodes.size() && right.size() < kWindow; ++n)
      if (b_.is_free(n) && node_b(n).op != "input") right.push_back(n);
    if (left.empty() || right.empty()) return false;
    // What an operation is, as a number: what two have in common is asked for each pair.
    std::unordered_map<std::string, uint32_t> numbers;
    const auto number_of = [&](const Side& side, size_t n) {
      return numbers.emplace(side.s.nodes[n].op + side.shapes(n), static_cast<uint32_t>(numbers.size())).first->second;
    };
    std::vector<uint32_t> kind_a, kind_b;
    for (size_t n : left) kind_a.push_back(number_of(a_, n));
    for (size_t n : right) kind_b.push_back(number_of(b_, n));
    // The weight of a pair; 0 if it is none. An operand that is aligned is evidence, order alone is little.
    const auto weight = [&](size_t i, size_t j) -> uint32_t {
      if (kind_a[i] != kind_b[j] || !are_like(left[i], right[j])) return 0;
      const auto pairs = operand_pairs(left[i], right[j]);
      if (!pairs) return 0;
      const auto known = std::count_if(pairs->begin(), pairs->end(), [&](const auto& p) { return is_aligned(p); });
      return 1 + 8 * static_cast<uint32_t>(known);
    };
    const size_t rows = left.size() + 1, columns = right.size() + 1;
    std::vector<uint32_t> best(rows * columns), weights(rows * columns);
    for (size_t i = left.size(); i-- > 0;)
      for (size_t j = right.size(); j-- > 0;) {
        const uint32_t w = weights[i * columns + j] = weight(i, j);
        uint32_t most = std::max(best[(i + 1) * columns + j], best[i * columns + j + 1]);
        if (w > 0) most = std::max(most, w + best[(i + 1) * columns + j + 1]);
        best[i * columns + j] = most;
      }
    std::vector<std::tuple<size_t, size_t, uint32_t>> path;
    for (size_t i = 0, j = 0; i < left.size() && j < right.size();) {
      const uint32_t here = best[i * columns + j], w = weights[i * columns + j];
      if (w > 0 && here == w + best[(i + 1) * columns + j + 1]) path.emplace_back(i++, j++, w);
      else if (here == best[(i + 1) * columns + j]) ++i;
      else ++j;
    }
    const auto times = [](const std::vector<uint32_t>& kinds, uint32_t kind) {
      return std::count(kinds.begin(), kinds.end(), kind);
    };
    for (const auto& [i, j, w] : path)
      if (w > 1) return match(left[i], right[j]), true;
    // Without evidence: only what there is as often on both sides, so that none is missing before it.
    for (const auto& [i, j, w] : path)
      if (times(kind_a, kind_a[i]) == times(kind_b, kind_b[j]) && left.size() < kWindow && right.size() < kWindow)
        return match(left[i], right[j]), true;
    return false;
  }

  Side a_, b_;
  const Likeness& distance_;
};

}  // namespace

std::string given_name(const std::string& name, const std::string& op) {
  std::string text = name;
  for (std::string_view added :
       {"_to_fp16", "_to_fp32", "_cast_fp16", "_cast_fp32", "_cast_uint16", "_cast_int16", "_quantized"})
    while (text.size() > added.size() && text.ends_with(added)) text.erase(text.rfind(added));
  std::string stem = text;
  const auto drop_number = [&] {
    size_t end = stem.size();
    while (end > 0 && std::isdigit(static_cast<unsigned char>(stem[end - 1]))) --end;
    if (end == stem.size()) return false;
    stem.resize(end > 0 && stem[end - 1] == '_' ? end - 1 : end);
    return true;
  };
  while (drop_number()) {
  }
  for (std::string_view common :
       {"", "_", "var", "op", "x", "y", "input", "output", "value", "tensor", "const", "c", "t"})
    if (stem == common) return "";
  return stem == op ? "" : text;
}

Alignment align(const ProgramStructure& a, const ProgramStructure& b, const Likeness& distance) {
  return Aligner(a, b, distance).run();
}

}  // namespace rlx::tools
