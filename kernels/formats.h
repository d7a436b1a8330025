// The weight formats: names, block sizes, and what the bytes of a GGUF row mean.
//
// A row of `cols` weights is stored as cols / BlockSize blocks of BlockBytes bytes. Block layouts (GGUF specification):
//   F32, F16, BF16   one little-endian number a block
//   Q8_0   f16 d, 32 × int8                                                       w = q·d
//   Q4_0   f16 d, 16 bytes: low nibbles are k = 0…15, high nibbles k = 16…31      w = (q − 8)·d
//   Q4_1   f16 d, f16 m, nibbles as Q4_0                                          w = q·d + m
//   Q5_0   f16 d, u32 with bit k = fifth bit of k, nibbles                        w = (q − 16)·d
//   Q5_1   f16 d, f16 m, u32, nibbles                                             w = q·d + m
//   Q4_K   f16 d, f16 dmin, 12 bytes of eight 6-bit (scale, minimum), 128 bytes   w = q·(d·scale) − dmin·minimum
//   Q5_K   as Q4_K, with 32 bytes of fifth bits before the nibbles
//   Q6_K   128 bytes of low nibbles, 64 bytes of bit pairs, 16 × int8 scale, f16 d (one scale for 16 weights)
//                                                                                 w = (q − 32)·(d·scale)
// Thread safety: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tercet::kernels {

enum class Format : uint8_t { kF32, kF16, kBF16, kQ8_0, kQ4_0, kQ4_1, kQ5_0, kQ5_1, kQ4_K, kQ5_K, kQ6_K };

constexpr Format kAllFormats[] = {Format::kF32,  Format::kF16,  Format::kBF16, Format::kQ8_0, Format::kQ4_0, Format::kQ4_1,
                                  Format::kQ5_0, Format::kQ5_1, Format::kQ4_K, Format::kQ5_K, Format::kQ6_K};

// "Q4_1", the name llama.cpp and GGUF tools print.
const char* FormatName(Format format);

// Weights in a block: 1, 32 or 256. The columns of a matrix are a multiple of it.
int64_t BlockSize(Format format);

// Bytes of a block in a GGUF file.
int64_t BlockBytes(Format format);

// Bytes of a GGUF row of `cols` weights (cols: a multiple of BlockSize).
int64_t RowBytes(Format format, int64_t cols);

// True for the formats whose matmul takes quantized activations (Matmul); false for F32, F16, BF16 (MatmulF32).
bool IsQuantized(Format format);

// The weights of one GGUF row as f32, out[cols]. d·scale is exact in f32, so each weight is rounded once at most.
void DequantizeRow(Format format, const std::byte* gguf_row, int64_t cols, float* out);

}  // namespace tercet::kernels
