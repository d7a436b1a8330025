#include "kernels/gather.h"

#include <cmath>

#include "kernels/layout.h"
#include "kernels/panel_block.h"

namespace tercet::kernels {

void GatherRow(const PackedMatrix& w, int64_t row, float* out) {
  if (!IsQuantized(w.format)) {
    for (int64_t k = 0; k < w.cols; ++k) out[k] = ReadPanelFloat(w, row, k);
    return;
  }
  const bool has_minimum = kLayouts[static_cast<int>(w.format)].has_minimum;
  for (int64_t block = 0; block < w.cols / 32; ++block) {
    const PanelBlock weights = ReadPanelBlock(w, row, block);
    for (int i = 0; i < 32; ++i) {
      const float q = static_cast<float>(weights.q[i]);
      out[32 * block + i] =
          has_minimum ? std::fma(q, weights.scale[i / 16], weights.minimum) : q * weights.scale[i / 16];
    }
  }
}

}  // namespace tercet::kernels
