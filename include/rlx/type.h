// A type is a dtype and dims. A dim is a polynomial with integer coefficients over named symbols; most are plain
// numbers. Two dims are equal if they are the same polynomial: nothing is assumed about a symbol but that it
// stands for one non-negative integer throughout a graph.
#pragma once

#include <map>

#include "rlx/dtype.h"
#include "rlx/fields.h"

namespace rlx {

using Shape = std::vector<int64_t>;  ///< extents that are all known
using Axes = std::vector<int64_t>;
using Bindings = std::map<std::string, int64_t>;  ///< numbers for symbols

class Dim {
 public:
  Dim(int64_t value = 0) : constant_(value) {}
  static Dim symbol(std::string name);

  bool is_static() const { return terms_.empty(); }
  /// The number; fails for a symbolic dim, naming it.
  int64_t value() const;
  /// With numbers for the symbols that `bindings` has.
  Dim bound(const Bindings&) const;
  /// Finds the symbol for which this dim has extent `actual`, or checks that it already has it. False if a
  /// product of unknown symbols leaves more than one answer: try again when another dim has bound one of them.
  bool solve(int64_t actual, Bindings&) const;
  /// Calls `f(name)` for each symbol; one that occurs twice is named twice.
  void for_each_symbol(const std::function<void(const std::string&)>& f) const;

  friend Dim operator+(Dim, const Dim&);
  friend Dim operator*(const Dim&, const Dim&);
  friend Dim operator-(const Dim& a, const Dim& b) { return a + b * -1; }
  /// Exact division by a number or a product of symbols; fails if a remainder would be left.
  friend Dim operator/(const Dim&, const Dim&);
  bool operator==(const Dim&) const = default;
  friend void print(std::ostream&, const Dim&);
  friend void parse(Scanner&, Dim&);
  friend size_t hash_of(const Dim&);

 private:
  struct Term {
    std::vector<std::string> symbols;  // sorted; a symbol twice is its square
    int64_t factor;
    bool operator==(const Term&) const = default;
  };
  void add(Term term);
  int64_t constant_;
  std::vector<Term> terms_;  // sorted by symbols, no zero factor
};
using Dims = std::vector<Dim>;
inline std::string kind_name(const Dim&) { return "dim"; }
std::ostream& operator<<(std::ostream&, const Dim&);

/// What `map` applies to every dim and every sub-graph that an attribute struct holds.
struct AttrMapper {
  std::function<Dim(const Dim&)> dim;
  std::function<class Subgraph(const class Subgraph&)> subgraph;
};
inline void map(Dim& d, const AttrMapper& mapper) { d = mapper.dim(d); }

void print(std::ostream&, DType);
void parse(Scanner&, DType&);
inline size_t hash_of(DType t) { return static_cast<size_t>(t); }
inline std::string kind_name(DType) { return "dtype"; }

struct Type {
  DType dtype = DType::f32;
  Dims dims = {};

  size_t rank() const { return dims.size(); }
  bool operator==(const Type&) const = default;
};
void print(std::ostream&, const Type&);
void parse(Scanner&, Type&);
inline size_t hash_of(const Type& t) { return mix(hash_of(t.dtype), hash_of(t.dims)); }
inline void map(Type& t, const AttrMapper& mapper) { map(t.dims, mapper); }
inline std::string kind_name(const Type&) { return "type"; }
std::ostream& operator<<(std::ostream&, const Type&);

/// The product of the dims.
Dim element_count(const Dims&);
bool is_static(const Dims&);
/// The extents as numbers; fails for a symbolic dim, naming it.
Shape shape_of(const Dims&);

/// Elements of a tensor of that shape; fails if an extent is negative or the count overflows.
int64_t element_count(const Shape&);
/// Bytes of a dense tensor; fails as `element_count` does, or if a block dtype's last extent leaves part of a block.
size_t byte_count(DType, const Shape&);

}  // namespace rlx
