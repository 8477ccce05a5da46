// Dims as polynomials; types; their text; sizes.
#include "rlx/type.h"

#include <numeric>

namespace rlx {

DType dtype_named(std::string_view name) {
  std::string list;
  for (size_t i = 0; i < kDTypeCount; ++i) {
    if (kDTypes[i].name == name) return static_cast<DType>(i);
    list += (i ? ", " : "") + std::string(kDTypes[i].name);
  }
  fail(ErrorCode::parse, "there is no dtype '", name, "'; there are ", list);
}
void print(std::ostream& out, DType t) { out << name_of(t); }
void parse(Scanner& in, DType& t) {
  std::string_view name = in.word();
  with_context([&] { return text_of("reading line ", in.line()); }, [&] { t = dtype_named(name); });
}

namespace {

int64_t checked_multiply(int64_t a, int64_t b) {
  int64_t product;
  if (__builtin_mul_overflow(a, b, &product)) fail(ErrorCode::shape_mismatch, "a dim overflows: ", a, " * ", b);
  return product;
}
/// The quotient; `a` divides by `b`, which is not 0.
int64_t checked_quotient(int64_t a, int64_t b) {
  if (b == -1) return checked_multiply(a, -1);  // the least number has no opposite, and the processor traps
  return a / b;
}
bool divides(int64_t a, int64_t b) { return b == -1 || (b != 0 && a % b == 0); }
int64_t checked_add(int64_t a, int64_t b) {
  int64_t sum;
  if (__builtin_add_overflow(a, b, &sum)) fail(ErrorCode::shape_mismatch, "a dim overflows: ", a, " + ", b);
  return sum;
}

}  // namespace

Dim Dim::symbol(std::string name) {
  Dim d;
  d.terms_.push_back({{std::move(name)}, 1});
  return d;
}

int64_t Dim::value() const {
  if (!is_static()) fail(ErrorCode::shape_mismatch, "a number is needed here, but the dim is the symbolic ", *this);
  return constant_;
}

void Dim::add(Term term) {
  if (term.factor == 0) return;
  if (term.symbols.empty()) {
    constant_ = checked_add(constant_, term.factor);
    return;
  }
  auto at = std::lower_bound(terms_.begin(), terms_.end(), term.symbols,
                             [](const Term& t, const auto& wanted) { return t.symbols < wanted; });
  if (at == terms_.end() || at->symbols != term.symbols) terms_.insert(at, std::move(term));
  else if ((at->factor = checked_add(at->factor, term.factor)) == 0) terms_.erase(at);
}

Dim operator+(Dim a, const Dim& b) {
  if (a.is_static() && b.is_static()) return checked_add(a.constant_, b.constant_);
  a.constant_ = checked_add(a.constant_, b.constant_);
  for (const Dim::Term& term : b.terms_) a.add(term);
  return a;
}

Dim operator*(const Dim& a, const Dim& b) {
  if (a.is_static() && b.is_static()) return checked_multiply(a.constant_, b.constant_);
  // Products of sums grow without bound (2^n terms for n factors), and so do products of symbols; no shape needs many.
  constexpr size_t kMostTerms = 1024, kMostFactors = 64;
  auto all = [](const Dim& d) {
    auto terms = d.terms_;
    terms.push_back({{}, d.constant_});
    return terms;
  };
  Dim result;
  for (const Dim::Term& x : all(a))
    for (const Dim::Term& y : all(b)) {
      Dim::Term term{x.symbols, checked_multiply(x.factor, y.factor)};
      term.symbols.insert(term.symbols.end(), y.symbols.begin(), y.symbols.end());
      std::sort(term.symbols.begin(), term.symbols.end());
      if (term.symbols.size() > kMostFactors)
        fail(ErrorCode::shape_mismatch, "a dim of more than ", kMostFactors, " factors");
      result.add(std::move(term));
      if (result.terms_.size() > kMostTerms)
        fail(ErrorCode::shape_mismatch, "a dim of more than ", kMostTerms, " terms");
    }
  return result;
}

Dim operator/(const Dim& a, const Dim& b) {
  auto refuse = [&] { fail(ErrorCode::shape_mismatch, "the dim ", a, " does not divide by ", b); };
  bool monomial = b.terms_.empty() || (b.terms_.size() == 1 && b.constant_ == 0);
  Dim::Term divisor = b.terms_.empty() ? Dim::Term{{}, b.constant_} : b.terms_[0];
  if (!monomial || divisor.factor == 0) {
    if (a == b && !(a == Dim(0))) return 1;
    refuse();
  }
  Dim result;
  auto divide = [&](Dim::Term term) {
    if (term.factor == 0) return;
    if (!divides(term.factor, divisor.factor)) refuse();
    term.factor = checked_quotient(term.factor, divisor.factor);
    for (const std::string& symbol : divisor.symbols) {
      auto found = std::find(term.symbols.begin(), term.symbols.end(), symbol);
      if (found == term.symbols.end()) refuse();
      term.symbols.erase(found);
    }
    result.add(std::move(term));
  };
  divide({{}, a.constant_});
  for (const Dim::Term& term : a.terms_) divide(term);
  return result;
}

Dim Dim::bound(const Bindings& bindings) const {
  if (is_static()) return *this;
  Dim result = constant_;
  for (const Term& term : terms_) {
    Term rest{{}, term.factor};
    for (const std::string& symbol : term.symbols) {
      auto found = bindings.find(symbol);
      if (found == bindings.end()) rest.symbols.push_back(symbol);
      else rest.factor = checked_multiply(rest.factor, found->second);
    }
    result.add(std::move(rest));
  }
  return result;
}

bool Dim::solve(int64_t actual, Bindings& bindings) const {
  Dim rest = bound(bindings);
  auto refuse = [&] { fail(ErrorCode::shape_mismatch, "an extent of ", actual, " does not fit the dim ", *this); };
  if (rest.is_static()) {
    if (rest.constant_ != actual) refuse();
    return true;
  }
  if (rest.terms_.size() != 1 || rest.terms_[0].symbols.size() != 1) return false;
  int64_t wanted = checked_add(actual, checked_multiply(rest.constant_, -1)), factor = rest.terms_[0].factor;
  if (!divides(wanted, factor) || checked_quotient(wanted, factor) < 0) refuse();
  bindings[rest.terms_[0].symbols[0]] = checked_quotient(wanted, factor);
  return true;
}

void Dim::for_each_symbol(const std::function<void(const std::string&)>& f) const {
  for (const Term& term : terms_)
    for (const std::string& symbol : term.symbols) f(symbol);
}

void print(std::ostream& out, const Dim& d) {
  const char* plus = "";
  for (const Dim::Term& term : d.terms_) {
    out << std::exchange(plus, "+");
    if (term.factor != 1) out << term.factor << "*";
    const char* times = "";
    for (const std::string& symbol : term.symbols) out << std::exchange(times, "*") << symbol;
  }
  if (d.constant_ || d.is_static()) out << plus << d.constant_;
}
void parse(Scanner& in, Dim& d) {
  d = 0;
  do {
    Dim product = 1;
    do {
      char c = in.peek();
      bool number = c == '-' || (c >= '0' && c <= '9');
      product = product * (number ? Dim(in.number<int64_t>()) : Dim::symbol(std::string(in.word())));
    } while (in.accept("*"));
    d = d + product;
  } while (in.accept("+"));
}
size_t hash_of(const Dim& d) {
  size_t h = hash_of(d.constant_);
  for (const Dim::Term& term : d.terms_) h = mix(mix(h, hash_of(term.symbols)), hash_of(term.factor));
  return h;
}

void print(std::ostream& out, const Type& t) {
  print(out, t.dtype);
  print(out, t.dims);
}
void parse(Scanner& in, Type& t) {
  parse(in, t.dtype);
  parse(in, t.dims);
  for (const Dim& d : t.dims)
    if (d.is_static() && d.value() < 0) in.unexpected(text_of("non-negative dims instead of ", t));
  if (is_static(t.dims))
    with_context([&] { return text_of("reading line ", in.line()); }, [&] { byte_count(t.dtype, shape_of(t.dims)); });
}
std::ostream& operator<<(std::ostream& out, const Type& t) { return print(out, t), out; }
std::ostream& operator<<(std::ostream& out, const Dim& d) { return print(out, d), out; }

Dim element_count(const Dims& dims) {
  Dim product = 1;
  for (const Dim& d : dims) product = product * d;
  return product;
}
bool is_static(const Dims& dims) {
  return std::all_of(dims.begin(), dims.end(), [](const Dim& d) { return d.is_static(); });
}
Shape shape_of(const Dims& dims) {
  Shape shape;
  shape.reserve(dims.size());
  for (const Dim& d : dims) shape.push_back(d.value());
  return shape;
}

int64_t element_count(const Shape& shape) {
  // Zero extents make the count zero, yet the others must still be sane: strides are made from them.
  constexpr int64_t kMost = int64_t{1} << 56;
  int64_t count = 1, product = 1;
  for (int64_t extent : shape) {
    if (extent < 0) fail(ErrorCode::shape_mismatch, "an extent of ", extent, " is negative");
    if (extent != 0 && product > kMost / extent)
      fail(ErrorCode::shape_mismatch, "more elements than memory can ever hold: an extent of ", extent, " times ",
           product);
    product *= std::max<int64_t>(extent, 1);
    count *= extent;
  }
  return count;
}
size_t byte_count(DType dtype, const Shape& shape) {
  const DTypeInfo& t = info(dtype);
  int64_t count = element_count(shape);
  if (t.kind == Kind::block && (shape.empty() || shape.back() % t.block_elements != 0))
    fail(ErrorCode::shape_mismatch, t.name, " holds blocks of ", t.block_elements, " along the last dim, which is ",
         shape.empty() ? 1 : shape.back());
  int64_t blocks = (count + t.block_elements - 1) / t.block_elements;
  return static_cast<size_t>(blocks) * static_cast<size_t>(t.block_bytes);
}

}  // namespace rlx
