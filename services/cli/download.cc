#include "services/cli/download.h"

#include <curl/curl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <memory>

#include "services/cli/interrupt.h"
#include "services/cli/output_file.h"
#include "services/cli/sha256.h"
#include "services/cli/terminal.h"

namespace tercet::cli {
namespace {

struct CurlDeleter {
  void operator()(CURL* curl) const { curl_easy_cleanup(curl); }
};
using Curl = std::unique_ptr<CURL, CurlDeleter>;

struct Transfer {
  CURL* curl = nullptr;
  OutputFile* file = nullptr;
  Progress* progress = nullptr;
  Interrupt* interrupt = nullptr;
  uint64_t resumed_at = 0;
  bool started = false;
  absl::Status failure;
};

// Where certificates of authorities are, if the environment names a place (as for curl and pip).
const char* CertificateFile() {
  for (const char* name : {"SSL_CERT_FILE", "CURL_CA_BUNDLE", "PIP_CERT"}) {
    if (const char* value = std::getenv(name); value != nullptr && value[0] != '\0') return value;
  }
  return nullptr;
}

Curl NewCurl(const std::string& url) {
  static const CURLcode initialized = curl_global_init(CURL_GLOBAL_DEFAULT);
  (void)initialized;
  Curl curl(curl_easy_init());
  curl_easy_setopt(curl.get(), CURLOPT_URL, url.c_str());
  curl_easy_setopt(curl.get(), CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(curl.get(), CURLOPT_REDIR_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(curl.get(), CURLOPT_FOLLOWLOCATION, 1L);
  curl_easy_setopt(curl.get(), CURLOPT_MAXREDIRS, 5L);
  curl_easy_setopt(curl.get(), CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl.get(), CURLOPT_USERAGENT, "tercet");
  curl_easy_setopt(curl.get(), CURLOPT_CONNECTTIMEOUT, 30L);
  // No byte for a minute is a dead connection.
  curl_easy_setopt(curl.get(), CURLOPT_LOW_SPEED_LIMIT, 1L);
  curl_easy_setopt(curl.get(), CURLOPT_LOW_SPEED_TIME, 60L);
  if (const char* file = CertificateFile()) curl_easy_setopt(curl.get(), CURLOPT_CAINFO, file);
  return curl;
}

absl::Status Failed(const std::string& url, CURLcode code, long status) {
  if (code != CURLE_OK) {
    return absl::UnavailableError(
        fmt::format("{}: {}; what has arrived is kept, call again to go on", url, curl_easy_strerror(code)));
  }
  return absl::NotFoundError(fmt::format("{}: the server answered with HTTP status {}", url, status));
}

size_t ReceiveFile(char* data, size_t one, size_t count, void* user) {
  auto* transfer = static_cast<Transfer*>(user);
  long status = 0;
  curl_easy_getinfo(transfer->curl, CURLINFO_RESPONSE_CODE, &status);
  if (status != 200 && status != 206) return one * count;  // the body of an error
  if (!transfer->started) {
    transfer->started = true;
    // 200 to a request for the rest: the server sends the whole file.
    if (status == 200 && transfer->resumed_at > 0) {
      transfer->resumed_at = 0;
      transfer->failure = transfer->file->Restart();
    }
  }
  if (transfer->failure.ok()) transfer->failure = transfer->file->Write({data, one * count});
  return transfer->failure.ok() ? one * count : 0;
}

int ShowProgress(void* user, curl_off_t total, curl_off_t, curl_off_t, curl_off_t) {
  auto* transfer = static_cast<Transfer*>(user);
  if (transfer->interrupt->Take() != 0) {
    transfer->failure = absl::CancelledError("interrupted; what has arrived is kept, call again to go on");
    return 1;
  }
  if (!transfer->started) return 0;
  transfer->progress->Update(transfer->file->size(),
                             total > 0 ? transfer->resumed_at + static_cast<uint64_t>(total) : 0);
  return 0;
}

size_t ReceiveText(char* data, size_t one, size_t count, void* user) {
  auto* text = static_cast<std::string*>(user);
  constexpr size_t kMost = 16 << 20;
  if (text->size() + one * count > kMost) return 0;
  text->append(data, one * count);
  return one * count;
}

absl::Status CheckHash(const DownloadRequest& request, OutputFile* file) {
  if (request.sha256.empty()) return absl::OkStatus();
  auto hash = Sha256OfFile(file->part_path());
  if (!hash.ok()) return hash.status();
  std::string expected = request.sha256;
  std::transform(expected.begin(), expected.end(), expected.begin(), [](unsigned char c) { return std::tolower(c); });
  if (*hash == expected) return absl::OkStatus();
  file->Discard();
  return absl::DataLossError(
      fmt::format("{}: SHA-256 is {}, expected {}; the file was dropped, call again", request.url, *hash, expected));
}

}  // namespace

absl::Status Download(const DownloadRequest& request) {
  absl::StatusOr<OutputFile> file = OutputFile::Open(request.path, /*resume=*/true);
  if (!file.ok()) return file.status();
  Interrupt interrupt;
  Progress progress(request.label, file->size(), 0);
  const Curl curl = NewCurl(request.url);
  Transfer transfer{curl.get(), &*file, &progress, &interrupt, file->size()};
  if (file->size() > 0) curl_easy_setopt(curl.get(), CURLOPT_RANGE, fmt::format("{}-", file->size()).c_str());
  curl_easy_setopt(curl.get(), CURLOPT_WRITEFUNCTION, ReceiveFile);
  curl_easy_setopt(curl.get(), CURLOPT_WRITEDATA, &transfer);
  curl_easy_setopt(curl.get(), CURLOPT_XFERINFOFUNCTION, ShowProgress);
  curl_easy_setopt(curl.get(), CURLOPT_XFERINFODATA, &transfer);
  curl_easy_setopt(curl.get(), CURLOPT_NOPROGRESS, 0L);
  const CURLcode code = curl_easy_perform(curl.get());
  long status = 0;
  curl_easy_getinfo(curl.get(), CURLINFO_RESPONSE_CODE, &status);
  if (transfer.started) progress.Finish();

  if (absl::Status closed = file->Close(); transfer.failure.ok()) transfer.failure = closed;
  if (!transfer.failure.ok()) return transfer.failure;
  // 416: nothing is left behind what we have. Whether that is the whole file, the hash decides.
  const bool complete = status == 416 && file->size() > 0 && !request.sha256.empty();
  if (!complete && (code != CURLE_OK || (status != 200 && status != 206))) {
    if (file->size() == 0 || status == 416) file->Discard();
    return Failed(request.url, code, status);
  }
  if (absl::Status checked = CheckHash(request, &*file); !checked.ok()) return checked;
  return file->Commit();
}

absl::StatusOr<std::string> Fetch(const std::string& url, const std::string& accept) {
  std::string text;
  const Curl curl = NewCurl(url);
  curl_slist* headers = curl_slist_append(nullptr, ("Accept: " + accept).c_str());
  curl_easy_setopt(curl.get(), CURLOPT_HTTPHEADER, headers);
  curl_easy_setopt(curl.get(), CURLOPT_WRITEFUNCTION, ReceiveText);
  curl_easy_setopt(curl.get(), CURLOPT_WRITEDATA, &text);
  const CURLcode code = curl_easy_perform(curl.get());
  long status = 0;
  curl_easy_getinfo(curl.get(), CURLINFO_RESPONSE_CODE, &status);
  curl_slist_free_all(headers);
  if (code != CURLE_OK || status != 200) return Failed(url, code, status);
  return text;
}

}  // namespace tercet::cli
