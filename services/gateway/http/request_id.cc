#include "services/gateway/http/request_id.h"

#include <absl/random/random.h>
#include <absl/strings/str_cat.h>

#include <algorithm>

namespace tercet::gateway {

std::string RequestIdOr(std::string_view given) {
  bool fit = !given.empty() && given.size() <= 128 &&
             std::all_of(given.begin(), given.end(), [](char c) { return c > 0x20 && c < 0x7F; });
  return fit ? std::string(given) : RandomId("req-");
}

std::string RandomId(std::string_view prefix) {
  thread_local absl::BitGen generator;
  return absl::StrCat(absl::string_view(prefix.data(), prefix.size()),
                      absl::Hex(absl::Uniform<uint64_t>(generator), absl::kZeroPad16),
                      absl::Hex(absl::Uniform<uint32_t>(generator), absl::kZeroPad8));
}

}  // namespace tercet::gateway
