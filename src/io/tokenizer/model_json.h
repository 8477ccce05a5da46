// The model of a tokenizer.json.
#pragma once

#include <memory>

#include "io/tokenizer/json_value.h"
#include "io/tokenizer/model.h"

namespace rlx::tokenizer {

/// `vocabulary`: the members of `vocab`, where that is an object.
std::unique_ptr<const Model> read_model(const JsonValue& section, Vocabulary vocabulary);

}  // namespace rlx::tokenizer
