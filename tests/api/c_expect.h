/* What the tests of the C ABI share: conditions that are counted when they fail, and calls that must succeed. */
#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

/* `error` becomes null again. */
static inline void expect_failed(rlx_status status, rlx_status wanted, const char* part, rlx_error** error, int line) {
  if (status != wanted || strstr(rlx_error_message(*error), part) == NULL) {
    fprintf(stderr, "line %d: status %d, '%s'; wanted %d, '%s'\n", line, (int)status, rlx_error_message(*error),
            (int)wanted, part);
    ++failures;
  }
  rlx_error_free(*error);
  *error = NULL;
}
#define FAILS(call, wanted, part)                          \
  do {                                                     \
    rlx_status failed = (call);                            \
    expect_failed(failed, wanted, part, &error, __LINE__); \
  } while (0)
