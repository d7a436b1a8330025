// What the kernel tests share: the instruction sets under test, random data, and equality of bits.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <random>
#include <string>
#include <vector>

#include "kernels/dispatch.h"
#include "kernels/formats.h"
#include "kernels/panels.h"
#include "kernels/quantize.h"
#include "kernels/scalar/ops.h"

#ifdef TERCET_EMULATED_AVX512
namespace tercet::kernels::avx512_emulated {
extern const Table kTable;
}
#endif

namespace tercet::kernels {

struct IsaUnderTest {
  std::string name;
  const Table* table;
};

// Whatever must equal the scalar reference on this machine.
inline std::vector<IsaUnderTest> IsasUnderTest() {
#ifdef TERCET_EMULATED_AVX512
  return {{"avx512 (emulated)", &avx512_emulated::kTable}};
#else
  std::vector<IsaUnderTest> isas;
  for (const Isa isa : {Isa::kAvx2, Isa::kAvx512}) {
    if (const Table* table = TableFor(isa)) isas.push_back({IsaName(isa), table});
  }
  return isas;
#endif
}

inline const Table& Reference() { return scalar::kTable; }

// Bytes aligned as packed panels must be.
class AlignedBytes {
 public:
  explicit AlignedBytes(size_t size) : data_(static_cast<std::byte*>(::operator new(size, kAlign))) {}
  ~AlignedBytes() { ::operator delete(data_, kAlign); }
  AlignedBytes(const AlignedBytes&) = delete;
  AlignedBytes& operator=(const AlignedBytes&) = delete;
  std::byte* data() const { return data_; }

 private:
  static constexpr std::align_val_t kAlign{64};
  std::byte* data_;
};

inline std::vector<float> RandomFloats(int64_t n, std::mt19937& random, float deviation = 1.0f) {
  std::normal_distribution<float> normal(0.0f, deviation);
  std::vector<float> x(n);
  for (float& v : x) v = normal(random);
  return x;
}

// Equal bits; any NaN equals any other, since which NaN comes out depends on the order of operands.
inline bool SameBits(float a, float b) {
  return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b) || (a != a && b != b);
}

inline ::testing::AssertionResult SameBits(const float* expected, const float* actual, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    if (!SameBits(expected[i], actual[i])) {
      return ::testing::AssertionFailure() << "at " << i << " of " << n << ": expected " << std::hexfloat << expected[i]
                                           << ", got " << actual[i];
    }
  }
  return ::testing::AssertionSuccess();
}

inline ::testing::AssertionResult SameBits(const std::vector<float>& expected, const std::vector<float>& actual) {
  if (expected.size() != actual.size()) return ::testing::AssertionFailure() << "sizes differ";
  return SameBits(expected.data(), actual.data(), static_cast<int64_t>(expected.size()));
}

// GGUF rows of random bits, with the f16 scales and the floats of ordinary size.
std::vector<std::byte> RandomGgufRows(Format format, int64_t rows, int64_t cols, std::mt19937& random);

// A packed matrix, with the GGUF rows it came from.
struct Matrix {
  Matrix(Format format, int64_t rows, int64_t cols, std::mt19937& random)
      : gguf(RandomGgufRows(format, rows, cols, random)), packed(PackedBytes(format, rows, cols)) {
    PackPanels(format, gguf.data(), rows, cols, 0, PanelCount(rows), packed.data());
    view = {format, rows, cols, packed.data()};
  }
  std::vector<float> Dequantized(int64_t row) const {
    std::vector<float> out(view.cols);
    DequantizeRow(view.format, gguf.data() + row * RowBytes(view.format, view.cols), view.cols, out.data());
    return out;
  }
  std::vector<std::byte> gguf;
  AlignedBytes packed;
  PackedMatrix view;
};

}  // namespace tercet::kernels
