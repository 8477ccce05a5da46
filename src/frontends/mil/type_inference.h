// The types of a program's values while it is being written, op by op: each operation is lowered into one graph that
// grows, and what its handler gives says the types. So there is no second set of shape rules; what the front end runs
// is what it can infer. The graph is for types alone: blocks of control flow stand in line in it, and values whose
// types somebody states are inputs of it. Who builds: devices/coreml/mil_builder.cpp.
#pragma once

#include "frontends/mil/lower.h"

namespace rlx::mlprogram {

/// A value's type as the program declares it, and, of a tensor of numbers, with symbols for the open dims.
struct Inferred {
  mil::ValueType declared;
  std::optional<Type> type = {};
};
struct InferredResult {
  ItemPtr item;
  Inferred type;
};
/// The type of an item, as far as one can be declared for it.
Inferred type_of(const Item& item);

class TypeInference {
 public:
  explicit TypeInference(int opset);
  TypeInference(const TypeInference&) = delete;
  TypeInference& operator=(const TypeInference&) = delete;
  void set_opset(int opset) { lowering_.opset = opset; }

  /// Makes a name known as a tensor of that type.
  void define(const std::string& name, const Type& type);
  void define(const std::string& name, const mil::Value& literal);
  /// As something of the type of `like`, which is known: a list, or a tensor.
  Inferred define_like(const std::string& name, const std::string& like, const std::optional<Type>& type = {});
  void define_state(const std::string& name, const Type& type);
  void begin_block();
  void end_block();

  /// The results of an operation, which has no outputs yet: `define` gives them names. `guess` is the dtype of results
  /// that the op's arguments do not say; `stated` are types that somebody knows, or none. Where inferring fails for
  /// want of data or of a handler, the stated ones are taken; where both are there they must agree.
  std::vector<InferredResult> add(const mil::Operation& op, DType guess, const std::vector<Type>& stated);
  void define(const std::string& name, const InferredResult& result);

 private:
  Scope& scope() { return *scopes_.back(); }
  /// A list of dynamic length grows as far as it is written, which data may say; its type stays.
  std::optional<InferredResult> list_that_is_written(const mil::Operation& op);
  /// The list that a `list_write` or `list_scatter` writes to; null for other ops.
  static const std::string* name_of_list(const mil::Operation& op);
  /// A list is declared with the length that it was made with, also when it has grown.
  void keep_length(InferredResult& result, const std::string& list) const;
  bool reads_open_dims(const mil::Operation& op);
  Value placeholder(const Type& type) { return graph_.input(text_of("v", placeholders_++), type); }

  Graph graph_;
  LowerOptions options_;
  TensorOf tensor_of_;
  Evaluator evaluator_;
  Lowering lowering_;
  std::vector<std::unique_ptr<Scope>> scopes_;
  std::map<std::string, std::optional<mil::Dimension>> lengths_;  // of lists, by name
  int64_t placeholders_ = 0;
};

}  // namespace rlx::mlprogram
