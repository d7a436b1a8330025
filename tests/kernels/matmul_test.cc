// The matmul: every format, every instruction set, every number of rows, odd shapes.
#include "kernels/matmul.h"

#include <algorithm>
#include <cmath>

#include "tests/kernels/testing.h"

namespace tercet::kernels {
namespace {

constexpr int64_t kMostRows = 64;

struct Activations {
  Activations(int64_t rows, int64_t cols, std::mt19937& random)
      : x(RandomFloats(rows * cols, random)), blocks(rows * (cols / 32 + 1)), view{blocks.data(), cols / 32 + 1} {
    if (cols % 32 != 0) return;
    for (int64_t m = 0; m < rows; ++m) {
      Reference().quantize_row(&x[m * cols], cols, &blocks[m * view.row_stride]);
    }
  }
  std::vector<float> x;
  std::vector<QuantizedBlock> blocks;
  QuantizedRows view;
};

std::vector<int64_t> ColsOf(Format format) {
  switch (BlockSize(format)) {
    case 1:
      return {1, 7, 33, 576};
    case 32:
      return {32, 64, 96, 576, 1536};
    default:
      return {256, 512, 1536};
  }
}

// Runs the right matmul of a table over a range.
void Multiply(const Table& table, const Matrix& w, const Activations& x, int64_t panel_begin, int64_t panel_end,
         int64_t row_begin, int64_t row_end, float* out, int64_t out_stride) {
  if (IsQuantized(w.view.format)) {
    table.matmul(w.view, panel_begin, panel_end, x.view, row_begin, row_end, out, out_stride);
  } else {
    table.matmul_f32(w.view, panel_begin, panel_end, x.x.data(), w.view.cols, row_begin, row_end, out, out_stride);
  }
}

class MatmulOfFormat : public ::testing::TestWithParam<Format> {};

TEST_P(MatmulOfFormat, HasTheBitsOfTheReferenceForAnyNumberOfRows) {
  std::mt19937 random(1);
  std::vector<int64_t> row_counts = {32, 64};
  for (int64_t m = 1; m <= 17; ++m) row_counts.push_back(m);
  for (const int64_t rows : {1, 16, 37, 64}) {
    for (const int64_t cols : ColsOf(GetParam())) {
      const Matrix w(GetParam(), rows, cols, random);
      const Activations x(kMostRows, cols, random);
      const int64_t panels = PanelCount(rows), stride = rows + 3;
      std::vector<float> expected(kMostRows * stride, -1.0f);
      Multiply(Reference(), w, x, 0, panels, 0, kMostRows, expected.data(), stride);
      for (const auto& [name, table] : IsasUnderTest()) {
        for (const int64_t m : row_counts) {
          std::vector<float> actual(kMostRows * stride, -1.0f);
          Multiply(*table, w, x, 0, panels, 0, m, actual.data(), stride);
          // Behind a row's outputs, and behind the last row, nothing was written.
          std::vector<float> shown = expected;
          std::fill(shown.begin() + m * stride, shown.end(), -1.0f);
          ASSERT_TRUE(SameBits(shown, actual)) << name << " " << rows << "×" << cols << ", M = " << m;
        }
      }
    }
  }
}

TEST_P(MatmulOfFormat, HasTheSameBitsPieceByPiece) {
  std::mt19937 random(2);
  const int64_t rows = 16 * 9 - 5, cols = 512, m = 13, panels = PanelCount(rows);
  const Matrix w(GetParam(), rows, cols, random);
  const Activations x(m, cols, random);
  for (const auto& [name, table] : IsasUnderTest()) {
    std::vector<float> whole(m * rows), pieces(m * rows);
    Multiply(*table, w, x, 0, panels, 0, m, whole.data(), rows);
    for (int64_t panel = 0; panel < panels;) {
      const int64_t panel_end = std::min<int64_t>(panels, panel + 1 + static_cast<int64_t>(random() % 4));
      for (int64_t row = 0; row < m;) {
        const int64_t row_end = std::min<int64_t>(m, row + 1 + static_cast<int64_t>(random() % 6));
        Multiply(*table, w, x, panel, panel_end, row, row_end, pieces.data(), rows);
        row = row_end;
      }
      panel = panel_end;
    }
    EXPECT_TRUE(SameBits(whole, pieces)) << name;
  }
}

// The largest magnitudes everywhere: no integer sum on the way may overflow.
TEST_P(MatmulOfFormat, KeepsExtremeSumsExact) {
  if (!IsQuantized(GetParam())) GTEST_SKIP() << "float formats have no integer sums";
  std::mt19937 random(3);
  const int64_t rows = 32, cols = 512;
  for (const int fill : {0x00, 0xff, 0x7f, 0x80}) {
    Matrix w(GetParam(), rows, cols, random);
    std::vector<std::byte> gguf = w.gguf;
    const int64_t block_bytes = BlockBytes(GetParam());
    for (size_t i = 0; i < gguf.size(); ++i) {
      const int64_t at = static_cast<int64_t>(i) % block_bytes;
      const bool scale = GetParam() == Format::kQ6_K ? at >= 208 : at < 4;
      if (!scale || (GetParam() == Format::kQ8_0 && at >= 2)) gguf[i] = static_cast<std::byte>(fill);
    }
    PackPanels(GetParam(), gguf.data(), rows, cols, 0, PanelCount(rows), w.packed.data());
    for (const float sign : {1.0f, -1.0f}) {
      Activations x(4, cols, random);
      std::fill(x.x.begin(), x.x.end(), sign);
      for (int m = 0; m < 4; ++m) Reference().quantize_row(&x.x[m * cols], cols, &x.blocks[m * x.view.row_stride]);
      ASSERT_EQ(x.blocks[0].q[0], sign * 127);
      std::vector<float> expected(4 * rows), actual(4 * rows);
      Multiply(Reference(), w, x, 0, 2, 0, 4, expected.data(), rows);
      for (const auto& [name, table] : IsasUnderTest()) {
        Multiply(*table, w, x, 0, 2, 0, 4, actual.data(), rows);
        EXPECT_TRUE(SameBits(expected, actual)) << name << " fill " << fill << " sign " << sign;
      }
    }
  }
}

// Σ w·x of the weights and the activations as they are stored, in double.
TEST_P(MatmulOfFormat, IsCloseToExactMathematics) {
  std::mt19937 random(4);
  const int64_t rows = 37, cols = BlockSize(GetParam()) == 1 ? 577 : 1536, m = 3;
  const Matrix w(GetParam(), rows, cols, random);
  const Activations x(m, cols, random);
  std::vector<float> out(m * rows);
  Multiply(Reference(), w, x, 0, PanelCount(rows), 0, m, out.data(), rows);
  for (int64_t n = 0; n < rows; ++n) {
    const std::vector<float> weights = w.Dequantized(n);
    for (int64_t i = 0; i < m; ++i) {
      double sum = 0, magnitude = 0;
      for (int64_t k = 0; k < cols; ++k) {
        const QuantizedBlock& block = x.blocks[i * x.view.row_stride + k / 32];
        const double activation =
            IsQuantized(GetParam()) ? static_cast<double>(block.scale) * block.q[k % 32] : x.x[i * cols + k];
        sum += weights[k] * activation;
        magnitude += std::abs(weights[k] * activation);
      }
      EXPECT_NEAR(out[i * rows + n], sum, 1e-5 * magnitude) << "row " << n << ", activations " << i;
    }
  }
}

TEST_P(MatmulOfFormat, TurnsANanActivationIntoNanOutputsOfItsRowOnly) {
  std::mt19937 random(5);
  const int64_t rows = 20, cols = 512, m = 5;
  const Matrix w(GetParam(), rows, cols, random);
  Activations x(m, cols, random);
  x.x[2 * cols + 77] = NAN;
  for (int64_t i = 0; i < m; ++i) Reference().quantize_row(&x.x[i * cols], cols, &x.blocks[i * x.view.row_stride]);
  std::vector<IsaUnderTest> isas = IsasUnderTest();
  isas.push_back({"scalar", &Reference()});
  for (const auto& [name, table] : isas) {
    std::vector<float> out(m * rows);
    Multiply(*table, w, x, 0, 2, 0, m, out.data(), rows);
    for (int64_t i = 0; i < m * rows; ++i) EXPECT_EQ(std::isnan(out[i]), i / rows == 2) << name << " at " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(All, MatmulOfFormat, ::testing::ValuesIn(kAllFormats),
                         [](const auto& info) { return std::string(FormatName(info.param)); });

}  // namespace
}  // namespace tercet::kernels
