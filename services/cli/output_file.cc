#include "services/cli/output_file.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

namespace tercet::cli {

absl::Status OutputFile::WriteError(int error) const {
  if (error == ENOSPC || error == EDQUOT) {
    return absl::ResourceExhaustedError(fmt::format(
        "the disk is full: {} cannot be written; free some space and call again, it goes on from there", part_path_));
  }
  return absl::UnavailableError(fmt::format("{} cannot be written: {}", part_path_, std::strerror(error)));
}

absl::StatusOr<OutputFile> OutputFile::Open(const std::string& path, bool resume) {
  OutputFile file;
  file.path_ = path;
  file.part_path_ = path + ".part";
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  std::error_code error;
  if (!folder.empty()) std::filesystem::create_directories(folder, error);
  if (error) return absl::UnavailableError(fmt::format("{} cannot be made: {}", folder.string(), error.message()));
  file.file_ = std::fopen(file.part_path_.c_str(), resume ? "abe" : "wbe");
  if (file.file_ == nullptr) return file.WriteError(errno);
  struct stat status = {};
  if (fstat(fileno(file.file_), &status) == 0) file.size_ = static_cast<uint64_t>(status.st_size);
  return file;
}

OutputFile::OutputFile(OutputFile&& other) noexcept
    : path_(std::move(other.path_)),
      part_path_(std::move(other.part_path_)),
      file_(std::exchange(other.file_, nullptr)),
      size_(other.size_) {}

OutputFile::~OutputFile() {
  if (file_ != nullptr) std::fclose(file_);
}

absl::Status OutputFile::Write(std::string_view bytes) {
  if (std::fwrite(bytes.data(), 1, bytes.size(), file_) != bytes.size()) return WriteError(errno);
  size_ += bytes.size();
  return absl::OkStatus();
}

absl::Status OutputFile::Restart() {
  if (std::fflush(file_) != 0 || ftruncate(fileno(file_), 0) != 0) return WriteError(errno);
  std::rewind(file_);
  size_ = 0;
  return absl::OkStatus();
}

absl::Status OutputFile::Close() {
  const bool written = std::fflush(file_) == 0 && fsync(fileno(file_)) == 0;
  const int error = errno;
  std::fclose(std::exchange(file_, nullptr));
  return written ? absl::OkStatus() : WriteError(error);
}

absl::Status OutputFile::Commit() {
  if (std::rename(part_path_.c_str(), path_.c_str()) != 0) return WriteError(errno);
  return absl::OkStatus();
}

void OutputFile::Discard() {
  if (file_ != nullptr) std::fclose(std::exchange(file_, nullptr));
  unlink(part_path_.c_str());
}

}  // namespace tercet::cli
