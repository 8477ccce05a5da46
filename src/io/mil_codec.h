// model.mlmodel: the bytes of a `mil::Model`, in protocol buffers' encoding.
#pragma once

#include <functional>
#include <span>

#include "io/mil.h"

namespace rlx::mil {

/// What protocol buffers allow in one message: a model.mlmodel of more bytes cannot be read by anyone.
inline constexpr uint64_t kModelByteLimit = (uint64_t{1} << 31) - 1;

/// Reads the bytes of model.mlmodel. Fails on bytes that are no model, on models that are no ML Program, and on
/// literals whose data do not fit their type. Fields that are not known are passed over.
Model decode_model(std::span<const std::byte> bytes);

/// Asked about each tensor that a const or a constexpr op holds: where it stands instead, or nothing if it stays.
using BlobPlacer = std::function<std::optional<BlobRef>(const Tensor&)>;
/// Equal models give equal bytes.
std::string encode_model(const Model& model, const BlobPlacer& place = nullptr);

}  // namespace rlx::mil
