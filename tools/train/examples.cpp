// See the header.
#include "tools/train/examples.h"

#include <algorithm>
#include <cmath>

#include "rlx/element.h"
#include "tools/train/data.h"

namespace rlx::tools {
namespace {

/// The elements as another dtype: what a graph wants of a file that has its own.
Tensor converted(const Tensor& from, DType dtype) {
  bool exact = is_integer(from.dtype()) && is_integer(dtype);
  Tensor to(dtype, from.shape());
  for (size_t i = 0; i < from.element_count(); ++i)
    if (exact) store<int64_t>(to, i, load_index(from, i));
    else if (is_float(dtype)) store<double>(to, i, load_number(from, i));
    else store<int64_t>(to, i, static_cast<int64_t>(load_number(from, i)));
  return to;
}
/// Of the graph's dtypes; [n] stands for [n, 1].
void fit(NamedTensors& arrays, const Graph& g) {
  for (Ref r : g.inputs()) {
    auto found = arrays.find(g.node(r).name);
    const Type& wanted = g.node(r).types[0];
    if (found == arrays.end()) continue;
    Tensor& array = found->second;
    bool plain = [](DType t) { return is_float(t) || is_integer(t) || t == boolean; }(array.dtype());
    bool loses = is_float(array.dtype()) && !is_float(wanted.dtype);
    if (plain && !loses && array.dtype() != wanted.dtype && (is_float(wanted.dtype) || is_integer(wanted.dtype)))
      array = converted(array, wanted.dtype);
    if (array.rank() == 1 && wanted.rank() == 2 && wanted.dims[1] == Dim(1))
      array = array.reshaped({array.shape()[0], 1});
  }
}

}  // namespace

TrainData data_of(const TrainSettings& s, const Graph* g) {
  TrainData data;
  CsvColumns csv(s.missing, s.text_columns);
  NamedTensors arrays = read_sources(s.data, csv), test = read_sources(s.test, csv);
  data.columns = csv.notes();
  if (arrays.empty())
    fail(ErrorCode::invalid_argument, "no data are named: --data NAME=FILE for each input of the model");
  if (g) fit(arrays, *g), fit(test, *g);
  else
    for (auto* all : {&arrays, &test})
      for (const auto& [name, array] : *all)
        if (is_complex(array.dtype()))
          fail(ErrorCode::unsupported, "the data '", name, "' are ", array.type(), "; the model '", s.model,
               "' takes real numbers. Give real and imaginary parts as features of their own: in NumPy, ",
               "concatenate([", name, ".real, ", name, ".imag], axis=-1)");
  if (!g)
    for (auto* all : {&arrays, &test})  // answers of yes and no are labels
      if (auto t = all->find("t"); t != all->end() && t->second.dtype() == boolean)
        t->second = converted(t->second, u8);
  for (const auto& [name, array] : arrays) {
    data.names.push_back(name);
    data.types.push_back(array.type());
    if (array.rank() > 0) data.types.back().dims[0] = Dim::symbol("N");
  }
  for (const auto& [name, array] : test) {
    auto at = std::find(data.names.begin(), data.names.end(), name);
    if (at == data.names.end()) fail(ErrorCode::not_found, "--test names '", name, "', which --data does not");
    Type type = array.type(), wanted = data.types[static_cast<size_t>(at - data.names.begin())];
    if (array.rank() > 0) type.dims[0] = Dim::symbol("N");
    if (type != wanted)
      fail(ErrorCode::shape_mismatch, "the data '", name, "' are ", wanted, " for training, ", type, " for testing");
  }
  if (!test.empty() && test.size() != arrays.size())
    fail(ErrorCode::invalid_argument, "--data names ", arrays.size(), " inputs, --test ", test.size(),
         "; both need all");
  data.train = arrays_dataset(std::move(arrays));
  if (!test.empty()) data.test = arrays_dataset(std::move(test));
  return data;
}

void hold_out(TrainData& data, const TrainSettings& s) {
  if (s.hold_out == 0 || data.test) return;
  int64_t size = data.train->size(),
          kept = std::max<int64_t>(1, static_cast<int64_t>(static_cast<double>(size) * s.hold_out));
  if (kept >= size)
    fail(ErrorCode::invalid_argument, "hold_out leaves nothing to learn from: there are ", size, " examples");
  data.test = range_of(data.train, size - kept, size);
  data.train = range_of(data.train, 0, size - kept);
}

const Type& type_named(const TrainData& data, const std::string& name, const std::string& model) {
  for (size_t i = 0; i < data.names.size(); ++i)
    if (data.names[i] == name) return data.types[i];
  fail(ErrorCode::invalid_argument, "the model '", model, "' takes 'x' and the answers 't'; --data names no '", name,
       "'");
}

namespace {

/// Looks at all examples in their order, some at a time: `see(first, tensors)`, until it gives true.
template <class See>
void for_each_part(const Dataset& data, See see) {
  constexpr int64_t kPart = 1024;
  for (int64_t begin = 0; begin < data.size(); begin += kPart) {
    std::vector<int64_t> examples;
    for (int64_t i = begin; i < std::min(begin + kPart, data.size()); ++i) examples.push_back(i);
    if (see(begin, data.gather(examples))) return;
  }
}

}  // namespace

std::string not_finite_in(const Dataset& data) {
  std::string found;
  for_each_part(data, [&](int64_t begin, const std::vector<NamedTensor>& part) {
    for (const auto& [name, tensor] : part)
      for (size_t i = 0; is_float(tensor.dtype()) && found.empty() && i < tensor.element_count(); ++i)
        if (double v = load_number(tensor, i); !std::isfinite(v)) {
          size_t each = tensor.element_count() / static_cast<size_t>(tensor.shape()[0]);
          found = text_of("example ", begin + static_cast<int64_t>(i / each), " of '", name, "' has ",
                          std::isnan(v) ? "nan"
                          : v > 0       ? "inf"
                                        : "-inf");
        }
    return !found.empty();
  });
  return found;
}

int64_t classes_in(const Dataset& data) {
  int64_t most = 0;
  for_each_part(data, [&](int64_t begin, const std::vector<NamedTensor>& part) {
    for (const auto& [name, tensor] : part)
      for (size_t i = 0; name == "t" && i < tensor.element_count(); ++i) {
        int64_t label = load_index(tensor, i);
        if (label < 0)
          fail(ErrorCode::invalid_argument, "the label of example ", begin + static_cast<int64_t>(i), " is ", label,
               "; labels count from 0");
        most = std::max(most, label);
      }
    return false;
  });
  if (most > 1 << 20)
    fail(ErrorCode::invalid_argument, "the greatest label is ", most, "; answers that are no classes must be floats");
  return most + 1;
}

}  // namespace rlx::tools
