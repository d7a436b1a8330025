#include "tests/kernels/testing.h"

#include "kernels/half.h"

namespace tercet::kernels {

std::vector<std::byte> RandomGgufRows(Format format, int64_t rows, int64_t cols, std::mt19937& random) {
  std::vector<std::byte> bytes(rows * RowBytes(format, cols));
  for (std::byte& b : bytes) b = static_cast<std::byte>(random());
  std::normal_distribution<float> normal(0.0f, 0.05f);
  const int64_t block_bytes = BlockBytes(format);
  const auto put_half = [&](std::byte* p, float value) {
    const uint16_t bits = format == Format::kBF16 ? std::bit_cast<uint32_t>(value) >> 16 : FloatToHalf(value);
    std::memcpy(p, &bits, 2);
  };
  for (size_t at = 0; at < bytes.size(); at += block_bytes) {
    std::byte* block = bytes.data() + at;
    const float value = normal(random);
    switch (format) {
      case Format::kF32:
        std::memcpy(block, &value, 4);
        break;
      case Format::kF16:
      case Format::kBF16:
      case Format::kQ8_0:
      case Format::kQ4_0:
      case Format::kQ5_0:
        put_half(block, value);
        break;
      case Format::kQ4_1:
      case Format::kQ5_1:
      case Format::kQ4_K:
      case Format::kQ5_K:
        put_half(block, value);
        put_half(block + 2, normal(random));
        break;
      case Format::kQ6_K:
        put_half(block + 208, value);
        break;
    }
  }
  return bytes;
}

}  // namespace tercet::kernels
