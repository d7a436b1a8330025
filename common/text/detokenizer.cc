#include "common/text/detokenizer.h"

#include "common/text/utf8.h"

namespace tercet::text {

std::string Detokenizer::Push(std::string_view bytes) {
  std::string joined;
  if (!held_.empty()) {
    joined = held_;
    joined += bytes;
    bytes = joined;
  }
  std::string text;
  size_t at = 0;
  while (at < bytes.size()) {
    Utf8Unit unit = NextUnit(bytes, at);
    if (unit.kind == Utf8Unit::Kind::kIncomplete) break;
    text += unit.kind == Utf8Unit::Kind::kValid ? bytes.substr(at, unit.bytes) : kReplacement;
    at += unit.bytes;
  }
  held_ = std::string(bytes.substr(at));
  return text;
}

std::string Detokenizer::Flush() {
  bool held = !held_.empty();
  held_.clear();
  return held ? std::string(kReplacement) : std::string();
}

}  // namespace tercet::text
