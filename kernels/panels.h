// Weight matrices packed for the matmul: panels of 16 rows, the 16 rows side by side.
//
// A SIMD lane is a row. So that lanes run over rows, the weights of 16 rows are interleaved: a 64-byte line holds, for row
// r in its dword r, the bytes of 4 consecutive k. One line is a zmm operand of VPDPBUSD whose other operand is 4 activation
// bytes broadcast to all lanes; it is two ymm operands on AVX2, and a row of an AMX int8 tile.
// A panel is one contiguous range: first the lines of all its k, then the scales of all its blocks.
//
//   format            lines, per 32 k (bytes)                              scales (bytes)
//   F32, F16, BF16    16 numbers for each k                                –
//   Q8_0              8 lines of q + 128                            512    16 × f16 d, per 32 k                       32
//   Q4_0              4 lines of nibbles                            256    16 × f16 d, per 32 k                       32
//   Q4_1              4 lines of nibbles                            256    16 × f16 d, 16 × f16 m, per 32 k           64
//   Q5_0, Q5_1        4 lines of nibbles, 1 line of fifth bits      320    as Q4_0, Q4_1
//   Q4_K              4 lines of nibbles                            256    16 × f16 d, 16 × f16 dmin, 8 × 16 scales,
//   Q5_K              4 lines of nibbles, 1 line of fifth bits      320    8 × 16 minimums, per 256 k                320
//   Q6_K              4 lines of nibbles, 2 lines of bit pairs      384    16 × f16 d, 16 × 16 scales, per 256 k     288
//
// Nibble line v = 0…3: low nibbles are the k-dword v (k = 4v…4v+3), high nibbles the k-dword v + 4.
// Fifth bits: bit v of a byte belongs to k-dword v. Bit pairs: line h, bits 2f and 2f+1 belong to k-dword 4h + f.
// Rows beyond the matrix have zero weights and zero scales.
//
// Thread safety: pure functions; panels are immutable once packed. Different panels may be packed by different threads.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/formats.h"

namespace tercet::kernels {

constexpr int64_t kPanelRows = 16;

// A view of packed weights; the owner of the bytes keeps them alive.
struct PackedMatrix {
  Format format;
  int64_t rows;  // Outputs.
  int64_t cols;  // Inputs (k); a multiple of BlockSize(format).
  const std::byte* panels;  // PackedBytes(format, rows, cols) bytes, aligned to 64.
};

// Number of panels of `rows` rows: ⌈rows / 16⌉.
int64_t PanelCount(int64_t rows);

// Bytes of one panel: a multiple of 64. Panel p lies at panels + p · PanelBytes.
size_t PanelBytes(Format format, int64_t cols);

// Bytes of a packed matrix.
size_t PackedBytes(Format format, int64_t rows, int64_t cols);

// Packs panels [panel_begin, panel_end) of a matrix of `rows` GGUF rows, stored one after another from `gguf_rows`, to
// `packed`, which is the start of the whole packed matrix. Lossless: GatherRow gives back what DequantizeRow gives.
void PackPanels(Format format, const std::byte* gguf_rows, int64_t rows, int64_t cols, int64_t panel_begin,
                int64_t panel_end, std::byte* packed);

}  // namespace tercet::kernels
