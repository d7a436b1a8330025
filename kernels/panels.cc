#include "kernels/panels.h"

#include <cstring>

#include "kernels/gguf_block.h"
#include "kernels/layout.h"

namespace tercet::kernels {

namespace {

const Layout& LayoutOf(Format format) { return kLayouts[static_cast<int>(format)]; }

void Or(std::byte* p, int bits) { *p |= static_cast<std::byte>(bits); }

// Puts 32 stored weights of row r into their (zeroed) lines.
void PackLines(const Layout& layout, const uint8_t* q, int64_t r, std::byte* lines) {
  std::byte* more_bits = lines + 256;  // Fifth bits or bit pairs.
  for (int k = 0; k < 32; ++k) {
    const int v = k / 4;                            // The k-dword,
    const int64_t column = 4 * r + k % 4;           // and the byte in a line.
    if (layout.bits == 8) {
      lines[64 * v + column] = static_cast<std::byte>(q[k]);
      continue;
    }
    Or(lines + 64 * (v % 4) + column, (q[k] & 15) << v / 4 * 4);
    if (layout.bits == 5) Or(more_bits + column, q[k] >> 4 << v);
    if (layout.bits == 6) Or(more_bits + 64 * (v / 4) + column, q[k] >> 4 << 2 * (v % 4));
  }
}

// Puts the scales of one GGUF part of row r into the scale group it belongs to.
void PackScales(const Layout& layout, const GgufBlock& block, int sub, int64_t r, std::byte* scales) {
  std::memcpy(scales + 2 * r, &block.d_bits, 2);
  if (layout.has_minimum) std::memcpy(scales + 32 + 2 * r, &block.m_bits, 2);
  if (layout.block != 256) return;
  if (layout.has_minimum) {
    scales[64 + 16 * sub + r] = static_cast<std::byte>(block.scale[0]);
    scales[192 + 16 * sub + r] = static_cast<std::byte>(block.minimum);
  } else {
    scales[32 + 32 * sub + r] = static_cast<std::byte>(block.scale[0]);
    scales[48 + 32 * sub + r] = static_cast<std::byte>(block.scale[1]);
  }
}

}  // namespace

int64_t PanelCount(int64_t rows) { return (rows + kPanelRows - 1) / kPanelRows; }

size_t PanelBytes(Format format, int64_t cols) {
  const Layout& layout = LayoutOf(format);
  const int64_t bytes = cols / layout.line_k * layout.line_bytes + cols / layout.scale_k * layout.scale_bytes;
  return static_cast<size_t>((bytes + 63) / 64 * 64);
}

size_t PackedBytes(Format format, int64_t rows, int64_t cols) {
  return static_cast<size_t>(PanelCount(rows)) * PanelBytes(format, cols);
}

void PackPanels(Format format, const std::byte* gguf_rows, int64_t rows, int64_t cols, int64_t panel_begin,
                int64_t panel_end, std::byte* packed) {
  const Layout& layout = LayoutOf(format);
  const int64_t row_bytes = RowBytes(format, cols);
  const int64_t scales_at = cols / layout.line_k * layout.line_bytes;
  for (int64_t panel = panel_begin; panel < panel_end; ++panel) {
    std::byte* lines = packed + panel * static_cast<int64_t>(PanelBytes(format, cols));
    std::memset(lines, 0, PanelBytes(format, cols));
    for (int64_t r = 0; r < kPanelRows && panel * kPanelRows + r < rows; ++r) {
      const std::byte* row = gguf_rows + (panel * kPanelRows + r) * row_bytes;
      if (!IsQuantized(format)) {
        const int64_t bytes = layout.block_bytes;
        for (int64_t k = 0; k < cols; ++k) std::memcpy(lines + (k * kPanelRows + r) * bytes, row + k * bytes, bytes);
        continue;
      }
      for (int64_t k = 0; k < cols; k += 32) {
        const int sub = static_cast<int>(k % layout.block / 32);
        const GgufBlock block = ReadGgufBlock(format, row + k / layout.block * layout.block_bytes, sub);
        PackLines(layout, block.q, r, lines + k / 32 * layout.line_bytes);
        PackScales(layout, block, sub, r, lines + scales_at + k / layout.scale_k * layout.scale_bytes);
      }
    }
  }
}

}  // namespace tercet::kernels
