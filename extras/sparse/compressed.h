// Rows of a matrix while a kernel works with them: entries sorted by row and column, one a place.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace rlx::sparse {

template <class T>
struct Place {
  int64_t row, column;
  T value;
};

template <class T>
struct Compressed {
  std::vector<int64_t> pointers, columns;
  std::vector<T> values;
};

/// Entries of one place are added up in the order in which they were given.
template <class T>
Compressed<T> compressed(int64_t rows, std::vector<Place<T>> places) {
  auto before = [](const Place<T>& a, const Place<T>& b) {
    return a.row != b.row ? a.row < b.row : a.column < b.column;
  };
  if (!std::is_sorted(places.begin(), places.end(), before)) std::stable_sort(places.begin(), places.end(), before);
  Compressed<T> made;
  made.pointers.assign(static_cast<size_t>(rows) + 1, 0);
  made.columns.reserve(places.size()), made.values.reserve(places.size());
  for (size_t i = 0; i < places.size(); ++i) {
    const Place<T>& p = places[i];
    if (i > 0 && !before(places[i - 1], p)) {
      made.values.back() += p.value;
      continue;
    }
    made.columns.push_back(p.column), made.values.push_back(p.value);
    ++made.pointers[static_cast<size_t>(p.row) + 1];
  }
  for (size_t r = 0; r < static_cast<size_t>(rows); ++r) made.pointers[r + 1] += made.pointers[r];
  return made;
}

}  // namespace rlx::sparse
