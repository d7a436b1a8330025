// The target of a request line. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace tercet::gateway {

// The percent-decoded path of "/path?query", "http://host/path" or "*"; nothing when the percent-encoding is broken or
// hides a control character.
std::optional<std::string> PathOfTarget(std::string_view target);

}  // namespace tercet::gateway
