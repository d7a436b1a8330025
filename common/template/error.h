// The exception of this library. It is thrown by lexer, parser and interpreter and caught in chat_template.cc, where it
// becomes a status; it never leaves the library.
#pragma once

#include <cstddef>
#include <string>

#include "common/template/strcat.h"

namespace tercet::chat {

inline constexpr size_t kNoOffset = static_cast<size_t>(-1);

struct TemplateError {
  std::string message;
  // Byte in the template, or kNoOffset: where the interpreter is.
  size_t offset = kNoOffset;
};

template <typename... Parts>
[[noreturn]] void Fail(const Parts&... parts) {
  throw TemplateError{StrCat(parts...)};
}

template <typename... Parts>
[[noreturn]] void FailAt(size_t offset, const Parts&... parts) {
  throw TemplateError{StrCat(parts...), offset};
}

}  // namespace tercet::chat
