#include "common/gguf/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstring>

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "common/gguf/parser.h"

namespace tercet::gguf {
namespace {

absl::Status OpenError(const std::string& path, int error) {
  const std::string message = fmt::format("{}: cannot be opened: {}", path, std::strerror(error));
  switch (error) {
    case ENOENT:
    case ENOTDIR:
      return absl::NotFoundError(message);
    case EACCES:
    case EPERM:
      return absl::PermissionDeniedError(message);
    default:
      return absl::InvalidArgumentError(message);
  }
}

absl::Status WrongType(std::string_view key, const Value& value, std::string_view expected) {
  return absl::InvalidArgumentError(
      fmt::format("metadata key '{}' is {}; expected {}", key, value.TypeName(), expected));
}

}  // namespace

uint64_t Tensor::elements() const {
  uint64_t product = 1;
  for (uint64_t dimension : dimensions) product *= dimension;
  return product;
}

absl::StatusOr<std::unique_ptr<File>> File::Open(const std::string& path) {
  // O_NONBLOCK: opening a FIFO must fail below, not wait for a writer.
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return OpenError(path, errno);
  absl::Cleanup close_fd = [fd] { close(fd); };

  struct stat status = {};
  if (fstat(fd, &status) != 0) return OpenError(path, errno);
  if (S_ISDIR(status.st_mode)) {
    return absl::InvalidArgumentError(fmt::format("{}: is a directory; name the GGUF file in it", path));
  }
  if (!S_ISREG(status.st_mode)) return absl::InvalidArgumentError(fmt::format("{}: is not a regular file", path));
  if (status.st_size == 0) return absl::InvalidArgumentError(fmt::format("{}: the file is empty", path));

  const auto size = static_cast<size_t>(status.st_size);
  void* begin = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
  if (begin == MAP_FAILED) {
    return absl::ResourceExhaustedError(fmt::format("{}: cannot be mapped: {}", path, std::strerror(errno)));
  }
  std::unique_ptr<File> file(new File);
  file->bytes_ = {static_cast<const std::byte*>(begin), size};
  file->mapped_ = true;
  if (absl::Status parsed = Parser::Parse(file->bytes_, file.get()); !parsed.ok()) {
    return absl::Status(parsed.code(), fmt::format("{}: {}", path, std::string(parsed.message())));
  }
  return file;
}

absl::StatusOr<std::unique_ptr<File>> File::Parse(std::span<const std::byte> bytes) {
  std::unique_ptr<File> file(new File);
  if (absl::Status parsed = Parser::Parse(bytes, file.get()); !parsed.ok()) return parsed;
  return file;
}

File::~File() {
  if (mapped_) munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

void File::DropPages() const {
  if (mapped_) madvise(const_cast<std::byte*>(bytes_.data()), bytes_.size(), MADV_DONTNEED);
}

const Tensor* File::Find(std::string_view name) const {
  const auto found = tensor_index_.find(name);
  return found == tensor_index_.end() ? nullptr : &tensors_[found->second];
}

absl::StatusOr<Value> File::Get(std::string_view key) const {
  const auto found = metadata_.find(key);
  if (found == metadata_.end()) return absl::NotFoundError(fmt::format("metadata key '{}' is missing", key));
  return found->second;
}

absl::StatusOr<uint64_t> File::Uint(std::string_view key) const {
  absl::StatusOr<Value> value = Get(key);
  if (!value.ok()) return value.status();
  if (value->is_array() || !IsInteger(value->element_type())) return WrongType(key, *value, "an unsigned integer");
  if (value->element_type() != ValueType::kUint64 && value->AsSigned() < 0) {
    return absl::InvalidArgumentError(fmt::format("metadata key '{}' is negative: {}", key, value->AsSigned()));
  }
  return value->AsUnsigned();
}

absl::StatusOr<double> File::Float(std::string_view key) const {
  absl::StatusOr<Value> value = Get(key);
  if (!value.ok()) return value.status();
  const ValueType type = value->element_type();
  if (value->is_array() || (type != ValueType::kFloat32 && type != ValueType::kFloat64)) {
    return WrongType(key, *value, "a floating-point number");
  }
  if (!std::isfinite(value->AsDouble())) {
    return absl::InvalidArgumentError(fmt::format("metadata key '{}' is not a finite number", key));
  }
  return value->AsDouble();
}

absl::StatusOr<std::string> File::String(std::string_view key) const {
  absl::StatusOr<Value> value = Get(key);
  if (!value.ok()) return value.status();
  if (value->is_array() || value->element_type() != ValueType::kString) return WrongType(key, *value, "a string");
  return std::string(value->AsString());
}

absl::StatusOr<bool> File::Bool(std::string_view key) const {
  absl::StatusOr<Value> value = Get(key);
  if (!value.ok()) return value.status();
  if (value->is_array() || value->element_type() != ValueType::kBool) return WrongType(key, *value, "a bool");
  return value->AsBool();
}

absl::StatusOr<std::vector<std::string_view>> File::Strings(std::string_view key) const {
  absl::StatusOr<Value> value = Get(key);
  if (!value.ok()) return value.status();
  if (!value->is_array() || value->element_type() != ValueType::kString) {
    return WrongType(key, *value, "an array of string");
  }
  return value->AsStrings();
}

absl::StatusOr<std::vector<float>> File::Floats(std::string_view key) const {
  absl::StatusOr<Value> value = Get(key);
  if (!value.ok()) return value.status();
  if (!value->is_array() || value->element_type() != ValueType::kFloat32)
    return WrongType(key, *value, "an array of f32");
  std::vector<float> floats(value->count());
  for (uint64_t i = 0; i < value->count(); ++i) floats[i] = static_cast<float>(value->AsDouble(i));
  return floats;
}

absl::StatusOr<std::vector<int64_t>> File::Ints(std::string_view key) const {
  absl::StatusOr<Value> value = Get(key);
  if (!value.ok()) return value.status();
  const ValueType type = value->element_type();
  if (!value->is_array() || !IsInteger(type) || SizeOf(type) < sizeof(int32_t)) {
    return WrongType(key, *value, "an array of i32");
  }
  std::vector<int64_t> ints(value->count());
  for (uint64_t i = 0; i < value->count(); ++i) {
    ints[i] = value->AsSigned(i);
    if (type == ValueType::kUint64 && ints[i] < 0) {
      return absl::InvalidArgumentError(fmt::format("metadata key '{}': element {} exceeds 63 bits", key, i));
    }
  }
  return ints;
}

absl::StatusOr<std::vector<bool>> File::Bools(std::string_view key) const {
  absl::StatusOr<Value> value = Get(key);
  if (!value.ok()) return value.status();
  if (!value->is_array() || value->element_type() != ValueType::kBool)
    return WrongType(key, *value, "an array of bool");
  std::vector<bool> bools(value->count());
  for (uint64_t i = 0; i < value->count(); ++i) bools[i] = value->AsBool(i);
  return bools;
}

}  // namespace tercet::gguf
