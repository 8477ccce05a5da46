// Lists: tensors of one type, side by side. A list is a value; writing gives another.
#include "frontends/mil/handlers.h"
#include "rlx/element.h"

namespace rlx::mlprogram {
namespace {

ListItem list(Call& op) {
  ItemPtr item = op.item("ls");
  if (!item->list) op.wrong("'ls' is no list");
  return *item->list;
}
Results result(ListItem l) { return Results(make_item(Item(std::move(l)))); }

/// With elements of these dims, zeros so far.
void settle(Call& op, ListItem& l, const Dims& dims) {
  if (l.dims) {
    if (*l.dims != dims) op.wrong("an element of ", Type{l.dtype, dims}, " in a list of ", Type{l.dtype, *l.dims});
    return;
  }
  l.dims = dims;
  l.stacked = full(op.graph(), 0, {l.dtype, prepend(l.length, dims)});
}
const Value& stacked(Call& op, const ListItem& l) {
  if (!l.stacked) op.wrong("the list was not written to, and nothing says what its elements are");
  return l.stacked;
}
void grow(ListItem& l, int64_t length) {
  if (length <= l.length) return;
  Dims low(l.stacked.dims().size(), Dim(0)), high = low;
  high[0] = length - l.length;
  l.stacked = pad_mode(l.stacked, PadMode::constant, low, high);
  l.length = length;
}
Value scalar_of(Value v) { return convert(v.rank() == 0 ? v : rlx::reshape(v, {}), i32); }

/// How far an index reaches: a list of dynamic length grows as far. Known, or the length it has where that is fixed.
std::optional<int64_t> reach(Call& op, const std::string& name, const ListItem& l) {
  if (!l.dynamic) return {};
  Value indices = op(name);
  Value most = rlx::reduce_max(convert(indices, i32), axes_from(0, indices.dims().size()));
  std::optional<Tensor> found = op.scope().elements(most, "the greatest index written to a list");
  if (!found)
    throw NeedsData(ErrorCode::unsupported,
                    "a list of dynamic length is written at an index that depends on what is fed: "
                    "run the package with its data");
  return load_index(*found, 0) + 1;
}

}  // namespace

MIL_OP(make_list) {
  ListItem l;
  l.length = op.integer("init_length", 1);
  l.dynamic = op.flag("dynamic_length", true);
  l.dtype = op.dtype(dtype_of_word(op.word("dtype", "fp32")));
  if (l.length < 0) op.wrong("init_length is ", l.length);
  std::vector<ItemPtr> shape = op.items("elem_shape");
  Dims dims;
  bool known = true;
  for (const ItemPtr& item : shape) {
    if (item->strings || !item->constant) known = false;  // the name of a symbol: the first element says
    else
      for (size_t i = 0; i < item->constant->element_count(); ++i) {
        int64_t n = load_index(*item->constant, i);
        if (n < 0) known = false;
        dims.emplace_back(n);
      }
  }
  if (!op.has("elem_shape")) known = false;
  if (known) settle(op, l, dims);
  return result(std::move(l));
}

MIL_OP(list_length) { return one(op.graph().constant(Tensor::scalar(static_cast<int32_t>(list(op).length)))); }

MIL_OP(list_read) {
  ListItem l = list(op);
  return one(take(stacked(op, l), scalar_of(op("index")), 0));
}

MIL_OP(list_gather) {
  ListItem l = list(op);
  return one(take(stacked(op, l), convert(op("indices"), i32), 0));
}

MIL_OP(list_write) {
  ListItem l = list(op);
  Value value = op("value");
  settle(op, l, value.dims());
  if (auto length = reach(op, "index", l)) grow(l, *length);
  l.stacked = dynamic_update_axis(l.stacked, expand_dims(value, 0), 0, scalar_of(op("index")));
  return result(std::move(l));
}

MIL_OP(list_scatter) {
  ListItem l = list(op);
  Value value = op("value"), indices = convert(op("indices"), i32);
  if (value.rank() < 1) op.wrong("'value' ", value.type(), " has no dim that runs along the indices");
  settle(op, l, Dims(value.dims().begin() + 1, value.dims().end()));
  if (auto length = reach(op, "indices", l)) grow(l, *length);
  ScatterAttrs a;
  for (int64_t d = 1; d < value.rank(); ++d) a.update_window_dims.push_back(d);
  a.inserted_window_dims = a.scatter_dims_to_operand_dims = {0};
  a.index_vector_dim = 1;
  l.stacked = rlx::scatter(l.stacked, indices, value, a);
  return result(std::move(l));
}

}  // namespace rlx::mlprogram
