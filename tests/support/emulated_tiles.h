// Matrix tiles for tests: scalar versions of the tile instructions, which the handler of the "illegal instruction"
// signal executes in their place where the processor has no tiles or RLX_ISA hides them. So the code for matrix tiles,
// as it is compiled, is tested on every x86-64 processor with AVX-512 (F, BW, VL, DQ, CD: the vector instructions
// between the tile instructions), some hundred times slower than with tiles. Processors without AVX-512 need
// scripts/emulate.
#pragma once

#include <optional>

namespace rlx::test {

/// While one lives, tile instructions that the processor refuses are executed, on every thread; so are those that
/// follow `ud2` directly, on processors that have tiles, too. At most one at a time.
class TileInstructions {
 public:
  TileInstructions();
  ~TileInstructions();
  TileInstructions(const TileInstructions&) = delete;
  TileInstructions& operator=(const TileInstructions&) = delete;
};

/// While one lives, has_matrix_tiles() is true, by the processor's tiles or by TileInstructions. `are_there` is false,
/// and a message says so, where that cannot be: without AVX-512, and where Highway's AVX-512 targets are switched off.
/// At most one at a time; no product may be running when it ends.
class MatrixTiles {
 public:
  MatrixTiles();
  ~MatrixTiles();
  MatrixTiles(const MatrixTiles&) = delete;
  MatrixTiles& operator=(const MatrixTiles&) = delete;

 private:
  std::optional<TileInstructions> instructions_;

 public:
  const bool are_there;
};

}  // namespace rlx::test
