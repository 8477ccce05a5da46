/* What the tests of the C ABI share: conditions that are counted when they fail, and calls that must succeed. */
#pragma once

#include <stdio.h>
#include <stdlib.h>

#include "rlx/c.h"

static int failures = 0;

#define EXPECT(condition)                                                     \
  do {                                                                        \
    if (!(condition)) {                                                       \
      fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
      ++failures;                                                             \
    }                                                                         \
  } while (0)

static void expect_ok(rlx_status status, rlx_error* error, int line) {
  if (status == RLX_OK) return;
  fprintf(stderr, "line %d: status %d: %s\n", line, (int)status, rlx_error_message(error));
  rlx_error_free(error);
  exit(1);
}
/* The call comes first: it sets `error`. */
#define OK(call)                           \
  do {                                     \
    rlx_status ok_status = (call);         \
    expect_ok(ok_status, error, __LINE__); \
  } while (0)
