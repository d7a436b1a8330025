#include "common/rpc/ready_file.h"

#include <absl/strings/str_cat.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

namespace tercet::rpc {

absl::Status WriteReadyFile(const std::string& path, const std::string& listen, const std::string& metrics) {
  if (path.empty()) return absl::OkStatus();
  std::string temporary = absl::StrCat(path, ".new");
  {
    std::ofstream file(temporary, std::ios::trunc);
    file << nlohmann::json{{"listen", listen}, {"metrics", metrics}}.dump() << "\n";
    if (!file.flush()) {
      return absl::UnavailableError(absl::StrCat("cannot write ", temporary, ": ", std::strerror(errno), " (--ready-file)"));
    }
  }
  if (std::rename(temporary.c_str(), path.c_str()) != 0) {
    return absl::UnavailableError(absl::StrCat("cannot write ", path, ": ", std::strerror(errno), " (--ready-file)"));
  }
  return absl::OkStatus();
}

}  // namespace tercet::rpc
