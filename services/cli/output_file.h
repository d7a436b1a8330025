// A file that appears under its name only when it is complete: written beside it as NAME.part, then renamed.
// Not thread-safe.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace tercet::cli {

class OutputFile {
 public:
  // With `resume`, what an earlier attempt left in NAME.part is kept and size() tells how much it is; else it is
  // dropped.
  static absl::StatusOr<OutputFile> Open(const std::string& path, bool resume);

  OutputFile(OutputFile&& other) noexcept;
  ~OutputFile();

  uint64_t size() const { return size_; }
  const std::string& part_path() const { return part_path_; }

  // RESOURCE_EXHAUSTED: the disk is full; the sentence says so.
  absl::Status Write(std::string_view bytes);
  // Drops all that was written.
  absl::Status Restart();
  // Makes sure that it is on disk. Then Commit gives it its name, or Discard removes it.
  absl::Status Close();
  absl::Status Commit();
  void Discard();

 private:
  OutputFile() = default;
  absl::Status WriteError(int error) const;

  std::string path_;
  std::string part_path_;
  std::FILE* file_ = nullptr;
  uint64_t size_ = 0;
};

}  // namespace tercet::cli
