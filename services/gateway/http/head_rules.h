// Which request heads this server is willing to read at all.
//
// Two HTTP parsers that read the same bytes differently let a request hide inside another one (request smuggling). So
// everything on which parsers are known to differ is refused here, on the raw bytes, before the real parser sees them:
// bare LF or CR, NUL and other control characters, folded headers, space before the colon, more than one Content-Length,
// Content-Length beside Transfer-Encoding, any transfer coding but a single "chunked", a missing or doubled Host.
// Functions are pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "services/gateway/http/limits.h"

namespace tercet::gateway {

struct HeadVerdict {
  int status = 200;  // 200: fine
  std::string message;
  bool ok() const { return status == 200; }
};

// Judges a whole head, which ends with its empty line.
HeadVerdict CheckHead(std::string_view head, const Limits& limits);

// Judges the beginning of a head whose end has not arrived, so that what can no longer become a good request is answered
// at once. `scanned`: bytes judged by an earlier call.
HeadVerdict CheckPartialHead(std::string_view bytes, size_t scanned, const Limits& limits);

// Position behind the empty line that ends the head, npos if it has not arrived. `scanned` as above.
size_t FindHeadEnd(std::string_view bytes, size_t scanned);

}  // namespace tercet::gateway
