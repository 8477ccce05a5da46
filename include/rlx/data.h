// Data for training: files into tensors, examples into batches. This file has readers of IDX (the files of MNIST), CSV
// and text; those of .npy and .npz are in rlx/io.h. Files are hostile input: every size is checked before memory is
// allocated, and errors are rlx::Errors that name the file and the line or byte.
//
//      auto digits = rlx::arrays_dataset({{"x", rlx::read_idx("images-idx3-ubyte")},
//                                         {"t", rlx::read_idx("labels-idx1-ubyte")}});
//      rlx::Loader loader(digits, {.batch_size = 64, .seed = 1});
//      for (;;) session.step(loader.next().tensors);
//
// The order of examples depends only on the seed and the epoch, so a training that was interrupted goes on with the
// same batches that it would have had.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rlx/io.h"
#include "rlx/session.h"

namespace rlx {

// ---- files ----

/// The array of an IDX file (LeCun, Cortes, Burges, "The MNIST database": two zero bytes, type, rank, extents,
/// elements, all big-endian): u8, i8, i16, i32, f32 or f64.
Tensor read_idx(const std::string& path);
/// The same from memory; the result is a copy.
Tensor parse_idx(std::span<const std::byte> bytes, const std::string& name = "<memory>");

enum class CsvType : uint8_t { inferred, integer, number, flag, text };
constexpr std::array<std::string_view, 5> names_of(CsvType) {
  return {"inferred", "integer", "number", "flag", "text"};
}
struct CsvOptions {
  char separator = ',';
  bool header = true;  ///< whether the first record has the columns' names; else they are "0", "1", ...
  /// The types of columns, by name. The type of any other column is inferred: flag if every cell is true or false,
  /// integer if every cell is a whole number, number if every cell is a number or empty, else text.
  std::map<std::string, CsvType, std::less<>> types = {};
};
struct CsvColumn {
  std::string name;
  CsvType type = CsvType::text;  ///< never `inferred`
  Tensor values;                 ///< i64[n], f64[n] (NaN for an empty cell) or bool[n]; nothing for text
  std::vector<std::string> text = {};

  /// The texts of the column as numbers, i64[n]: the index of each row's text in the sorted list of all different
  /// texts, which is written to `labels`.
  Tensor codes(std::vector<std::string>* labels = nullptr) const;
};
struct CsvTable {
  std::vector<CsvColumn> columns;
  int64_t rows = 0;

  /// Fails if there is none of that name, and suggests the nearest ones.
  const CsvColumn& column(std::string_view name) const;
  /// Columns as a matrix [rows, names.size()] of a real dtype. Fails for a column of text.
  Tensor matrix(std::span<const std::string> names, DType dtype = f32) const;
};
/// Comma-separated values as RFC 4180 has them: quotes around a cell, doubled within; lines that end in CRLF or LF.
/// Empty lines are left out. Fails naming the line: a record with more or fewer cells than the first, a quote out of
/// place, a cell that is not what its column holds.
CsvTable read_csv(const std::string& path, const CsvOptions& options = {});
CsvTable parse_csv(std::string_view text, const CsvOptions& options = {}, const std::string& name = "<memory>");

/// The whole file, which must be UTF-8; a byte order mark is left out.
std::string read_text(const std::string& path);
/// Its lines without their ends, LF or CRLF.
std::vector<std::string> read_lines(const std::string& path);

// ---- random numbers ----

/// Numbers drawn on the host, the same everywhere: Philox 4x32-10 (Salmon et al. 2011) with the seed as its key and the
/// counters {0, 1, 2, ...; first; second; purpose}.
class RandomStream {
 public:
  explicit RandomStream(uint64_t seed, uint32_t purpose = 0, uint32_t first = 0, uint32_t second = 0)
      : key_{static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)}, counter_{0, first, second, purpose} {}
  uint32_t next();
  /// 0 ... n - 1: the high half of 64 random bits times n.
  uint64_t below(uint64_t n);
  /// [0, 1), of 24 bits.
  double uniform() { return (next() >> 8) * 0x1p-24; }
  /// Standard normal (Box, Muller 1958).
  double normal();

 private:
  std::array<uint32_t, 2> key_;
  std::array<uint32_t, 4> counter_, block_ = {};
  unsigned left_ = 0;
};
/// The numbers 0 ... size - 1 in random order (Fisher and Yates, from the last element down to the second).
std::vector<int64_t> shuffled(int64_t size, RandomStream random);

// ---- examples ----

/// A set of examples that are read by number, by several threads at once.
class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual int64_t size() const = 0;
  /// The examples of these numbers (0 ... size - 1), stacked along a new first dim.
  virtual std::vector<NamedTensor> gather(std::span<const int64_t> examples) const = 0;
};
/// A dataset whose i-th example is the i-th slice of each array along its first dim. Fails unless the arrays have
/// equally many slices, at least one.
std::shared_ptr<const Dataset> arrays_dataset(NamedTensors arrays);
/// Sequences from a long one, tokens [n]. The i-th example has `length` tokens, from i * stride on, as `input`, and the
/// same number of tokens from the next one on as `target`.
std::shared_ptr<const Dataset> windows_dataset(Tensor tokens, int64_t length, int64_t stride = 1,
                                               std::string input = "x", std::string target = "t");
/// The examples [begin, end) of another dataset.
std::shared_ptr<const Dataset> range_of(std::shared_ptr<const Dataset> whole, int64_t begin, int64_t end);

/// Changes a batch in place. `random` has a stream for each of its examples, which depends only on the loader's seed,
/// the epoch and the example.
using Transform = std::function<void(std::vector<NamedTensor>& batch, std::span<RandomStream> random)>;
/// Moves each image of `name`, [n, ..., height, width], by up to `most` pixels up or down and left or right. Pixels
/// that come in from outside are 0.
Transform random_shifts(std::string name, int64_t most);
/// Converts `name` to floats, x * scale + offset.
Transform scaled_to_f32(std::string name, double scale, double offset = 0);

struct LoaderOptions {
  int64_t batch_size = 32;
  bool shuffle = true;     ///< whether examples are in another random order in each epoch
  bool drop_last = false;  ///< whether a smaller batch at the end of an epoch is left out
  uint64_t seed = 0;
  int prefetch = 2;  ///< how many batches a background thread prepares; 0: next() makes each batch itself
  std::vector<Transform> transforms = {};
};

/// Makes batches, epoch after epoch, without end. Only one thread may use it at a time.
class Loader {
 public:
  struct Position {
    int64_t epoch = 0, batch = 0;
    bool operator==(const Position&) const = default;
  };
  struct Batch {
    std::vector<NamedTensor> tensors;
    Position position;  ///< of this batch
    bool ends_epoch = false;
  };

  /// Fails if no batch can be made: too few examples for one, or a batch size below 1.
  Loader(std::shared_ptr<const Dataset> data, LoaderOptions options = {});
  ~Loader();
  Loader(Loader&&) noexcept;
  Loader& operator=(Loader&&) noexcept;

  /// The next batch. An exception that was thrown while it was made, on whatever thread, is thrown here.
  Batch next();
  int64_t batches_per_epoch() const;
  /// The position of the batch that comes next.
  Position position() const;
  void seek(Position position);

  /// The position as text, with everything that the order of the batches depends on. It is to be stored with a
  /// checkpoint.
  std::string state() const;
  /// Goes on where `state` was taken. Fails if that loader had other data or options, and names the difference.
  void restore(std::string_view state);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace rlx
