#include "kernels/panel_block.h"

#include <cstring>

#include "kernels/gguf_block.h"
#include "kernels/half.h"
#include "kernels/layout.h"

namespace tercet::kernels {

namespace {

int Byte(const std::byte* p) { return std::to_integer<int>(*p); }

int StoredWeight(const Layout& layout, const std::byte* lines, int64_t r, int k) {
  const int v = k / 4;
  const int64_t column = 4 * r + k % 4;
  if (layout.bits == 8) return Byte(lines + 64 * v + column);
  int q = Byte(lines + 64 * (v % 4) + column) >> v / 4 * 4 & 15;
  const std::byte* more_bits = lines + 256;
  if (layout.bits == 5) q |= (Byte(more_bits + column) >> v & 1) << 4;
  if (layout.bits == 6) q |= (Byte(more_bits + 64 * (v / 4) + column) >> 2 * (v % 4) & 3) << 4;
  return q;
}

}  // namespace

PanelBlock ReadPanelBlock(const PackedMatrix& w, int64_t row, int64_t block) {
  const Layout& layout = kLayouts[static_cast<int>(w.format)];
  const int64_t r = row % kPanelRows;
  const std::byte* panel = w.panels + row / kPanelRows * static_cast<int64_t>(PanelBytes(w.format, w.cols));
  const std::byte* lines = panel + block * layout.line_bytes;
  const std::byte* scales =
      panel + w.cols / 32 * layout.line_bytes + block * 32 / layout.scale_k * layout.scale_bytes;

  PanelBlock out;
  for (int k = 0; k < 32; ++k) out.q[k] = StoredWeight(layout, lines, r, k) - layout.offset;
  const float d = HalfToFloat(LoadU16(scales + 2 * r));
  const float m = layout.has_minimum ? HalfToFloat(LoadU16(scales + 32 + 2 * r)) : 0.0f;
  const int64_t sub = block % 8;
  if (layout.scale_k == 32) {
    out.scale[0] = out.scale[1] = d;
    out.minimum = m;
  } else if (layout.has_minimum) {
    out.scale[0] = out.scale[1] = d * static_cast<float>(Byte(scales + 64 + 16 * sub + r));
    out.minimum = -(m * static_cast<float>(Byte(scales + 192 + 16 * sub + r)));
  } else {
    for (int half = 0; half < 2; ++half) {
      out.scale[half] = d * static_cast<float>(static_cast<int8_t>(scales[32 + 32 * sub + 16 * half + r]));
    }
    out.minimum = 0.0f;
  }
  return out;
}

float ReadPanelFloat(const PackedMatrix& w, int64_t row, int64_t k) {
  const std::byte* panel = w.panels + row / kPanelRows * static_cast<int64_t>(PanelBytes(w.format, w.cols));
  const int64_t index = k * kPanelRows + row % kPanelRows;
  if (w.format == Format::kF32) {
    float value;
    std::memcpy(&value, panel + 4 * index, sizeof value);
    return value;
  }
  const uint16_t bits = LoadU16(panel + 2 * index);
  return w.format == Format::kF16 ? HalfToFloat(bits) : BrainFloatToFloat(bits);
}

}  // namespace tercet::kernels
