#include "services/cli/private_dir.h"

#include <fmt/format.h>
#include <stdlib.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

namespace tercet::cli {
namespace {

// Room for the longest name put into the directory, "/tokenizer.sock", and the final zero.
constexpr size_t kLongestName = 24;

std::string BaseDirectory() {
  for (const char* name : {"XDG_RUNTIME_DIR", "TMPDIR"}) {
    const char* value = getenv(name);
    if (value != nullptr && value[0] == '/' && access(value, W_OK | X_OK) == 0) return value;
  }
  return "/tmp";
}

}  // namespace

absl::StatusOr<PrivateDir> PrivateDir::Make() {
  PrivateDir made;
  std::string pattern = fmt::format("{}/tercet-XXXXXX", BaseDirectory());
  if (pattern.size() + kLongestName > sizeof(sockaddr_un::sun_path)) {
    return absl::InvalidArgumentError(
        fmt::format("{} is too long a path for Unix sockets; set TMPDIR to a shorter one", pattern));
  }
  if (mkdtemp(pattern.data()) == nullptr) {
    return absl::UnavailableError(
        fmt::format("cannot make the directory {} for sockets: {}; set TMPDIR to one that is writable", pattern,
                    std::strerror(errno)));
  }
  made.path_ = pattern;
  return made;
}

PrivateDir::PrivateDir(PrivateDir&& other) noexcept : path_(std::exchange(other.path_, {})) {}

PrivateDir& PrivateDir::operator=(PrivateDir&& other) noexcept {
  std::swap(path_, other.path_);
  return *this;
}

PrivateDir::~PrivateDir() {
  if (path_.empty()) return;
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace tercet::cli
