// Matrices as quantized Hugging Face folders have them: AWQ, GPTQ, bitsandbytes, mlx-lm. They stay packed: codes
// of 2 to 8 bits become codes of 4 or 8, laid out as products read them (dequant_matmul: [in, out], scales [groups,
// out]), once, at load.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rlx/language_model.h"

namespace rlx::language {

/// What a file says of a tensor.
struct Found {
  DType dtype;
  Shape shape;
};
inline Type type_of(const Found& found) { return {found.dtype, Dims(found.shape.begin(), found.shape.end())}; }

/// Tensors by the names of the table (weight_names.h).
class TensorSource {
 public:
  virtual ~TensorSource() = default;
  virtual std::optional<Found> find(const std::string& tensor) const = 0;
  virtual Tensor tensor(const std::string& tensor) const = 0;
  /// For messages: the folder or file.
  virtual std::string place() const = 0;
};

/// A matrix of codes, whose tensors were seen to fit each other. Element [i, o] is, with g = i / group,
/// (code - zero_points[g, o]) scales[g, o] + biases[g, o], or table[code] scales[g, o]. What a method lacks is null or
/// empty.
struct PackedMatrix {
  std::string tensor;  ///< that holds the codes
  int64_t in = 0, out = 0, bits = 4;
  int64_t group = 0;              ///< elements of a column that share a scale: at least 1
  bool has_middle_zeros = false;  ///< all zero points are half the number of codes: codes with a sign need none
  std::function<void(uint8_t* to)> codes = {};  ///< [in, out], a byte each
  std::function<void(float*to)> scales = {}, biases = {};
  std::function<void(uint8_t* to)> zero_points = {};
  std::vector<float> table = {};
  /// Row i of `codes` is multiplied with element order[i] of x: groups of GPTQ need not lie together in the file.
  std::vector<int32_t> order = {};
  int64_t groups() const { return (in + group - 1) / group; }
};

/// Whether the folder has this weight ("....weight" by the table) packed.
bool is_packed(const TensorSource& files, const WeightPacking& packing, std::string_view weight);
/// Fails, naming the tensor, for parts that are missing or do not fit each other.
PackedMatrix packed_matrix(const TensorSource& files, const WeightPacking& packing, std::string_view weight);
/// The names that the parts of such a weight may have.
std::vector<std::string> packed_parts(std::string_view weight);

/// One form for the matrices of a param: one, or one for each expert. Fails if they differ in
/// extents, bits, groups, tables, or in whether they have biases and zero points.
WeightType packed_type(std::span<const PackedMatrix> parts);
/// Whether `name` is what a param next to "NAME" is called: "scales", "zero_points", "biases", "table", "order"; and
/// "weight".
bool is_packed_part(std::string_view name);
/// The value of that part, of all the matrices: of a param [experts, ...] if `is_stacked`. `type` is that of the
/// param: f32, or what `packed_type` says; fails if its dims are others.
Tensor packed_value(std::span<const PackedMatrix> parts, std::string_view part, bool is_stacked, const Type& type);

/// The same of a single matrix the other way round, as rows are taken of it: "weight" [out, in], of 4 bits two to a
/// byte of `type`; "scales", "biases" and "zero_points" [out, groups].
Tensor turned_value(std::span<const PackedMatrix> parts, std::string_view part, const Type& type);
/// A tensor of a dtype and shape; fails with its name, its type and what it has to be.
Tensor required_tensor(const TensorSource& files, const std::string& name, std::span<const DType> dtypes,
                       const Shape& shape);
/// Its numbers as f32.
void read_floats(const Tensor& t, float* to);

/// to[i, o] = code(o, i) of all elements, in tiles whose lines stay in the cache: sources have them by outputs.
template <class CodeAt>
void write_turned(int64_t in, int64_t out, uint8_t* to, CodeAt code) {
  constexpr int64_t kInputs = 256, kOutputs = 64;
  for (int64_t i = 0; i < in; i += kInputs)
    for (int64_t o = 0; o < out; o += kOutputs)
      for (int64_t row = o; row < std::min(out, o + kOutputs); ++row)
        for (int64_t column = i; column < std::min(in, i + kInputs); ++column)
          to[column * out + row] = code(row, column);
}

/// By method; `module` is the weight's name without ".weight".
PackedMatrix gptq_matrix(const TensorSource& files, const WeightPacking& packing, const std::string& module);
PackedMatrix awq_matrix(const TensorSource& files, const WeightPacking& packing, const std::string& module);
PackedMatrix bitsandbytes_matrix(const TensorSource& files, const std::string& module);
PackedMatrix mlx_matrix(const TensorSource& files, const WeightPacking& packing, const std::string& module);

}  // namespace rlx::language
