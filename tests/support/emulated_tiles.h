// Matrix tiles for tests: where the processor has none, this program executes the tile instructions of the kernels, as
// they are compiled, in the handler of the "illegal instruction" signal. So the code for matrix tiles runs and is
// tested on any x86-64 processor with AVX-512 and bf16, some hundred times slower than with tiles.
#pragma once

namespace rlx::test {

/// While one lives, has_matrix_tiles() is true and tile instructions run on every thread. `are_there` is false, and a
/// message says so, where that cannot be: on other processors, and where Highway's AVX-512 targets are switched off.
/// At most one at a time; no product may be running when it ends.
class MatrixTiles {
 public:
  MatrixTiles();
  ~MatrixTiles();
  MatrixTiles(const MatrixTiles&) = delete;
  MatrixTiles& operator=(const MatrixTiles&) = delete;

  const bool are_there;

 private:
  static bool begin();
};

}  // namespace rlx::test
