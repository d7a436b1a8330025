// What the bytes of each format mean, and that packing loses nothing.
#include "kernels/formats.h"

#include <cmath>
#include <limits>

#include "kernels/gather.h"
#include "kernels/half.h"
#include "tests/kernels/testing.h"

namespace tercet::kernels {
namespace {

std::vector<std::byte> Bytes(std::initializer_list<int> values) {
  std::vector<std::byte> bytes;
  for (const int v : values) bytes.push_back(static_cast<std::byte>(v));
  return bytes;
}

std::vector<float> Dequantize(Format format, const std::vector<std::byte>& bytes) {
  const int64_t cols = static_cast<int64_t>(bytes.size()) / BlockBytes(format) * BlockSize(format);
  std::vector<float> out(cols);
  DequantizeRow(format, bytes.data(), cols, out.data());
  return out;
}

// f16: 0x3800 = 0.5, 0x3c00 = 1, 0x4000 = 2, 0xbc00 = −1.

TEST(Formats, FloatsAreThemselves) {
  EXPECT_EQ(Dequantize(Format::kF32, Bytes({0, 0, 0x20, 0xc1})), std::vector<float>{-10.0f});
  EXPECT_EQ(Dequantize(Format::kF16, Bytes({0, 0x38, 0, 0xbc})), (std::vector<float>{0.5f, -1.0f}));
  EXPECT_EQ(Dequantize(Format::kBF16, Bytes({0x20, 0xc1})), std::vector<float>{-10.0f});
}

TEST(Formats, Q8_0IsAScaledSignedByte) {
  std::vector<std::byte> block(34);
  block[1] = std::byte{0x38};
  block[2] = std::byte{0x80};
  block[33] = std::byte{127};
  const std::vector<float> out = Dequantize(Format::kQ8_0, block);
  EXPECT_EQ(out[0], -64.0f);
  EXPECT_EQ(out[1], 0.0f);
  EXPECT_EQ(out[31], 63.5f);
}

TEST(Formats, Q4KeepsTheSecondHalfInHighNibbles) {
  std::vector<std::byte> block(18);
  block[1] = std::byte{0x40};
  block[2 + 3] = std::byte{0xf1};
  std::vector<float> out = Dequantize(Format::kQ4_0, block);
  EXPECT_EQ(out[0], -16.0f);
  EXPECT_EQ(out[3], -14.0f);
  EXPECT_EQ(out[19], 14.0f);

  block.resize(20);
  block[2] = std::byte{0x00};
  block[3] = std::byte{0xbc};
  block[4 + 5] = std::byte{0xf1};
  out = Dequantize(Format::kQ4_1, block);
  EXPECT_EQ(out[5], 2.0f - 1.0f);
  EXPECT_EQ(out[21], 30.0f - 1.0f);
}

TEST(Formats, Q5TakesItsFifthBitFromAWord) {
  std::vector<std::byte> block(22);
  block[1] = std::byte{0x3c};
  block[2] = std::byte{0x01};      // k = 0
  block[5] = std::byte{0x80};      // k = 31
  block[6 + 15] = std::byte{0x30};  // k = 31: 3
  std::vector<float> out = Dequantize(Format::kQ5_0, block);
  EXPECT_EQ(out[0], 0.0f);
  EXPECT_EQ(out[1], -16.0f);
  EXPECT_EQ(out[31], 3.0f);

  block.insert(block.begin() + 2, {std::byte{0x00}, std::byte{0x40}});
  out = Dequantize(Format::kQ5_1, block);
  EXPECT_EQ(out[0], 18.0f);
  EXPECT_EQ(out[1], 2.0f);
  EXPECT_EQ(out[31], 21.0f);
}

TEST(Formats, KFormatsUnpackSixBitScales) {
  std::vector<std::byte> block(144);
  block[1] = std::byte{0x3c};       // d = 1
  block[3] = std::byte{0x38};       // dmin = ½
  block[4 + 1] = std::byte{0xc5};   // Part 1: scale 5; part 5: high bits of its scale 3.
  block[4 + 5] = std::byte{0x47};   // Part 1: minimum 7; part 5: high bits of its minimum 1.
  block[4 + 9] = std::byte{0x92};   // Part 5: scale 2 | 3 << 4 = 50, minimum 9 | 1 << 4 = 25.
  block[16 + 0] = std::byte{0x30};  // Part 1, k = 0: 3.
  block[16 + 64 + 31] = std::byte{0x40};  // Part 5, k = 31: 4.
  const std::vector<float> out = Dequantize(Format::kQ4_K, block);
  EXPECT_EQ(out[32], 3 * 5 - 3.5f);
  EXPECT_EQ(out[33], -3.5f);
  EXPECT_EQ(out[5 * 32 + 31], 4 * 50 - 12.5f);
  EXPECT_EQ(out[5 * 32], -12.5f);

  block.insert(block.begin() + 16, 32, std::byte{0});
  block[16 + 31] = std::byte{1 << 5};  // Fifth bit of part 5, k = 31.
  EXPECT_EQ(Dequantize(Format::kQ5_K, block)[5 * 32 + 31], (4 + 16) * 50 - 12.5f);
}

TEST(Formats, Q6_KHasAScaleForSixteen) {
  std::vector<std::byte> block(210);
  block[209] = std::byte{0x3c};
  block[192 + 15] = std::byte{0xfe};      // k = 240 …: −2
  block[64 + 63] = std::byte{0x70};       // k = 255 (second half, part 3): low bits 7
  block[128 + 63] = std::byte{0x80};      // its bit pair: 2 → 7 + 32
  block[192] = std::byte{3};              // k = 0 …
  const std::vector<float> out = Dequantize(Format::kQ6_K, block);
  EXPECT_EQ(out[255], (39 - 32) * -2.0f);
  EXPECT_EQ(out[254], 64.0f);
  EXPECT_EQ(out[0], -96.0f);
  EXPECT_EQ(out[16], 0.0f);
}

TEST(Formats, RowBytesFollowTheBlocks) {
  EXPECT_EQ(RowBytes(Format::kQ4_1, 576), 576 / 32 * 20);
  EXPECT_EQ(RowBytes(Format::kQ4_K, 1536), 6 * 144);
  EXPECT_EQ(RowBytes(Format::kQ6_K, 256), 210);
  EXPECT_EQ(RowBytes(Format::kF32, 7), 28);
}

TEST(Panels, GatherGivesBackEveryRowBitForBit) {
  std::mt19937 random(1);
  for (const Format format : kAllFormats) {
    for (const int64_t rows : {1, 16, 45}) {
      for (const int64_t cols : {256, 1536}) {
        const Matrix w(format, rows, cols, random);
        for (int64_t row = 0; row < rows; ++row) {
          std::vector<float> gathered(cols);
          GatherRow(w.view, row, gathered.data());
          ASSERT_TRUE(SameBits(w.Dequantized(row), gathered)) << FormatName(format) << " row " << row << " of " << rows;
        }
      }
    }
  }
}

TEST(Panels, MayBePackedPieceByPiece) {
  std::mt19937 random(2);
  for (const Format format : kAllFormats) {
    const int64_t rows = 100, cols = 256;
    const Matrix w(format, rows, cols, random);
    const AlignedBytes pieces(PackedBytes(format, rows, cols));
    for (int64_t panel = PanelCount(rows); panel-- > 0;) {
      PackPanels(format, w.gguf.data(), rows, cols, panel, panel + 1, pieces.data());
    }
    EXPECT_EQ(std::memcmp(pieces.data(), w.packed.data(), PackedBytes(format, rows, cols)), 0) << FormatName(format);
  }
}

TEST(Panels, AreWholeCacheLines) {
  for (const Format format : kAllFormats) EXPECT_EQ(PanelBytes(format, 256) % 64, 0u) << FormatName(format);
  EXPECT_EQ(PanelBytes(Format::kQ4_1, 576), 16 * 576 / 32 * 20u);
  EXPECT_EQ(PanelBytes(Format::kF16, 3), 128u);
}

TEST(Half, RoundTripsEveryNumber) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float value = HalfToFloat(static_cast<uint16_t>(bits));
    const uint32_t quiet = std::isnan(value) ? 0x200 : 0;
    ASSERT_EQ(FloatToHalf(value), bits | quiet);
  }
}

TEST(Half, RoundsToNearestEven) {
  EXPECT_EQ(FloatToHalf(1.0f + 0x1p-11f), 0x3c00);
  EXPECT_EQ(FloatToHalf(1.0f + 3 * 0x1p-11f), 0x3c02);
  EXPECT_EQ(FloatToHalf(65519.996f), 0x7bff);
  EXPECT_EQ(FloatToHalf(65520.0f), 0x7c00);
  EXPECT_EQ(FloatToHalf(0x1p-25f), 0x0000);
  EXPECT_EQ(FloatToHalf(0x1.8p-25f), 0x0001);
  EXPECT_EQ(FloatToHalf(-0x1p-14f), 0x8400);
  EXPECT_EQ(FloatToHalf(std::numeric_limits<float>::infinity()), 0x7c00);
}

}  // namespace
}  // namespace tercet::kernels
