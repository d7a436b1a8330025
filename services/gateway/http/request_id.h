// Identifiers of requests and answers. Thread-safe.
#pragma once

#include <string>
#include <string_view>

namespace tercet::gateway {

// `given` if it may stand in a header, a log and a gRPC call (1 … 128 printable ASCII characters without space), else a
// new random one.
std::string RequestIdOr(std::string_view given);

// `prefix` and 24 random hexadecimal digits: "chatcmpl-5f0c…".
std::string RandomId(std::string_view prefix);

}  // namespace tercet::gateway
