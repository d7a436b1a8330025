// One metadata value of a GGUF file.
//
// A value is a view into the file's bytes: it is valid as long as the File it came from, and it costs no memory beyond
// itself, however long the array it stands for. Everything was checked when the file was parsed, so reading cannot
// fail. Immutable; safe to read from any number of threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tercet::gguf {

// Numbered as in the file.
enum class ValueType : uint32_t {
  kUint8 = 0,
  kInt8 = 1,
  kUint16 = 2,
  kInt16 = 3,
  kUint32 = 4,
  kInt32 = 5,
  kFloat32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kUint64 = 10,
  kInt64 = 11,
  kFloat64 = 12,
};

// "u32", "string", …; "array" for arrays.
std::string_view NameOf(ValueType type);

// Bytes of one element; 0 for strings and arrays, whose size varies.
size_t SizeOf(ValueType type);

bool IsInteger(ValueType type);

class Value {
 public:
  // A single number, truth value or string. `bytes` holds exactly its encoding (a string: without its length).
  static Value Single(ValueType type, std::span<const std::byte> bytes) { return Value(type, false, 1, bytes); }
  // An array of `count` elements; `bytes` holds exactly their encodings, each string behind its 8-byte length.
  static Value Array(ValueType element, uint64_t count, std::span<const std::byte> bytes) {
    return Value(element, true, count, bytes);
  }

  bool is_array() const { return is_array_; }
  // The type of the value, of its elements if it is an array.
  ValueType element_type() const { return element_type_; }
  // Elements; 1 for a single value.
  uint64_t count() const { return count_; }
  // For people: "u32", "array of 49152 strings".
  std::string TypeName() const;

  // Numbers and truth values, element `index` < count(). AsUnsigned and AsSigned are for integers (a u64 above 2^63-1
  // wraps in AsSigned); AsDouble is for floats.
  uint64_t AsUnsigned(uint64_t index = 0) const;
  int64_t AsSigned(uint64_t index = 0) const;
  double AsDouble(uint64_t index = 0) const;
  bool AsBool(uint64_t index = 0) const;
  // A single string's bytes. They are not necessarily UTF-8.
  std::string_view AsString() const;
  // An array of strings, in order.
  std::vector<std::string_view> AsStrings() const;

 private:
  Value(ValueType type, bool is_array, uint64_t count, std::span<const std::byte> bytes)
      : element_type_(type), is_array_(is_array), count_(count), bytes_(bytes) {}

  ValueType element_type_;
  bool is_array_;
  uint64_t count_;
  std::span<const std::byte> bytes_;
};

}  // namespace tercet::gguf
