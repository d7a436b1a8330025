// Activations as int8: what the quantized matmul multiplies with the weights.
//
// Each row is cut into blocks of 32; a block has its own scale, so a row's quantization depends on nothing but the row.
//   amax = max |x|;  scale = amax / 127;  inverse = 127 / amax;  q = x · inverse, rounded to nearest even: −127 … 127
//   amax < 2^−110 (where `inverse` would overflow; also a block of zeros): scale = 0, q = 0
//   a block with a NaN or an infinity: scale = NaN, q = 0, so that every output that reads the block is NaN
// Bits are the same for every instruction set.
//
// Thread safety: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tercet::kernels {

constexpr int64_t kActivationBlock = 32;

// 48 bytes: a kernel reads a row of blocks as one stream, and takes 4 q at a time as a broadcast dword.
struct QuantizedBlock {
  int8_t q[32];
  float scale;
  float scaled_sum;     // scale · Σq, the factor of a weight format's minimum.
  // Σq, the factor of a weight format's offset, in two parts that add up to it: over k mod 4 = 0, 1 and over k mod 4 = 2, 3,
  // for these are the pairs that VPMADDUBSW adds up.
  int16_t pair_sums[2];
  int16_t low_pair_sums[2];  // Over k = 0…15 only.
};

// A view of quantized rows in the caller's memory. Row m starts at blocks + m · row_stride.
struct QuantizedRows {
  const QuantizedBlock* blocks;
  int64_t row_stride;  // In blocks; at least QuantizedRowBlocks(cols).
};

// Blocks of a row of `cols` activations (cols: a multiple of 32). Bytes: times sizeof(QuantizedBlock).
constexpr int64_t QuantizedRowBlocks(int64_t cols) { return cols / kActivationBlock; }

// Quantizes x[cols] to out[QuantizedRowBlocks(cols)].
void QuantizeRow(const float* x, int64_t cols, QuantizedBlock* out);

}  // namespace tercet::kernels
