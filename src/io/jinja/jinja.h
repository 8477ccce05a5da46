// The functions of the crate in this folder; see src/lib.rs.
#pragma once

#include <cstddef>
#include <cstdint>

extern "C" {

enum {
  RLX_JINJA_RENDERED = 0,
  RLX_JINJA_SYNTAX = 1,
  RLX_JINJA_RAISED = 2,
  RLX_JINJA_FAILED = 3,
  RLX_JINJA_LIMIT = 4,
  RLX_JINJA_INTERNAL = 5,
};

struct RlxJinjaInput {
  const char* template_text;
  size_t template_size;
  const char* variables;  // JSON, an object; null: the template is only read
  size_t variables_size;
  int64_t now;  // seconds since 1970-01-01 00:00 by the clock of the place
  uint64_t most_steps, most_bytes;
};
struct RlxJinjaText {
  char* bytes;
  size_t size;
};

/// Stores the text, or the message where the result is not RLX_JINJA_RENDERED; it is given back by rlx_jinja_free.
int rlx_jinja_render(const RlxJinjaInput* input, RlxJinjaText* text);
void rlx_jinja_free(RlxJinjaText text);
}
