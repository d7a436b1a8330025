// Bytes of token pieces in, text out: a piece may be part of a character, the text never is.
//
// Push hands out each character as soon as its last byte has come; malformed bytes become U+FFFD at once, cut as Python
// cuts them, so that the concatenation of all output equals the one-shot decoding of all input. At most three bytes are
// held back. Not thread-safe; one per stream.
#pragma once

#include <string>
#include <string_view>

namespace tercet::text {

class Detokenizer {
 public:
  // The text that `bytes` completes; valid UTF-8, possibly empty.
  std::string Push(std::string_view bytes);
  // The end: U+FFFD if an incomplete character was held back, else nothing.
  std::string Flush();
  // Bytes held back.
  size_t pending() const { return held_.size(); }

 private:
  std::string held_;  // the beginning of a character
};

}  // namespace tercet::text
