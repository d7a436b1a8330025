// How a supervisor learns where a child listens: one line of JSON in a file that appears whole.
#pragma once

#include <absl/status/status.h>

#include <string>

namespace tercet::rpc {

// Writes {"listen": …, "metrics": …} to `path` (by rename, so that no reader sees a half). An empty path does nothing.
absl::Status WriteReadyFile(const std::string& path, const std::string& listen, const std::string& metrics);

}  // namespace tercet::rpc
