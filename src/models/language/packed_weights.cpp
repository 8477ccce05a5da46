// See the header. Here is what the methods share; each of them has a file.
#include "models/language/packed_weights.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "models/language/limits.h"
#include "rlx/element.h"

namespace rlx::language {
namespace {

constexpr std::array<std::string_view, 6> kPackedParts = {"weight", "scales", "zero_points",
                                                          "biases", "table",  "order"};

std::string module_of(std::string_view weight) {
  constexpr std::string_view kWeight = ".weight";
  return std::string(weight.substr(0, weight.size() - (weight.ends_with(kWeight) ? kWeight.size() : 0)));
}

/// Two codes share a byte, so that rows must be whole bytes.
bool is_of_4_bits(const PackedMatrix& m) { return m.bits <= 4 && m.out % 2 == 0; }

/// Elements of the table that the codes' dtype asks for; codes of a byte use the first 16 of them.
int64_t table_size(const PackedMatrix& m) { return m.table.empty() ? 0 : is_of_4_bits(m) ? 16 : 256; }

void write_codes(const PackedMatrix& m, DType dtype, std::byte* to) {
  const auto count = static_cast<size_t>(m.in * m.out);
  std::vector<uint8_t> codes(count);
  m.codes(codes.data());
  // A code with a sign is the code without one less half of all codes.
  if (dtype == i4 || dtype == i8)
    for (uint8_t& code : codes) code = static_cast<uint8_t>(code - (1 << (m.bits - 1)));
  auto* bytes = reinterpret_cast<uint8_t*>(to);
  if (dtype == i8 || dtype == u8) std::memcpy(bytes, codes.data(), count);
  else
    for (size_t i = 0; i < count / 2; ++i)
      bytes[i] = static_cast<uint8_t>((codes[2 * i] & 15) | (codes[2 * i + 1] & 15) << 4);
}

}  // namespace

bool is_packed_part(std::string_view name) {
  return std::find(kPackedParts.begin(), kPackedParts.end(), name) != kPackedParts.end();
}

std::vector<std::string> packed_parts(std::string_view weight) {
  const std::string module = module_of(weight);
  std::vector<std::string> all;
  for (const char* part :
       {".weight", ".qweight", ".qzeros", ".scales", ".biases", ".g_idx", ".weight.absmax", ".weight.quant_map",
        ".weight.nested_absmax", ".weight.nested_quant_map", ".weight.quant_state.bitsandbytes__nf4",
        ".weight.quant_state.bitsandbytes__fp4", ".SCB", ".weight_format"})
    all.push_back(module + part);
  return all;
}

bool is_packed(const TensorSource& files, const WeightPacking& packing, std::string_view weight) {
  const std::string module = module_of(weight);
  if (!weight.ends_with(".weight")) return false;
  switch (packing.method) {
    case WeightPacking::Method::none: return false;
    case WeightPacking::Method::gptq:
    case WeightPacking::Method::awq: return files.find(module + ".qweight").has_value();
    case WeightPacking::Method::bitsandbytes:
    case WeightPacking::Method::mlx: {
      const auto found = files.find(module + ".weight");
      return found && is_integer(found->dtype);
    }
  }
  return false;
}

PackedMatrix packed_matrix(const TensorSource& files, const WeightPacking& packing, std::string_view weight) {
  const std::string module = module_of(weight);
  switch (packing.method) {
    case WeightPacking::Method::gptq: return gptq_matrix(files, packing, module);
    case WeightPacking::Method::awq: return awq_matrix(files, packing, module);
    case WeightPacking::Method::bitsandbytes: return bitsandbytes_matrix(files, module);
    case WeightPacking::Method::mlx: return mlx_matrix(files, packing, module);
    case WeightPacking::Method::none: break;
  }
  fail(ErrorCode::internal, "weights without a method of packing are not packed");
}

WeightType packed_type(std::span<const PackedMatrix> parts) {
  const PackedMatrix& first = parts.front();
  WeightType type;
  bool is_middle = true;
  for (const PackedMatrix& m : parts) {
    if (m.in != first.in || m.out != first.out || m.bits != first.bits || m.group != first.group ||
        m.table != first.table || bool(m.biases) != bool(first.biases) ||
        bool(m.zero_points) != bool(first.zero_points))
      fail(ErrorCode::unsupported, "the experts differ: '", first.tensor, "' has ", first.bits, " bits and groups of ",
           first.group, " for [", first.out, ", ", first.in, "], '", m.tensor, "' ", m.bits, " bits and groups of ",
           m.group, " for [", m.out, ", ", m.in, "]; they must also agree on tables, biases and zero points");
    is_middle &= m.has_middle_zeros;
    type.has_order |= !m.order.empty();
  }
  type.group = first.group;
  type.has_zero_points = first.zero_points && !is_middle;
  type.has_biases = bool(first.biases);
  type.table = table_size(first);
  const bool is_small = is_of_4_bits(first);
  if (first.zero_points && is_middle) type.dtype = is_small ? i4 : i8;
  else type.dtype = is_small ? u4 : u8;
  return type;
}

Tensor packed_value(std::span<const PackedMatrix> parts, std::string_view part, bool is_stacked, const Type& type) {
  for (const PackedMatrix& m : parts) {
    Shape wanted;
    if (part == "weight") wanted = {m.in, m.out};
    else if (part == "table") wanted = {table_size(m)};
    else if (part == "order") wanted = {m.in};
    else wanted = {m.groups(), m.out};
    if (is_stacked && part != "table") wanted.insert(wanted.begin(), static_cast<int64_t>(parts.size()));
    if (Dims(wanted.begin(), wanted.end()) != type.dims)
      fail(ErrorCode::shape_mismatch, "tensor '", m.tensor, "' is packed from [", m.out, ", ", m.in, "], which makes ",
           part, " of ", Type{type.dtype, Dims(wanted.begin(), wanted.end())}, ", but this model has ", type);
  }
  Tensor all = Tensor::uninitialized(type.dtype, shape_of(type.dims));
  std::byte* to = all.mutable_data();
  if (part == "table") {
    const std::vector<float>& table = parts.front().table;
    std::memset(to, 0, all.byte_count());
    std::memcpy(to, table.data(), table.size() * sizeof(float));
    return all;
  }
  const size_t step = all.byte_count() / parts.size();
  for (const PackedMatrix& m : parts) {
    if (part == "weight") write_codes(m, type.dtype, to);
    else if (part == "scales") m.scales(reinterpret_cast<float*>(to));
    else if (part == "biases") m.biases(reinterpret_cast<float*>(to));
    else if (part == "zero_points") m.zero_points(reinterpret_cast<uint8_t*>(to));
    else
      for (int64_t i = 0; i < m.in; ++i) {
        const int32_t at = m.order.empty() ? static_cast<int32_t>(i) : m.order[static_cast<size_t>(i)];
        std::memcpy(to + i * static_cast<int64_t>(sizeof at), &at, sizeof at);
      }
    to += step;
  }
  return all;
}

Tensor turned_value(std::span<const PackedMatrix> parts, std::string_view part, const Type& type) {
  Type own = type;
  std::swap(own.dims.at(0), own.dims.at(1));
  const DType codes = packed_type(parts).dtype;
  const bool is_in_bytes = part == "weight" && info(codes).bits == 4;
  if (is_in_bytes) own.dtype = codes, own.dims[0] = own.dims[0] * Dim(2);
  const Tensor t = packed_value(parts, part, false, own);
  const int64_t rows = t.shape()[0], columns = t.shape()[1];
  Tensor turned(type.dtype, shape_of(type.dims));
  const auto* from = reinterpret_cast<const uint8_t*>(t.data());
  auto* to = reinterpret_cast<uint8_t*>(turned.mutable_data());
  const int64_t bits = info(t.dtype()).bits;
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c) {
      const int64_t a = r * columns + c, b = c * rows + r;
      if (bits == 4) to[b / 2] = static_cast<uint8_t>(to[b / 2] | (from[a / 2] >> a % 2 * 4 & 15) << b % 2 * 4);
      else std::memcpy(to + b * bits / 8, from + a * bits / 8, static_cast<size_t>(bits / 8));
    }
  return turned;
}

Tensor required_tensor(const TensorSource& files, const std::string& name, std::span<const DType> dtypes,
                       const Shape& shape) {
  const auto found = files.find(name);
  if (!found) fail(ErrorCode::not_found, "there is no tensor '", name, "' in ", files.place());
  const bool is_known = std::find(dtypes.begin(), dtypes.end(), found->dtype) != dtypes.end();
  if (!is_known || found->shape != shape) {
    std::string kinds;
    for (const DType d : dtypes)
      kinds += text_of(kinds.empty() ? "" : " or ", Type{d, Dims(shape.begin(), shape.end())});
    fail(ErrorCode::shape_mismatch, "tensor '", name, "' in ", files.place(), " is ", type_of(*found), "; it must be ",
         kinds);
  }
  return files.tensor(name);
}

void read_floats(const Tensor& t, float* to) {
  const auto count = static_cast<size_t>(t.element_count());
  if (t.dtype() == f32) std::memcpy(to, t.data(), count * sizeof(float));
  else
    for (size_t i = 0; i < count; ++i) to[i] = static_cast<float>(load_number(t, i));
}

}  // namespace rlx::language
