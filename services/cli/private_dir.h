// A directory that only this user can enter, for the sockets between the processes of one `tercet serve`.
// Owns the directory: it and everything in it are removed on destruction. Movable.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace tercet::cli {

class PrivateDir {
 public:
  // Makes it (mode 0700) under $XDG_RUNTIME_DIR, else $TMPDIR, else /tmp. INVALID_ARGUMENT when socket paths in there
  // would be longer than the system allows.
  static absl::StatusOr<PrivateDir> Make();

  PrivateDir(PrivateDir&& other) noexcept;
  PrivateDir& operator=(PrivateDir&& other) noexcept;
  ~PrivateDir();

  const std::string& path() const { return path_; }

 private:
  PrivateDir() = default;
  std::string path_;
};

}  // namespace tercet::cli
