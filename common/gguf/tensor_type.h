// Tensor types as GGUF numbers them, and how many bytes their blocks take.
//
// A tensor is stored row by row; a row (the fastest dimension) is a whole number of blocks. The table knows every type
// that a GGUF file of today may name, so that any well-formed file can be inspected; which of them can be computed with
// is for the executor to say.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace tercet::gguf {

enum class TensorType : uint32_t {
  kF32 = 0,
  kF16 = 1,
  kQ4_0 = 2,
  kQ4_1 = 3,
  kQ5_0 = 6,
  kQ5_1 = 7,
  kQ8_0 = 8,
  kQ8_1 = 9,
  kQ2_K = 10,
  kQ3_K = 11,
  kQ4_K = 12,
  kQ5_K = 13,
  kQ6_K = 14,
  kQ8_K = 15,
  kIQ2_XXS = 16,
  kIQ2_XS = 17,
  kIQ3_XXS = 18,
  kIQ1_S = 19,
  kIQ4_NL = 20,
  kIQ3_S = 21,
  kIQ2_S = 22,
  kIQ4_XS = 23,
  kI8 = 24,
  kI16 = 25,
  kI32 = 26,
  kI64 = 27,
  kF64 = 28,
  kIQ1_M = 29,
  kBF16 = 30,
  kTQ1_0 = 34,
  kTQ2_0 = 35,
  kMXFP4 = 39,
};

struct TensorTypeInfo {
  TensorType type;
  std::string_view name;  // as the field writes it: "Q4_K"
  uint32_t block_elements;
  uint32_t block_bytes;
};

// What is known of the type numbered `number`; nothing for a number which GGUF does not use (or no longer uses).
std::optional<TensorTypeInfo> FindTensorType(uint32_t number);

// As above, for a type that came out of a parsed file.
TensorTypeInfo InfoOf(TensorType type);

}  // namespace tercet::gguf
