// One file over HTTP(S), resumed where an earlier attempt stopped, checked when it is complete.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace tercet::cli {

struct DownloadRequest {
  std::string url;     // http or https
  std::string path;    // where the file goes; PATH.part holds what is there of it
  std::string label;   // for the progress bar
  std::string sha256;  // 64 hexadecimal digits; empty: not checked
};

// Ctrl-C leaves PATH.part for the next attempt. Errors are sentences: no network, not found, disk full, wrong hash
// (then PATH.part is removed: it is of no use).
absl::Status Download(const DownloadRequest& request);

// A small text (at most 16 MiB), asked for as `accept`.
absl::StatusOr<std::string> Fetch(const std::string& url, const std::string& accept);

}  // namespace tercet::cli
