#include "common/gguf/parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>
#include <utility>

#include "absl/strings/escaping.h"

// Every step may fail; the first fault ends the parse.
#define GGUF_RETURN_IF_ERROR(expression) \
  do {                                   \
    absl::Status status_ = (expression); \
    if (!status_.ok()) return status_;   \
  } while (false)

namespace tercet::gguf {
namespace {

static_assert(std::endian::native == std::endian::little, "GGUF files are read in place: little-endian machines only");

constexpr uint64_t kDefaultAlignment = 32;
constexpr uint64_t kMinAlignment = 8;
constexpr uint64_t kMaxAlignment = 4096;
// Far above any real model (a few dozen keys, a few thousand tensors), far below what would hurt.
constexpr uint64_t kMaxEntries = 65536;
// The least an entry can take: key length, 1 byte of key, type, 1 byte of value; name length, 1 byte of name, number of
// dimensions, one dimension, type, offset.
constexpr uint64_t kMinMetadataBytes = 8 + 1 + 4 + 1;
constexpr uint64_t kMinTensorBytes = 8 + 1 + 4 + 8 + 4 + 8;
constexpr uint64_t kMaxKeyBytes = 65535;  // the format's own limit
constexpr uint64_t kMaxNameBytes = 255;
constexpr uint64_t kMaxStringBytes = uint64_t{64} << 20;
constexpr uint32_t kMaxDimensions = 4;
constexpr uint64_t kMaxSize = std::numeric_limits<int64_t>::max();

// A name from the file, fit to be shown: control characters escaped, long ones cut.
std::string Shown(std::string_view name) {
  constexpr size_t kLongest = 80;
  const std::string escaped = absl::CHexEscape(std::string(name.substr(0, kLongest)));
  return fmt::format("'{}{}'", escaped, name.size() > kLongest ? "…" : "");
}

template <typename... Parts>
absl::Status Malformed(fmt::format_string<Parts...> sentence, Parts&&... parts) {
  return absl::InvalidArgumentError(fmt::format(sentence, std::forward<Parts>(parts)...));
}

// Product of the dimensions, or nothing if it does not fit 63 bits.
bool CountElements(const std::vector<uint64_t>& dimensions, uint64_t* elements) {
  *elements = 1;
  for (uint64_t dimension : dimensions) {
    if (__builtin_mul_overflow(*elements, dimension, elements) || *elements > kMaxSize) return false;
  }
  return true;
}

}  // namespace

absl::Status Parser::Parse(std::span<const std::byte> bytes, File* file) {
  file->bytes_ = bytes;
  Parser parser(bytes, file);
  GGUF_RETURN_IF_ERROR(parser.ReadHeader());
  GGUF_RETURN_IF_ERROR(parser.ReadMetadata());
  GGUF_RETURN_IF_ERROR(parser.CheckNotSplit());
  GGUF_RETURN_IF_ERROR(parser.ReadAlignment());
  GGUF_RETURN_IF_ERROR(parser.ReadTensors());
  GGUF_RETURN_IF_ERROR(parser.PlaceTensors());
  return parser.CheckNoOverlap();
}

absl::Status Parser::ReadHeader() {
  if (bytes_.empty()) return Malformed("the file is empty");
  std::span<const std::byte> magic;
  GGUF_RETURN_IF_ERROR(cursor_.Take("the magic", 4, &magic));
  if (std::string_view(reinterpret_cast<const char*>(magic.data()), magic.size()) != "GGUF") {
    return Malformed("this is not a GGUF file: it does not begin with 'GGUF'");
  }
  uint32_t version = 0;
  GGUF_RETURN_IF_ERROR(cursor_.Read("the version", &version));
  if (version != 0 && (version & 0xFFFF) == 0) {
    return Malformed("the file is big-endian; convert it to a little-endian GGUF file");
  }
  if (version != 2 && version != 3) {
    return Malformed("GGUF version {} is not supported (2 and 3 are); convert the model anew", version);
  }
  file_->version_ = version;

  GGUF_RETURN_IF_ERROR(cursor_.Read("the number of tensors", &tensor_count_));
  GGUF_RETURN_IF_ERROR(cursor_.Read("the number of metadata entries", &metadata_count_));
  if (tensor_count_ > kMaxEntries || tensor_count_ > cursor_.left() / kMinTensorBytes) {
    return Malformed("the file declares {} tensors, more than its {} bytes or the limit of {} allow", tensor_count_,
                     bytes_.size(), kMaxEntries);
  }
  if (metadata_count_ > kMaxEntries || metadata_count_ > cursor_.left() / kMinMetadataBytes) {
    return Malformed("the file declares {} metadata entries, more than its {} bytes or the limit of {} allow",
                     metadata_count_, bytes_.size(), kMaxEntries);
  }
  return absl::OkStatus();
}

absl::Status Parser::ReadString(std::string_view what, std::string_view* text) {
  uint64_t length = 0;
  GGUF_RETURN_IF_ERROR(cursor_.Read(fmt::format("the length of {}", what), &length));
  if (length > kMaxStringBytes && length <= cursor_.left()) {
    return Malformed("{} has {} bytes, more than the limit of {}", what, length, kMaxStringBytes);
  }
  std::span<const std::byte> bytes;
  GGUF_RETURN_IF_ERROR(cursor_.Take(what, length, &bytes));
  *text = {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  return absl::OkStatus();
}

absl::Status Parser::ReadMetadata() {
  for (uint64_t i = 0; i < metadata_count_; ++i) {
    const std::string where = fmt::format("metadata key {} of {}", i + 1, metadata_count_);
    std::string_view key;
    GGUF_RETURN_IF_ERROR(ReadString(where, &key));
    if (key.empty()) return Malformed("{} is empty", where);
    if (key.size() > kMaxKeyBytes) {
      return Malformed("{} has {} bytes, more than the limit of {}", where, key.size(), kMaxKeyBytes);
    }
    if (file_->Has(key)) return Malformed("metadata key {} occurs twice", Shown(key));
    absl::StatusOr<Value> value = ReadValue(fmt::format("metadata key {}", Shown(key)));
    if (!value.ok()) return value.status();
    file_->metadata_.emplace(std::string(key), *value);
  }
  return absl::OkStatus();
}

absl::StatusOr<Value> Parser::ReadValue(std::string_view where) {
  uint32_t number = 0;
  GGUF_RETURN_IF_ERROR(cursor_.Read(fmt::format("the type of {}", where), &number));
  const auto type = static_cast<ValueType>(number);
  if (type == ValueType::kArray) return ReadArray(where);
  if (type == ValueType::kString) {
    std::string_view text;
    GGUF_RETURN_IF_ERROR(ReadString(fmt::format("the value of {}", where), &text));
    return Value::Single(type, std::as_bytes(std::span(text.data(), text.size())));
  }
  if (SizeOf(type) == 0) return Malformed("{}: value type {} is unknown", where, number);
  std::span<const std::byte> bytes;
  GGUF_RETURN_IF_ERROR(cursor_.Take(fmt::format("the value of {}", where), SizeOf(type), &bytes));
  if (type == ValueType::kBool && bytes[0] > std::byte{1}) {
    return Malformed("{}: a truth value must be 0 or 1, this one is {}", where, static_cast<int>(bytes[0]));
  }
  return Value::Single(type, bytes);
}

absl::StatusOr<Value> Parser::ReadArray(std::string_view where) {
  uint32_t number = 0;
  uint64_t count = 0;
  GGUF_RETURN_IF_ERROR(cursor_.Read(fmt::format("the element type of {}", where), &number));
  GGUF_RETURN_IF_ERROR(cursor_.Read(fmt::format("the element count of {}", where), &count));
  const auto type = static_cast<ValueType>(number);
  if (type == ValueType::kArray) return Malformed("{}: arrays of arrays are not supported", where);
  const bool strings = type == ValueType::kString;
  // A string takes at least the 8 bytes of its length.
  const uint64_t least = strings ? sizeof(uint64_t) : SizeOf(type);
  if (least == 0) return Malformed("{}: array element type {} is unknown", where, number);
  if (count > cursor_.left() / least) {
    return Malformed("{}: an array of {} {} does not fit into the {} bytes left in the file", where, count,
                     NameOf(type), cursor_.left());
  }
  std::span<const std::byte> bytes;
  if (!strings) {
    GGUF_RETURN_IF_ERROR(cursor_.Take(where, count * least, &bytes));
    if (type == ValueType::kBool) {
      const auto bad = std::find_if(bytes.begin(), bytes.end(), [](std::byte b) { return b > std::byte{1}; });
      if (bad != bytes.end()) {
        return Malformed("{}: a truth value must be 0 or 1, element {} is {}", where, bad - bytes.begin(),
                         static_cast<int>(*bad));
      }
    }
    return Value::Array(type, count, bytes);
  }
  const size_t begin = cursor_.position();
  for (uint64_t i = 0; i < count; ++i) {
    // The common case without making a message for it: vocabularies have hundreds of thousands of entries.
    Cursor ahead = cursor_;
    uint64_t length = 0;
    std::span<const std::byte> text;
    if (ahead.Read("", &length).ok() && length <= kMaxStringBytes && ahead.Take("", length, &text).ok()) {
      cursor_ = ahead;
      continue;
    }
    std::string_view ignored;
    GGUF_RETURN_IF_ERROR(ReadString(fmt::format("element {} of {}", i, where), &ignored));
  }
  return Value::Array(type, count, bytes_.subspan(begin, cursor_.position() - begin));
}

absl::Status Parser::CheckNotSplit() const {
  if (!file_->Has("split.count")) return absl::OkStatus();
  absl::StatusOr<uint64_t> parts = file_->Uint("split.count");
  if (!parts.ok()) return parts.status();
  if (*parts > 1) {
    return Malformed("the file is one of {} parts of a split model (split.count); join them into one file first",
                     *parts);
  }
  return absl::OkStatus();
}

absl::Status Parser::ReadAlignment() {
  alignment_ = kDefaultAlignment;
  if (!file_->Has("general.alignment")) return absl::OkStatus();
  absl::StatusOr<uint64_t> alignment = file_->Uint("general.alignment");
  if (!alignment.ok()) return alignment.status();
  if (!std::has_single_bit(*alignment) || *alignment < kMinAlignment || *alignment > kMaxAlignment) {
    return Malformed("metadata key 'general.alignment' is {}; it must be a power of two from {} to {}", *alignment,
                     kMinAlignment, kMaxAlignment);
  }
  alignment_ = *alignment;
  return absl::OkStatus();
}

absl::Status Parser::ReadTensors() {
  // The count was compared with the file's length before the metadata took their part of it.
  if (tensor_count_ > cursor_.left() / kMinTensorBytes) {
    return Malformed("the file declares {} tensors, more than the {} bytes behind its metadata can hold", tensor_count_,
                     cursor_.left());
  }
  file_->tensors_.reserve(tensor_count_);
  offsets_.reserve(tensor_count_);
  sizes_.reserve(tensor_count_);
  for (uint64_t i = 0; i < tensor_count_; ++i) GGUF_RETURN_IF_ERROR(ReadTensor(i));
  for (size_t i = 0; i < file_->tensors_.size(); ++i) {
    if (!file_->tensor_index_.emplace(file_->tensors_[i].name, i).second) {
      return Malformed("tensor {} occurs twice", Shown(file_->tensors_[i].name));
    }
  }
  return absl::OkStatus();
}

absl::Status Parser::ReadTensor(uint64_t index) {
  const std::string where = fmt::format("the name of tensor {} of {}", index + 1, tensor_count_);
  std::string_view name;
  GGUF_RETURN_IF_ERROR(ReadString(where, &name));
  if (name.empty()) return Malformed("{} is empty", where);
  if (name.size() > kMaxNameBytes) {
    return Malformed("{} has {} bytes, more than the limit of {}", where, name.size(), kMaxNameBytes);
  }
  const std::string tensor_name = fmt::format("tensor {}", Shown(name));

  uint32_t dimension_count = 0;
  GGUF_RETURN_IF_ERROR(cursor_.Read(fmt::format("the number of dimensions of {}", tensor_name), &dimension_count));
  if (dimension_count < 1 || dimension_count > kMaxDimensions) {
    return Malformed("{}: {} dimensions; 1 to {} are allowed", tensor_name, dimension_count, kMaxDimensions);
  }
  Tensor tensor;
  tensor.name = std::string(name);
  for (uint32_t d = 0; d < dimension_count; ++d) {
    uint64_t dimension = 0;
    GGUF_RETURN_IF_ERROR(cursor_.Read(fmt::format("the dimensions of {}", tensor_name), &dimension));
    if (dimension == 0) return Malformed("{}: dimension {} is 0", tensor_name, d);
    tensor.dimensions.push_back(dimension);
  }

  uint32_t type_number = 0;
  uint64_t offset = 0;
  GGUF_RETURN_IF_ERROR(cursor_.Read(fmt::format("the type of {}", tensor_name), &type_number));
  GGUF_RETURN_IF_ERROR(cursor_.Read(fmt::format("the offset of {}", tensor_name), &offset));
  const std::optional<TensorTypeInfo> type = FindTensorType(type_number);
  if (!type) return Malformed("{}: type {} is unknown", tensor_name, type_number);
  tensor.type = type->type;

  uint64_t elements = 0;
  uint64_t size = 0;
  if (!CountElements(tensor.dimensions, &elements)) {
    return Malformed("{}: byte size overflows (the product of its dimensions exceeds 63 bits)", tensor_name);
  }
  if (tensor.dimensions[0] % type->block_elements != 0) {
    return Malformed("{}: rows of {} elements are not whole {} blocks of {}", tensor_name, tensor.dimensions[0],
                     type->name, type->block_elements);
  }
  if (__builtin_mul_overflow(elements / type->block_elements, uint64_t{type->block_bytes}, &size) || size > kMaxSize) {
    return Malformed("{}: byte size overflows", tensor_name);
  }
  if (offset % alignment_ != 0) {
    return Malformed("{}: offset {} is not a multiple of the alignment {}", tensor_name, offset, alignment_);
  }
  file_->tensors_.push_back(std::move(tensor));
  offsets_.push_back(offset);
  sizes_.push_back(size);
  return absl::OkStatus();
}

absl::Status Parser::PlaceTensors() {
  if (file_->tensors_.empty()) return absl::OkStatus();
  const uint64_t header_end = cursor_.position();
  // No wrap: header_end is at most the file's length, the alignment at most 4096.
  const uint64_t data_begin = (header_end + alignment_ - 1) / alignment_ * alignment_;
  const uint64_t data_bytes = data_begin <= bytes_.size() ? bytes_.size() - data_begin : 0;
  for (size_t i = 0; i < file_->tensors_.size(); ++i) {
    if (offsets_[i] > data_bytes || sizes_[i] > data_bytes - offsets_[i]) {
      return Malformed(
          "tensor {}: needs {} bytes at offset {}, but the file has only {} bytes of tensor data; it is cut short or "
          "damaged",
          Shown(file_->tensors_[i].name), sizes_[i], offsets_[i], data_bytes);
    }
    file_->tensors_[i].data = bytes_.subspan(data_begin + offsets_[i], sizes_[i]);
  }
  return absl::OkStatus();
}

absl::Status Parser::CheckNoOverlap() const {
  std::vector<size_t> order(offsets_.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [this](size_t a, size_t b) { return offsets_[a] < offsets_[b]; });
  for (size_t i = 1; i < order.size(); ++i) {
    const size_t before = order[i - 1];
    if (offsets_[before] + sizes_[before] > offsets_[order[i]]) {
      return Malformed("tensors {} and {} overlap", Shown(file_->tensors_[before].name),
                       Shown(file_->tensors_[order[i]].name));
    }
  }
  return absl::OkStatus();
}

}  // namespace tercet::gguf
