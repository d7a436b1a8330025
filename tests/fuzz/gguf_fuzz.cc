// Any bytes whatever: the parser answers with a status or with a file of which everything can be read.
#include <cstddef>
#include <cstdint>
#include <span>

#include "common/gguf/file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  auto file = tercet::gguf::File::Parse(std::as_bytes(std::span(data, size)));
  if (!file.ok()) return 0;
  volatile uint64_t sink = 0;
  for (const auto& [key, value] : (*file)->metadata()) {
    if (value.element_type() != tercet::gguf::ValueType::kString) {
      for (uint64_t i = 0; i < value.count(); ++i) sink = sink + value.AsUnsigned(i);
    } else {
      sink = sink + value.AsString().size();
      for (std::string_view text : value.AsStrings()) sink = sink + (text.empty() ? 0 : static_cast<uint8_t>(text.back()));
    }
  }
  for (const auto& tensor : (*file)->tensors()) {
    sink = sink + tensor.elements() + static_cast<uint64_t>(tensor.data.front()) + static_cast<uint64_t>(tensor.data.back());
  }
  return 0;
}
