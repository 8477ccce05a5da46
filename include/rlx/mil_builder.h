// ML Programs of Core ML, op by op: what coremltools' `mb` is in Python. Each op is checked when it is added: that
// there is such an op, its arguments' names and dtypes, which of them are to be constants; and the type of its result
// is inferred. The program is written as a package, or run here, on any host.
//
//   MilBuilder b;
//   MilValue x = b.input("x", {f32, {2, 3}});
//   MilValue y = b.op("softmax", {{"x", b.op("mul", {{"x", x}, {"y", 0.5}})}, {"axis", -1}});
//   b.output(y, "probabilities");
//   b.write("model.mlpackage");
//
// Which ops there are, and what they take: https://apple.github.io/coremltools/source, "MIL ops".
#pragma once

#include <concepts>
#include <functional>
#include <initializer_list>
#include <variant>

#include "rlx/coreml.h"
#include "rlx/coreml_model.h"

namespace rlx {

/// A value of a program that is being built: an input, a state, or a result. Small and copied. It counts within the
/// block in which it was made, and in the blocks inside of it.
class MilValue {
 public:
  MilValue() = default;
  explicit operator bool() const { return record_ != nullptr; }
  /// Its name in the program.
  const std::string& name() const;
  /// Whether it is a tensor of numbers or bools: no list, no state, no label.
  bool is_tensor() const;
  /// Of a tensor; dims that a prediction decides are symbols. Fails for any other value.
  const Type& type() const;
  /// As Apple's texts spell it: "fp32[2, ?]", "list(int32[2], ?)", "string[]".
  std::string type_text() const;

 private:
  friend class MilBuilder;
  struct Record;
  explicit MilValue(std::shared_ptr<const Record> record) : record_(std::move(record)) {}
  const Record& record() const;
  std::shared_ptr<const Record> record_;
};

/// What an argument is: a value, several, or something that is written into the program. Numbers take the dtype that
/// the op wants: that of the arguments of the same kind (`alpha` is of x's dtype), else that of the op's first tensor
/// if the argument may have it. A number that this dtype cannot hold is refused. A Tensor keeps its own dtype.
class MilArgument {
 public:
  using Integers = std::vector<int64_t>;
  using Numbers = std::vector<double>;
  using Flags = std::vector<bool>;
  using Texts = std::vector<std::string>;
  using Content =
      std::variant<std::vector<MilValue>, Tensor, int64_t, double, bool, std::string, Integers, Numbers, Flags, Texts>;

  MilArgument(MilValue value) : content(std::vector<MilValue>{std::move(value)}) {}
  MilArgument(std::vector<MilValue> values) : content(std::move(values)) {}
  MilArgument(std::initializer_list<MilValue> values) : content(std::vector<MilValue>(values)) {}
  MilArgument(Tensor tensor) : content(std::move(tensor)) {}
  MilArgument(bool flag) : content(flag) {}
  template <class T>
  requires(std::integral<T> && !std::same_as<T, bool>) MilArgument(T number) : content(static_cast<int64_t>(number)) {}
  template <std::floating_point T>
  MilArgument(T number) : content(static_cast<double>(number)) {}
  MilArgument(const char* text) : content(std::string(text)) {}
  MilArgument(std::string text) : content(std::move(text)) {}
  MilArgument(std::initializer_list<int> numbers) : content(Integers(numbers.begin(), numbers.end())) {}
  MilArgument(std::initializer_list<int64_t> numbers) : content(Integers(numbers)) {}
  MilArgument(Integers numbers) : content(std::move(numbers)) {}
  MilArgument(std::initializer_list<double> numbers) : content(Numbers(numbers)) {}
  MilArgument(Numbers numbers) : content(std::move(numbers)) {}
  MilArgument(std::initializer_list<bool> flags) : content(Flags(flags)) {}
  MilArgument(Flags flags) : content(std::move(flags)) {}
  MilArgument(std::initializer_list<const char*> texts) : content(Texts(texts.begin(), texts.end())) {}
  MilArgument(Texts texts) : content(std::move(texts)) {}

  Content content;
};
/// By the names that the op has for them, in any order.
using MilArguments = std::vector<std::pair<std::string, MilArgument>>;

struct MilOptions {
  /// The iOS that the program is for, 15 to 18 (macOS 12 to 15), whose ops it may have; 0: the oldest whose ops it has.
  int minimum_ios = 0;
  std::string description = {}, author = {}, version = {}, license = {};
};

struct MilInput {
  /// The sizes of the type's symbols; those that are not named have any size from 1 on. See `package_shapes`.
  std::map<std::string, PackageSizes> sizes = {};
  /// The input [1, 1 or 3, height, width] is given as an image of this color.
  std::optional<PackageImage::Color> image = {};
  std::string description = {};
};

struct MilReport {
  int minimum_ios = 15;        ///< the oldest iOS that can run the package
  std::string needed_by = {};  ///< what needs that iOS; empty if every iOS can run it
  uint64_t model_bytes = 0, weight_bytes = 0;
};

/// Builds programs. A call that fails leaves the program as it was. Not to be used by two threads at a time.
class MilBuilder {
 public:
  explicit MilBuilder(MilOptions options = {});
  ~MilBuilder();
  MilBuilder(MilBuilder&&) noexcept;
  MilBuilder& operator=(MilBuilder&&) noexcept;

  // ---- functions ----
  /// Begins another function; what is added from then on belongs to it. There is a function "main" at first; if nothing
  /// was added to it yet, the new one takes its place. Several functions need iOS 18; the first is the default one, and
  /// equal weights are stored once.
  void function(const std::string& name);
  /// A tensor of f32, i32 or, from iOS 16 on, f16, of rank 1 to 5. A dim may be a symbol, whose size a prediction
  /// decides.
  MilValue input(const std::string& name, const Type& type, const MilInput& options = {});
  /// A tensor of f16 that the model keeps between predictions, zero at first (iOS 18): for `read_state` and
  /// `write_state`.
  MilValue state(const std::string& name, const Type& type, const std::string& description = {});
  /// What the function gives: a tensor of f32, i32 or, from iOS 16 on, f16, or what `classify` gives. With a name that
  /// is not the value's own it is an `identity` of that name.
  void output(const MilValue& value, const std::string& name = {}, const std::string& description = {});

  // ---- operations ----
  /// Constants of 10 elements and more stand in weight.bin.
  MilValue constant(const Tensor& value, const std::string& name = {});
  /// Adds an op and gives its one result, or nothing where it has none (`write_state`). Without a name it has one with
  /// a number. Optional arguments that are left out are written with the defaults of coremltools. `types` says what the
  /// result is where that cannot be inferred, as of shapes that data decide; where it can be, both must agree.
  MilValue op(const std::string& op, const MilArguments& arguments, const std::string& name = {},
              const std::vector<Type>& types = {});
  /// The same for ops of any number of results (`split`, `topk`, `lstm`): they are called name_0, name_1 ...
  std::vector<MilValue> op_many(const std::string& op, const MilArguments& arguments, const std::string& name = {},
                                const std::vector<Type>& types = {});

  // ---- control flow ----
  using Branch = std::function<std::vector<MilValue>()>;
  using Condition = std::function<MilValue(const std::vector<MilValue>& vars)>;
  using Body = std::function<std::vector<MilValue>(const std::vector<MilValue>& vars)>;
  /// `pred` is a scalar of bool. Both branches give results of the same types.
  std::vector<MilValue> cond(const MilValue& pred, const Branch& on_true, const Branch& on_false,
                             const std::string& name = {});
  /// Gives the next vars as long as the condition of them holds. `types` are those of the vars, where they are not the
  /// types of the first ones: a dim that changes from trip to trip is a symbol there.
  std::vector<MilValue> while_loop(const std::vector<MilValue>& vars, const Condition& condition, const Body& body,
                                   const std::string& name = {}, const std::vector<Type>& types = {});

  // The same without functions, for whoever has none to give: what is added between these calls is in the block.
  void begin_cond(const MilValue& pred, const std::string& name = {});
  void begin_else(const std::vector<MilValue>& results_if_true);
  std::vector<MilValue> end_cond(const std::vector<MilValue>& results_if_false);
  /// Gives the vars as the condition sees them; `begin_body` as the body does.
  std::vector<MilValue> begin_while(const std::vector<MilValue>& vars, const std::string& name = {},
                                    const std::vector<Type>& types = {});
  std::vector<MilValue> begin_body(const MilValue& goes_on);
  std::vector<MilValue> end_while(const std::vector<MilValue>& next_vars);
  /// Drops the innermost `cond` or `while_loop` that was begun, with all that is in it.
  void abandon();

  // ---- results ----
  /// Checks the program as a whole and writes it, replacing a package that is there.
  MilReport write(const std::string& path) const;
  /// What `write` would report, without writing.
  MilReport report() const;
  /// The model as it would be read again from a package, without a file.
  CoremlModel load(CoremlOptions options = {}) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// The ops that ML Programs have, sorted.
std::vector<std::string> mil_ops();
/// What an op takes on that iOS, "clip(x, alpha, beta)"; what may be left out has a '?' behind it. Fails, with the
/// nearest names, if there is none.
std::string mil_signature(const std::string& op, int ios = 18);

}  // namespace rlx
