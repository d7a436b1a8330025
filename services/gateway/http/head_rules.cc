#include "services/gateway/http/head_rules.h"

#include <absl/strings/ascii.h>
#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>

#include <algorithm>

namespace tercet::gateway {
namespace {

constexpr std::string_view kLineEnd = "\r\n";

HeadVerdict Refuse(int status, std::string message) { return {status, std::move(message)}; }

bool IsTokenByte(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
         std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
}

bool IsToken(std::string_view text) { return !text.empty() && std::all_of(text.begin(), text.end(), IsTokenByte); }

bool EqualsIgnoringCase(std::string_view a, std::string_view b) {
  return absl::EqualsIgnoreCase(absl::string_view(a.data(), a.size()), absl::string_view(b.data(), b.size()));
}

std::string_view Trim(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

HeadVerdict CheckRequestLine(std::string_view line, std::string_view* version) {
  size_t first = line.find(' ');
  size_t last = line.rfind(' ');
  if (first == std::string_view::npos || first == last || line.find(' ', first + 1) != last) {
    return Refuse(400, "the request line must be METHOD TARGET VERSION with single spaces");
  }
  std::string_view target = line.substr(first + 1, last - first - 1);
  *version = line.substr(last + 1);
  if (!IsToken(line.substr(0, first))) return Refuse(400, "the request's method is not a token");
  bool printable = std::all_of(target.begin(), target.end(), [](char c) { return c > 0x20 && c < 0x7F; });
  if (target.empty() || !printable) return Refuse(400, "the request's target has characters that must be percent-encoded");
  if (*version != "HTTP/1.1" && *version != "HTTP/1.0") {
    bool is_http = version->substr(0, 5) == "HTTP/";
    return Refuse(is_http ? 505 : 400, "only HTTP/1.1 and HTTP/1.0 are spoken here");
  }
  return {};
}

// What the headers say about where the body ends, and for whom the request is.
struct Framing {
  int content_lengths = 0;
  int transfer_encodings = 0;
  int hosts = 0;
};

HeadVerdict CheckHeader(std::string_view line, Framing* framing) {
  if (line.front() == ' ' || line.front() == '\t') return Refuse(400, "a header is folded over two lines");
  size_t colon = line.find(':');
  std::string_view name = line.substr(0, colon);
  if (colon == std::string_view::npos || !IsToken(name)) {
    return Refuse(400, "a header line is not NAME: VALUE (the name is a token, without space before the colon)");
  }
  std::string_view value = Trim(line.substr(colon + 1));
  bool clean = std::all_of(value.begin(), value.end(), [](unsigned char c) { return (c >= 0x20 && c != 0x7F) || c == '\t'; });
  if (!clean) return Refuse(400, "a header's value has a control character");
  if (EqualsIgnoringCase(name, "content-length")) {
    bool digits = !value.empty() && value.size() <= 18 && std::all_of(value.begin(), value.end(), absl::ascii_isdigit);
    if (!digits) return Refuse(400, "Content-Length is not a number");
    if (++framing->content_lengths > 1) return Refuse(400, "there is more than one Content-Length");
  } else if (EqualsIgnoringCase(name, "transfer-encoding")) {
    if (++framing->transfer_encodings > 1 || !EqualsIgnoringCase(value, "chunked")) {
      return Refuse(400, "the only Transfer-Encoding understood is a single \"chunked\"");
    }
  } else if (EqualsIgnoringCase(name, "host")) {
    if (++framing->hosts > 1) return Refuse(400, "there is more than one Host");
  }
  return {};
}

}  // namespace

HeadVerdict CheckHead(std::string_view head, const Limits& limits) {
  if (HeadVerdict verdict = CheckPartialHead(head, 0, limits); !verdict.ok()) return verdict;
  std::string_view version;
  Framing framing;
  size_t headers = 0;
  for (size_t begin = 0; begin < head.size();) {
    size_t end = head.find(kLineEnd, begin);
    std::string_view line = head.substr(begin, end - begin);
    if (line.empty() && begin != 0) break;
    HeadVerdict verdict = begin == 0 ? CheckRequestLine(line, &version) : CheckHeader(line, &framing);
    if (!verdict.ok()) return verdict;
    if (begin != 0 && ++headers > limits.headers) {
      return Refuse(431, absl::StrCat("there are more than ", limits.headers, " headers"));
    }
    begin = end + kLineEnd.size();
  }
  if (framing.content_lengths > 0 && framing.transfer_encodings > 0) {
    return Refuse(400, "Content-Length and Transfer-Encoding exclude each other");
  }
  if (version == "HTTP/1.0" && framing.transfer_encodings > 0) {
    return Refuse(400, "HTTP/1.0 has no Transfer-Encoding");
  }
  if (version == "HTTP/1.1" && framing.hosts == 0) return Refuse(400, "the Host header is missing");
  return {};
}

HeadVerdict CheckPartialHead(std::string_view bytes, size_t scanned, const Limits& limits) {
  size_t first_line = bytes.find(kLineEnd);
  if (std::min(first_line, bytes.size()) > limits.request_line_bytes) {
    return Refuse(414, absl::StrCat("the request line is longer than ", limits.request_line_bytes, " bytes"));
  }
  if (bytes.size() > limits.head_bytes) {
    return Refuse(431, absl::StrCat("the request's headers are longer than ", limits.head_bytes, " bytes"));
  }
  for (size_t i = scanned == 0 ? 0 : scanned - 1; i < bytes.size(); ++i) {
    auto c = static_cast<unsigned char>(bytes[i]);
    if (c >= 0x20 || c == '\t') continue;
    if (c == '\n') {
      if (i == 0 || bytes[i - 1] != '\r') return Refuse(400, "a line ends with LF alone instead of CR LF");
    } else if (c == '\r') {
      if (i + 1 < bytes.size() && bytes[i + 1] != '\n') return Refuse(400, "there is a CR without LF");
    } else {
      return Refuse(400, "there is a control character in the headers");
    }
  }
  return {};
}

size_t FindHeadEnd(std::string_view bytes, size_t scanned) {
  size_t found = bytes.find("\r\n\r\n", scanned < 3 ? 0 : scanned - 3);
  return found == std::string_view::npos ? found : found + 4;
}

}  // namespace tercet::gateway
