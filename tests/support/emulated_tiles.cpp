// See the header. The instructions: Intel SDM, volume 2, "TILELOADD" and its neighbours; their encoding: section 2.3.5,
// "the VEX prefix".
#include "support/emulated_tiles.h"

#include <doctest/doctest.h>

#include "kernels/gemm/amx/tiles.h"

#if RLX_HAS_TILES
#include <cpuid.h>
#include <immintrin.h>
#include <signal.h>
#include <ucontext.h>

#include <cstdint>
#include <cstring>
#endif

namespace rlx::test {

#if RLX_HAS_TILES
namespace {

struct Tile {
  uint8_t row[16][64];

  template <class T>
  T at(int i, int j) const {
    T value;
    std::memcpy(&value, row[i] + static_cast<size_t>(j) * sizeof(T), sizeof(T));
    return value;
  }
  template <class T>
  void set(int i, int j, T value) {
    std::memcpy(row[i] + static_cast<size_t>(j) * sizeof(T), &value, sizeof(T));
  }
};
/// The tile registers of a thread, and their extents as ldtilecfg set them.
struct TileState {
  int rows[8] = {16, 16, 16, 16, 16, 16, 16, 16}, row_bytes[8] = {64, 64, 64, 64, 64, 64, 64, 64};
  Tile tiles[8];
};
thread_local TileState state;

// ---- the instructions, one element after the other

void load(int t, const char* from, int64_t stride) {
  state.tiles[t] = {};
  for (int i = 0; i < state.rows[t]; ++i)
    std::memcpy(state.tiles[t].row[i], from + i * stride, static_cast<size_t>(state.row_bytes[t]));
}
void store(int t, char* to, int64_t stride) {
  for (int i = 0; i < state.rows[t]; ++i)
    std::memcpy(to + i * stride, state.tiles[t].row[i], static_cast<size_t>(state.row_bytes[t]));
}
void configure(const uint8_t* config) {  // Intel SDM, volume 1, table 18-1
  for (int t = 0; t < 8; ++t) {
    uint16_t bytes = 0;
    std::memcpy(&bytes, config + 16 + 2 * t, 2);
    state.row_bytes[t] = bytes, state.rows[t] = config[48 + t], state.tiles[t] = {};
  }
}
/// Even and odd elements are summed apart, and each sum is rounded; then both are added, then what the tile held.
/// Subnormal operands and results are 0 (the caller sets the mode).
__attribute__((target("fma"))) void multiply_bf16(int sums, int left, int right) {
  const auto f32_of = [](uint16_t bits) {
    const uint32_t wide = static_cast<uint32_t>(bits) << 16;
    float value;
    std::memcpy(&value, &wide, sizeof value);
    return value;
  };
  Tile& to = state.tiles[sums];
  const Tile a = state.tiles[left], b = state.tiles[right];
  for (int i = 0; i < state.rows[sums]; ++i)
    for (int j = 0; j < state.row_bytes[sums] / 4; ++j) {
      float even = 0, odd = 0;
      for (int p = 0; p < state.row_bytes[left] / 4; ++p) {
        even = __builtin_fmaf(f32_of(a.at<uint16_t>(i, 2 * p)), f32_of(b.at<uint16_t>(p, 2 * j)), even);
        odd = __builtin_fmaf(f32_of(a.at<uint16_t>(i, 2 * p + 1)), f32_of(b.at<uint16_t>(p, 2 * j + 1)), odd);
      }
      to.set(i, j, to.at<float>(i, j) + (even + odd));
    }
}
template <class Left, class Right>
void multiply_int8(int sums, int left, int right) {
  Tile& to = state.tiles[sums];
  const Tile a = state.tiles[left], b = state.tiles[right];
  for (int i = 0; i < state.rows[sums]; ++i)
    for (int j = 0; j < state.row_bytes[sums] / 4; ++j) {
      auto sum = to.at<uint32_t>(i, j);  // unsigned: it wraps
      for (int p = 0; p < state.row_bytes[left] / 4; ++p)
        for (int q = 0; q < 4; ++q)
          sum += static_cast<uint32_t>(int32_t{a.at<Left>(i, 4 * p + q)} * int32_t{b.at<Right>(p, 4 * j + q)});
      to.set(i, j, sum);
    }
}

// ---- decoding

/// An instruction of the form C4 RXBmmmmm WvvvvLpp opcode ModRM [SIB] [displacement].
struct Instruction {
  int opcode = 0, prefix = 0;  ///< prefix: 1 for 66, 2 for F3, 3 for F2
  int reg = 0, rm = 0, vvvv = 0;
  bool has_memory = false;
  int64_t length = 0, address = 0, stride = 0;
};

int64_t value_of(const ucontext_t& context, int number) {
  static constexpr int kRegisters[16] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
                                         REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};
  return context.uc_mcontext.gregs[kRegisters[number]];
}

/// False unless it is of that form, in the map of the tile instructions.
bool decode(const ucontext_t& context, Instruction& to) {
  const int64_t begin = context.uc_mcontext.gregs[REG_RIP];
  const auto* at = reinterpret_cast<const uint8_t*>(begin);
  if (at[0] != 0xc4 || (at[1] & 0x1f) != 2) return false;
  const int x = (at[1] & 0x40) != 0 ? 0 : 8, b = (at[1] & 0x20) != 0 ? 0 : 8;
  to.vvvv = ~(at[2] >> 3) & 15, to.prefix = at[2] & 3, to.opcode = at[3];
  const int mod = at[4] >> 6;
  to.reg = (at[4] >> 3) & 7, to.rm = at[4] & 7, to.has_memory = mod != 3;
  at += 5;
  if (to.has_memory) {
    int base = to.rm | b;
    bool has_base = true, is_relative = false;
    if (to.rm == 4) {
      const int index = ((*at >> 3) & 7) | x;
      base = (*at & 7) | b;
      if (index != 4) to.stride = value_of(context, index) * (int64_t{1} << (*at >> 6));
      has_base = (*at & 7) != 5 || mod != 0;
      ++at;
    } else if (to.rm == 5 && mod == 0) {
      has_base = false, is_relative = true;
    }
    int64_t displacement = 0;
    if (mod == 1) {
      displacement = static_cast<int8_t>(*at), at += 1;
    } else if (mod == 2 || !has_base) {
      int32_t wide = 0;
      std::memcpy(&wide, at, sizeof wide);
      displacement = wide, at += sizeof wide;
    }
    to.address = displacement + (has_base ? value_of(context, base) : 0);
    if (is_relative) to.address += reinterpret_cast<int64_t>(at);
  }
  to.length = reinterpret_cast<int64_t>(at) - begin;
  return true;
}

/// False for other than tile instructions.
bool execute(const Instruction& i) {
  auto* const memory = reinterpret_cast<char*>(i.address);
  const auto multiply = [&i](auto f) { return f(i.reg, i.rm, i.vvvv), true; };
  switch (i.opcode << 4 | i.prefix) {
    case 0x490:
      if (i.has_memory) configure(reinterpret_cast<const uint8_t*>(memory));  // else tilerelease
      return true;
    case 0x493: return state.tiles[i.reg] = {}, true;
    case 0x4b1:
    case 0x4b3: return load(i.reg, memory, i.stride), true;
    case 0x4b2: return store(i.reg, memory, i.stride), true;
    case 0x5c2: return multiply(multiply_bf16);
    case 0x5e0: return multiply(multiply_int8<uint8_t, uint8_t>);
    case 0x5e1: return multiply(multiply_int8<uint8_t, int8_t>);
    case 0x5e2: return multiply(multiply_int8<int8_t, uint8_t>);
    case 0x5e3: return multiply(multiply_int8<int8_t, int8_t>);
    default: return false;
  }
}

/// A processor that has tiles which the system does not let this process use executes ldtilecfg all the same, and
/// refuses the instructions behind it. What it has set is in the registers that the system saved for the handler
/// (Intel SDM, volume 1, section 13.4: XTILECFG is component 17, where CPUID says; Linux, asm/sigcontext.h).
void take_configuration(const ucontext_t& context) {
  constexpr unsigned kConfiguration = 17;
  constexpr uint32_t kExtended = 0x46505853;
  const auto* const saved = reinterpret_cast<const uint8_t*>(context.uc_mcontext.fpregs);
  uint32_t magic = 0, a = 0, offset = 0, c = 0, d = 0;
  uint64_t present = 0;
  if (!saved) return;
  std::memcpy(&magic, saved + 464, sizeof magic), std::memcpy(&present, saved + 512, sizeof present);
  if (magic != kExtended || (present >> kConfiguration & 1) == 0) return;
  __cpuid_count(0xd, kConfiguration, a, offset, c, d);
  const uint8_t* const config = saved + offset;
  for (int t = 0; t < 8; ++t) {
    uint16_t bytes = 0;
    std::memcpy(&bytes, config + 16 + 2 * t, sizeof bytes);
    state.row_bytes[t] = bytes, state.rows[t] = config[48 + t];
  }
}

struct sigaction previous;

void handle(int, siginfo_t*, void* data) {
  auto& context = *static_cast<ucontext_t*>(data);
  auto& next = context.uc_mcontext.gregs[REG_RIP];
  const unsigned mode = _mm_getcsr();
  _mm_setcsr(0x1f80 | 0x8040);  // no exceptions, to nearest, subnormal operands and results are 0
  const auto* const code = reinterpret_cast<const uint8_t*>(next);
  const auto refused = next;
  if (code[0] == 0x0f && code[1] == 0x0b) next += 2;  // ud2
  bool is_any = false;
  take_configuration(context);
  // Tile instructions come in rows: one signal serves for all of a row, but for an ldtilecfg, which may not be refused.
  for (Instruction i; decode(context, i); i = {}) {
    const bool is_configuration = i.opcode == 0x49 && i.prefix == 0 && i.has_memory;
    if ((is_any && is_configuration) || !execute(i)) break;
    next += i.length, is_any = true;
  }
  _mm_setcsr(mode);
  if (is_any) return;
  next = refused;  // again, which ends the program
  sigaction(SIGILL, &previous, nullptr);
}

}  // namespace

TileInstructions::TileInstructions() {
  struct sigaction action {};
  action.sa_sigaction = handle;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGILL, &action, &previous);
}
TileInstructions::~TileInstructions() { sigaction(SIGILL, &previous, nullptr); }

#else

TileInstructions::TileInstructions() = default;
TileInstructions::~TileInstructions() = default;

#endif

MatrixTiles::MatrixTiles()
    : are_there([this] {
        if (kernels::has_matrix_tiles()) return true;
        kernels::set_tiles_emulated(true);
        if (kernels::has_matrix_tiles()) instructions_.emplace();
        return instructions_.has_value();
      }()) {
  if (!are_there)
    MESSAGE("skipped: matrix tiles, real or emulated, need a processor with AVX-512 that RLX_ISA permits");
}
MatrixTiles::~MatrixTiles() { kernels::set_tiles_emulated(false); }

}  // namespace rlx::test
