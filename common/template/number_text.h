// Python's int('…') and float('…').
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "common/template/runtime.h"
#include "common/template/value.h"

namespace tercet::chat {

// int(text, base); base 0 reads 0x, 0o and 0b. Missing when the text is not a number of that base.
Value ParseInteger(Runtime& runtime, std::string_view text, int64_t base);
// float(text), also inf and nan.
std::optional<double> ParseFloat(std::string_view text);

}  // namespace tercet::chat
