// Empty tensors: every op on its samples with each extent in turn made 0, alone and together with those that equal it,
// as a number and as a symbol that is 0 when the graph runs. What an op takes gives what the reference gives; what it
// does not take it refuses as an rlx::Error: nothing else is thrown, and no other number comes out.
#include <doctest/doctest.h>

#include <set>

#include "laws/varied_extents.h"
#include "reference/interpreter.h"
#include "rlx/session.h"
#include "support/compare.h"
#include "support/laws.h"
#include "support/sanitized.h"

using namespace rlx;
using namespace rlx::laws;

namespace {

/// Ops that refuse some empty operands only when what they are made of is built or run.
struct Late {
  std::string_view op, why;
};
constexpr Late kRefusedLate[] = {
    {"pool", "its gradient over three dims has ten, and the CPU takes eight, whatever the extents"},
    {"max_pool_backward", "its gradient over three dims has ten, and the CPU takes eight, whatever the extents"},
};
bool may_refuse_late(const OpDef& op) {
  return std::any_of(std::begin(kRefusedLate), std::end(kRefusedLate), [&](const Late& l) { return l.op == op.name; });
}

/// Laws that say nothing of an op's empty samples, as what it computes is not defined there.
struct Undefined {
  std::string_view op, why;
};
constexpr Undefined kWithoutDerivative[] = {
    {"spd_batch_norm",
     "a random mean need not be positive definite: at the floor of its eigenvalues the derivative is infinite, "
     "and a batch of none multiplies it by 0"},
    {"sparse_triangular_solve", "a matrix without entries is singular"},
};
bool is_undefined(const OpDef& op, std::string_view law) {
  if (law != "vjp_is_gradient" && law != "jvp_transposes_vjp") return false;
  return std::any_of(std::begin(kWithoutDerivative), std::end(kWithoutDerivative),
                     [&](const Undefined& u) { return u.op == op.name; });
}
/// The derivatives of a rendered image are sums over all pixels that cancel: narrower floats than f64 lose digits to
/// their order, on any device.
bool compares_gradient(const OpDef& op, DType t) { return t == f64 || !op.name.starts_with("gaussian_splat_render"); }

struct Empty {
  Sample numbers;
  std::optional<Sample> symbols;  ///< with "Z" where `numbers` has the new 0
};
std::vector<Empty> empties(const OpDef& op, const Sample& s) {
  std::vector<Empty> all;
  for (const auto& places : choices(s))
    for (bool in_attributes : {false, true}) {
      Sample numbers = with_extent(s, places, 0, in_attributes);
      if (!takes(op, numbers)) continue;
      Sample symbols = with_extent(s, places, Dim::symbol("Z"), in_attributes);
      all.push_back({std::move(numbers), takes(op, symbols) ? std::optional(std::move(symbols)) : std::nullopt});
      break;  // the attributes name no such extent, or must not
    }
  return all;
}

/// The CPU's results of the op and of its gradient, from a graph of numbers and from one of symbols, beside the
/// reference's from numbers.
std::string cpu_differs(const OpDef& op, const Empty& empty, const Session& session, size_t& refused) {
  auto numbers = laws::cases_of(op, empty.numbers);
  for (const laws::Case& c : numbers) {
    // Other dtypes have no rule of their own for what is empty: two of them are looked at, and sanitized none.
    const bool own = &c == &numbers[0], looked_at = c.types[0].dtype == f32 || c.types[0].dtype == i8;
    if (!own && (!looked_at || test::sanitized())) continue;
    std::vector<std::pair<std::string, laws::Case>> forms = {{"numbers", c}};
    if (empty.symbols) {
      laws::Case symbolic = c;
      symbolic.attrs = empty.symbols->attrs;
      for (size_t i = 0; i < c.types.size(); ++i) symbolic.types[i].dims = empty.symbols->dims[i];
      forms.emplace_back("a symbol that is 0", std::move(symbolic));
    }
    auto inputs = c.inputs();
    Graph plain = c.graph(op);
    auto wanted = interpret(plain, inputs);
    auto plain_gradient = gradient_of(op, plain);
    // Sanitized, no gradients: what they are made of are ops that are looked at by themselves.
    if (test::sanitized() || !compares_gradient(op, c.types[0].dtype)) plain_gradient.reset();
    auto all = inputs;
    std::vector<Tensor> wanted_gradients;
    if (plain_gradient) {
      auto types = plain_gradient->input_types();
      for (size_t i = inputs.size(); i < types.size(); ++i)
        all.push_back(random_tensor(types[i].dtype, shape_of(types[i].dims), laws::kSeed + i, -1, 1));
      wanted_gradients = interpret(*plain_gradient, all);
    }
    for (const auto& each : forms) {
      const std::string& form = each.first;
      const laws::Case& settled = each.second;
      std::string why;
      try {
        with_context([&, f = std::string_view(form)] { return text_of(op.name, " on ", f, " of ", c.types[0].dtype); },
                     [&] {
                       Graph g = settled.graph(op);
                       why = difference(session.compile(g).run_ordered(inputs), wanted);
                       if (!why.empty() || !plain_gradient) return;
                       why = difference(session.compile(*gradient_of(op, g)).run_ordered(all), wanted_gradients);
                       if (!why.empty()) why = "the gradient: " + why;
                     });
      } catch (const Error& e) {
        // Of a symbol, an op may find out only at run time that it takes no 0 there; that must be an error that says
        // so.
        if (&each == &forms[0] || e.code() == ErrorCode::internal) throw;
        ++refused;
      }
      if (!why.empty()) return text_of(form, ", ", c.types[0].dtype, ": ", why);
    }
  }
  return "";
}

/// How many of an op's samples are emptied: two; all where everything was asked for, and one under a sanitizer.
size_t emptied_samples(const OpDef& op) {
  const size_t all = op.samples().size();
  return test::checks_all() ? all : std::min(all, test::sanitized() ? size_t{1} : size_t{2});
}

std::string described(const Sample& s) {
  std::ostringstream out;
  print(out, types_of(s));
  print(out << " ", s.attrs);
  return out.str();
}

}  // namespace

TEST_CASE("an op that takes an empty operand gives what the reference gives, and so does its gradient") {
  Session session(Device::from_environment(), {2});
  size_t checked = 0, symbolic = 0, refused = 0;
  std::set<std::string_view> reached;
  for (const OpDef* op : all_ops()) {
    auto samples = op->samples();
    for (size_t s = 0; s < emptied_samples(*op); ++s) {
      std::vector<Empty> all;
      try {
        all = empties(*op, samples[s]);
      } catch (const std::exception& e) {
        FAIL_CHECK(op->name, " sample ", s, " with an empty dim: ", e.what());
      }
      for (const Empty& empty : all) {
        ++checked, symbolic += empty.symbols.has_value(), reached.insert(op->name);
        std::string why;
        try {
          why = cpu_differs(*op, empty, session, refused);
        } catch (const Error& e) {
          if (may_refuse_late(*op) && is_refusal(e)) ++refused;
          else why = e.what();
        } catch (const std::exception& e) {
          why = e.what();
        }
        CHECK_MESSAGE(why.empty(), op->name, " of ", described(empty.numbers), ": ", why);
      }
    }
  }
  MESSAGE(checked, " empty samples, ", symbolic, " of them also as symbols, of ", reached.size(), " ops of ",
          all_ops().size(), "; ", refused, " graphs were refused when they were compiled or run");
}

TEST_CASE("an op that takes an empty operand keeps the laws") {
  if (test::sanitized()) return;  // graphs beside graphs, by the reference
  for (const OpDef* op : all_ops()) {
    auto samples = op->samples();
    for (size_t s = 0; s < emptied_samples(*op); ++s)
      for (const Empty& empty : empties(*op, samples[s]))
        for (std::string_view name :
             {"infer_agrees", "decompose_agrees", "vjp_is_gradient", "jvp_transposes_vjp", "batch_is_loop"}) {
          if (may_refuse_late(*op) || is_undefined(*op, name)) continue;
          laws::Finding f = laws::examine(laws::find_law(name), *op, empty.numbers);
          CHECK_MESSAGE(f.outcome != laws::Outcome::broken, name, " of ", op->name, " of ", described(empty.numbers),
                        ": ", f.why);
        }
  }
}
