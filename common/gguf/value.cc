#include "common/gguf/value.h"

#include <fmt/format.h>

#include <cstring>

namespace tercet::gguf {
namespace {

// GGUF is little-endian, and so is every machine that Tercet runs on.
template <typename T>
T Load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}

}  // namespace

std::string_view NameOf(ValueType type) {
  switch (type) {
    case ValueType::kUint8:
      return "u8";
    case ValueType::kInt8:
      return "i8";
    case ValueType::kUint16:
      return "u16";
    case ValueType::kInt16:
      return "i16";
    case ValueType::kUint32:
      return "u32";
    case ValueType::kInt32:
      return "i32";
    case ValueType::kFloat32:
      return "f32";
    case ValueType::kBool:
      return "bool";
    case ValueType::kString:
      return "string";
    case ValueType::kArray:
      return "array";
    case ValueType::kUint64:
      return "u64";
    case ValueType::kInt64:
      return "i64";
    case ValueType::kFloat64:
      return "f64";
  }
  return "unknown";
}

size_t SizeOf(ValueType type) {
  switch (type) {
    case ValueType::kUint8:
    case ValueType::kInt8:
    case ValueType::kBool:
      return 1;
    case ValueType::kUint16:
    case ValueType::kInt16:
      return 2;
    case ValueType::kUint32:
    case ValueType::kInt32:
    case ValueType::kFloat32:
      return 4;
    case ValueType::kUint64:
    case ValueType::kInt64:
    case ValueType::kFloat64:
      return 8;
    case ValueType::kString:
    case ValueType::kArray:
      return 0;
  }
  return 0;
}

bool IsInteger(ValueType type) {
  switch (type) {
    case ValueType::kUint8:
    case ValueType::kInt8:
    case ValueType::kUint16:
    case ValueType::kInt16:
    case ValueType::kUint32:
    case ValueType::kInt32:
    case ValueType::kUint64:
    case ValueType::kInt64:
      return true;
    case ValueType::kFloat32:
    case ValueType::kFloat64:
    case ValueType::kBool:
    case ValueType::kString:
    case ValueType::kArray:
      return false;
  }
  return false;
}

std::string Value::TypeName() const {
  if (!is_array_) return std::string(NameOf(element_type_));
  return fmt::format("array of {} {}", count_, NameOf(element_type_));
}

int64_t Value::AsSigned(uint64_t index) const {
  const std::byte* at = bytes_.subspan(index * SizeOf(element_type_), SizeOf(element_type_)).data();
  switch (element_type_) {
    case ValueType::kUint8:
      return Load<uint8_t>(at);
    case ValueType::kInt8:
      return Load<int8_t>(at);
    case ValueType::kUint16:
      return Load<uint16_t>(at);
    case ValueType::kInt16:
      return Load<int16_t>(at);
    case ValueType::kUint32:
      return Load<uint32_t>(at);
    case ValueType::kInt32:
      return Load<int32_t>(at);
    case ValueType::kUint64:
    case ValueType::kInt64:
      return Load<int64_t>(at);
    case ValueType::kFloat32:
    case ValueType::kFloat64:
    case ValueType::kBool:
    case ValueType::kString:
    case ValueType::kArray:
      return 0;
  }
  return 0;
}

uint64_t Value::AsUnsigned(uint64_t index) const { return static_cast<uint64_t>(AsSigned(index)); }

double Value::AsDouble(uint64_t index) const {
  const std::byte* at = bytes_.subspan(index * SizeOf(element_type_), SizeOf(element_type_)).data();
  if (element_type_ == ValueType::kFloat32) return Load<float>(at);
  if (element_type_ == ValueType::kFloat64) return Load<double>(at);
  return 0;
}

bool Value::AsBool(uint64_t index) const {
  return element_type_ == ValueType::kBool && bytes_.subspan(index, 1)[0] != std::byte{0};
}

std::string_view Value::AsString() const {
  if (element_type_ != ValueType::kString || is_array_) return {};
  return {reinterpret_cast<const char*>(bytes_.data()), bytes_.size()};
}

std::vector<std::string_view> Value::AsStrings() const {
  std::vector<std::string_view> strings;
  if (element_type_ != ValueType::kString || !is_array_) return strings;
  strings.reserve(count_);
  size_t at = 0;
  for (uint64_t i = 0; i < count_; ++i) {
    const auto length = Load<uint64_t>(bytes_.subspan(at, sizeof(uint64_t)).data());
    const auto text = bytes_.subspan(at + sizeof(uint64_t), length);
    strings.emplace_back(reinterpret_cast<const char*>(text.data()), text.size());
    at += sizeof(uint64_t) + length;
  }
  return strings;
}

}  // namespace tercet::gguf
