// Strings put together from pieces: texts, characters' strings, integers. (Debian builds abseil with a string_view of
// its own, which absl::StrCat wants and std::string_view does not become.)
#pragma once

#include <concepts>
#include <string>
#include <string_view>

namespace tercet::chat {

inline void AppendPiece(std::string* out, std::string_view piece) { out->append(piece); }
template <std::integral Number>
requires(!std::same_as<Number, char> && !std::same_as<Number, bool>) void AppendPiece(std::string* out, Number number) {
  out->append(std::to_string(number));
}

template <typename... Pieces>
void StrAppend(std::string* out, const Pieces&... pieces) {
  (AppendPiece(out, pieces), ...);
}

template <typename... Pieces>
std::string StrCat(const Pieces&... pieces) {
  std::string out;
  StrAppend(&out, pieces...);
  return out;
}

}  // namespace tercet::chat
