// bitsandbytes' matrices as transformers saves them: of 4 bits (nf4, fp4), two codes a byte with the first one in the
// high half, whose numbers a table holds; and LLM.int8's, with a scale for each row. Blocks run through the rows of
// [out, in]; a block that begins within a row is cut at the row's end, so that scales stand for what divides both.
#include <cmath>
#include <cstring>
#include <numeric>
#include <set>

#include "io/json_tree.h"
#include "models/language/limits.h"
#include "models/language/packed_weights.h"
#include "rlx/element.h"

namespace rlx::language {
namespace {

constexpr DType kFloat32[] = {f32};
constexpr DType kByte[] = {u8};
constexpr int64_t kMostStateBytes = 1 << 16;

/// The JSON that stands in a tensor's bytes.
struct QuantState {
  std::string name;  ///< of the tensor
  JsonTree json;

  int64_t size(const char* key, int64_t least, int64_t most) const {
    const JsonTree* found = json.find(key);
    if (!found || !found->is_integer() || found->integer() < least || found->integer() > most)
      fail(ErrorCode::parse, "'", key, "' in tensor '", name, "' is ", found ? found->shown() : "missing",
           "; it must be a whole number from ", least, " to ", most);
    return found->integer();
  }
};

QuantState state_of(const TensorSource& files, const std::string& module) {
  for (const char* kind : {"nf4", "fp4"}) {
    const std::string name = module + ".weight.quant_state.bitsandbytes__" + kind;
    const auto found = files.find(name);
    if (!found) continue;
    if (found->dtype != u8 || found->shape.size() != 1 || found->shape[0] > kMostStateBytes)
      fail(ErrorCode::shape_mismatch, "tensor '", name, "' in ", files.place(), " is ", type_of(*found),
           "; it must be the bytes of a JSON object, u8[n]");
    const Tensor bytes = files.tensor(name);
    QuantState state{name, with_context([&] { return text_of("reading tensor '", name, "'"); },
                                        [&] {
                                          return parse_json(std::string_view(
                                              reinterpret_cast<const char*>(bytes.data()), bytes.byte_count()));
                                        })};
    if (!state.json.is_object())
      fail(ErrorCode::parse, "tensor '", name, "' is ", state.json.shown(), ", not a JSON object");
    return state;
  }
  fail(ErrorCode::not_found, "there is no tensor '", module, ".weight.quant_state.bitsandbytes__nf4' (or fp4) in ",
       files.place(), ", which '", module, ".weight' needs");
}

std::vector<float> floats_of(const TensorSource& files, const std::string& name, const Shape& shape) {
  const Tensor t = required_tensor(files, name, kFloat32, shape);
  std::vector<float> values(static_cast<size_t>(t.element_count()));
  read_floats(t, values.data());
  return values;
}

/// The largest number of each block: as floats, or codes of a table with scales of their own and an offset.
std::vector<float> absmax_of(const TensorSource& files, const std::string& module, const QuantState& state,
                             int64_t blocks) {
  const std::string name = module + ".weight.absmax";
  const auto found = files.find(name);
  if (!found || found->dtype != u8) return floats_of(files, name, {blocks});
  const int64_t nested = state.size("nested_blocksize", 1, 1 << 20);
  const JsonTree* offset = state.json.find("nested_offset");
  if (!offset || !offset->is_number())
    fail(ErrorCode::parse, "'nested_offset' in tensor '", state.name, "' is ", offset ? offset->shown() : "missing",
         "; it must be a number");
  const Tensor codes = required_tensor(files, name, kByte, {blocks});
  const std::vector<float> table = floats_of(files, module + ".weight.nested_quant_map", {256}),
                           scales =
                               floats_of(files, module + ".weight.nested_absmax", {(blocks + nested - 1) / nested});
  std::vector<float> values(static_cast<size_t>(blocks));
  const auto bytes = codes.values<uint8_t>();
  for (size_t b = 0; b < values.size(); ++b)
    values[b] = table[bytes[b]] * scales[b / static_cast<size_t>(nested)] + static_cast<float>(offset->number());
  return values;
}

/// LLM.int8: w = code * SCB[row] / 127.
PackedMatrix int8_matrix(const TensorSource& files, const std::string& module, const Found& codes) {
  PackedMatrix m{.tensor = module + ".weight"};
  if (codes.shape.size() != 2 || codes.shape[0] < 1 || codes.shape[1] < 1)
    fail(ErrorCode::shape_mismatch, "tensor '", m.tensor, "' in ", files.place(), " is ", type_of(codes),
         "; codes of 8 bits are i8[outputs, inputs]");
  if (const std::string name = module + ".weight_format"; files.find(name))
    if (const Tensor format = required_tensor(files, name, kByte, files.find(name)->shape);
        format.element_count() != 1 || load_number(format, 0) != 0)
      fail(ErrorCode::unsupported, "tensor '", name, "' in ", files.place(), " says that '", m.tensor,
           "' lies in another order than by rows");
  m.out = codes.shape[0], m.in = m.group = codes.shape[1], m.bits = 8, m.has_middle_zeros = true;
  const int64_t in = m.in, out = m.out;
  const std::vector<float> largest = floats_of(files, module + ".SCB", {out});
  m.scales = [largest](float* to) {
    for (const float v : largest) *to++ = v * (1.0F / 127);
  };
  m.zero_points = [out](uint8_t* to) { std::memset(to, 128, static_cast<size_t>(out)); };
  m.codes = [words = files.tensor(m.tensor), in, out](uint8_t* to) {
    const auto* from = reinterpret_cast<const uint8_t*>(words.data());
    write_turned(in, out, to, [&](int64_t o, int64_t i) { return static_cast<uint8_t>(from[o * in + i] + 128); });
  };
  return m;
}

}  // namespace

PackedMatrix bitsandbytes_matrix(const TensorSource& files, const std::string& module) {
  PackedMatrix m{.tensor = module + ".weight"};
  const Found packed = *files.find(m.tensor);
  if (packed.dtype == i8) return int8_matrix(files, module, packed);
  const QuantState state = state_of(files, module);
  const JsonTree* shape = state.json.find("shape");
  if (!shape || !shape->is_array() || shape->elements().size() != 2 || !shape->elements()[0].is_natural() ||
      !shape->elements()[1].is_natural())
    fail(ErrorCode::parse, "'shape' in tensor '", state.name, "' is ", shape ? shape->shown() : "missing",
         "; it must be the outputs and inputs of a matrix");
  constexpr uint64_t kMost = uint64_t{1} << 30;
  const uint64_t rows = shape->elements()[0].natural(), columns = shape->elements()[1].natural();
  if (rows < 1 || columns < 1 || rows > kMost || columns > kMost)
    fail(ErrorCode::parse, "'shape' in tensor '", state.name, "' is [", rows, ", ", columns, "]");
  m.out = static_cast<int64_t>(rows), m.in = static_cast<int64_t>(columns), m.bits = 4;
  const int64_t block = state.size("blocksize", 1, 1 << 20), in = m.in, out = m.out, all = in * out;
  const Tensor bytes = required_tensor(files, m.tensor, kByte, {(all + 1) / 2, 1});
  m.group = std::gcd(in, block);
  m.table = floats_of(files, module + ".weight.quant_map", {16});
  const std::vector<float> absmax = absmax_of(files, module, state, (all + block - 1) / block);
  m.scales = [=, group = m.group](float* to) {
    for (int64_t i = 0; i < in; i += group)
      for (int64_t o = 0; o < out; ++o) *to++ = absmax[static_cast<size_t>((o * in + i) / block)];
  };
  m.codes = [=](uint8_t* to) {
    const auto* from = reinterpret_cast<const uint8_t*>(bytes.data());
    write_turned(in, out, to, [&](int64_t o, int64_t i) {
      const int64_t at = o * in + i;
      return static_cast<uint8_t>(at % 2 == 0 ? from[at / 2] >> 4 : from[at / 2] & 15);
    });
  };
  return m;
}

}  // namespace rlx::language
