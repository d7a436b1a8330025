#include "kernels/formats.h"

#include <cmath>
#include <cstring>

#include "kernels/gguf_block.h"
#include "kernels/half.h"
#include "kernels/layout.h"

namespace tercet::kernels {

namespace {

const Layout& LayoutOf(Format format) { return kLayouts[static_cast<int>(format)]; }

}  // namespace

const char* FormatName(Format format) { return LayoutOf(format).name; }
int64_t BlockSize(Format format) { return LayoutOf(format).block; }
int64_t BlockBytes(Format format) { return LayoutOf(format).block_bytes; }
int64_t RowBytes(Format format, int64_t cols) { return cols / BlockSize(format) * BlockBytes(format); }
bool IsQuantized(Format format) { return LayoutOf(format).bits <= 8; }

void DequantizeRow(Format format, const std::byte* gguf_row, int64_t cols, float* out) {
  switch (format) {
    case Format::kF32:
      std::memcpy(out, gguf_row, cols * sizeof(float));
      return;
    case Format::kF16:
    case Format::kBF16:
      for (int64_t k = 0; k < cols; ++k) {
        const uint16_t bits = LoadU16(gguf_row + 2 * k);
        out[k] = format == Format::kF16 ? HalfToFloat(bits) : BrainFloatToFloat(bits);
      }
      return;
    default:
      break;
  }
  const Layout& layout = LayoutOf(format);
  for (int64_t k = 0; k < cols; k += 32) {
    const GgufBlock block = ReadGgufBlock(format, gguf_row + k / layout.block * layout.block_bytes,
                                          static_cast<int>(k % layout.block / 32));
    for (int i = 0; i < 32; ++i) {
      const float q = static_cast<float>(block.q[i] - layout.offset);
      const float scale = block.d * static_cast<float>(block.scale[i / 16]);
      out[k + i] =
          layout.has_minimum ? std::fma(q, scale, block.m * static_cast<float>(block.minimum)) : q * scale;
    }
  }
}

}  // namespace tercet::kernels
