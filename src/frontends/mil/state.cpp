// States, classifiers.
#include "frontends/mil/handlers.h"
#include "rlx/element.h"

namespace rlx::mlprogram {
namespace {
const std::string& handle(Call& op) {
  ItemPtr item = op.item("input");
  if (item->state.empty()) op.wrong("'input' is no state");
  return item->state;
}
}  // namespace

MIL_OP(read_state) { return one(op.scope().state(handle(op))); }

MIL_OP(write_state) {
  std::string name = handle(op);
  Value data = op("data"), now = op.scope().state(name);
  if (data.type() != now.type()) op.wrong("the state '", name, "' is ", now.type(), ", the data are ", data.type());
  op.scope().set_state(name, data);
  return Results();
}

// The label of the greatest probability. A graph has no strings: then the output is its place among the labels.
MIL_OP(classify) {
  Value probabilities = op("probabilities");
  ItemPtr classes = op.item("classes");
  std::vector<std::string> names;
  std::vector<int64_t> numbers;
  auto take_all = [&](const ItemPtr& item, auto self) -> void {
    if (item->strings) names.insert(names.end(), item->strings->begin(), item->strings->end());
    if (item->constant)
      for (size_t i = 0; i < item->constant->element_count(); ++i) numbers.push_back(load_index(*item->constant, i));
    for (const ItemPtr& member : item->members) self(member, self);
  };
  take_all(classes, take_all);
  size_t count = names.empty() ? numbers.size() : names.size();
  Value flat = rlx::reshape(probabilities, {element_count(probabilities.dims())});
  if (count == 0 || flat.dim(0) != Dim(static_cast<int64_t>(count)))
    op.wrong("there are ", count, " classes for probabilities ", probabilities.type());
  Value place = argmax(flat, 0);
  if (names.empty()) {
    Tensor labels(i64, {static_cast<int64_t>(count)});
    for (size_t i = 0; i < count; ++i) store<int64_t>(labels, i, numbers[i]);
    place = take(op.graph().constant(labels), place, 0);
  }
  if (op.op().outputs.size() == 2)
    op.scope().lowering().classifier =
        Lowered::Classifier{op.op().outputs[0].name, op.op().outputs[1].name, std::move(names), std::move(numbers)};
  return several({place, probabilities});
}

}  // namespace rlx::mlprogram
