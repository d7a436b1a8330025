#include "common/template/text.h"

#include <string.h>

#include <algorithm>

namespace tercet::chat {
namespace {

bool IsContinuation(char byte) { return (static_cast<uint8_t>(byte) & 0xC0) == 0x80; }

bool IsLineEnd(char32_t c) {
  return (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 || c == 0x2029;
}

}  // namespace

bool IsUtf8(std::string_view text) {
  size_t i = 0;
  while (i < text.size()) {
    const auto lead = static_cast<uint8_t>(text[i]);
    if (lead < 0x80) {
      ++i;
      continue;
    }
    const size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
    if (lead < 0xC2 || lead > 0xF4 || i + length > text.size()) return false;
    for (size_t k = 1; k < length; ++k) {
      if (!IsContinuation(text[i + k])) return false;
    }
    const auto second = static_cast<uint8_t>(text[i + 1]);
    if ((lead == 0xE0 && second < 0xA0) || (lead == 0xED && second >= 0xA0) || (lead == 0xF0 && second < 0x90) ||
        (lead == 0xF4 && second >= 0x90)) {
      return false;
    }
    i += length;
  }
  return true;
}

int64_t CountCodePoints(std::string_view text) {
  int64_t count = 0;
  for (char byte : text) count += !IsContinuation(byte);
  return count;
}

char32_t DecodeNext(std::string_view text, size_t* position) {
  const auto byte = [&](size_t i) { return i < text.size() ? static_cast<uint8_t>(text[i]) : uint8_t{0x80}; };
  const size_t at = *position;
  const uint8_t lead = byte(at);
  if (lead < 0x80) {
    *position = at + 1;
    return lead;
  }
  const size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  *position = std::min(at + length, text.size());
  char32_t value = lead & (0xFF >> (length + 1));
  for (size_t k = 1; k < length; ++k) value = value << 6 | (byte(at + k) & 0x3F);
  return value;
}

char32_t DecodePrevious(std::string_view text, size_t* position) {
  size_t at = *position - 1;
  while (at > 0 && IsContinuation(text[at])) --at;
  *position = at;
  return DecodeNext(text, &at);
}

void AppendUtf8(char32_t c, std::string* out) {
  if (c < 0x80) {
    out->push_back(static_cast<char>(c));
  } else if (c < 0x800) {
    out->push_back(static_cast<char>(0xC0 | c >> 6));
    out->push_back(static_cast<char>(0x80 | (c & 0x3F)));
  } else if (c < 0x10000) {
    out->push_back(static_cast<char>(0xE0 | c >> 12));
    out->push_back(static_cast<char>(0x80 | (c >> 6 & 0x3F)));
    out->push_back(static_cast<char>(0x80 | (c & 0x3F)));
  } else {
    out->push_back(static_cast<char>(0xF0 | c >> 18));
    out->push_back(static_cast<char>(0x80 | (c >> 12 & 0x3F)));
    out->push_back(static_cast<char>(0x80 | (c >> 6 & 0x3F)));
    out->push_back(static_cast<char>(0x80 | (c & 0x3F)));
  }
}

size_t ByteOffset(std::string_view text, int64_t index) {
  size_t at = 0;
  for (; at < text.size(); ++at) {
    if (!IsContinuation(text[at]) && index-- == 0) return at;
  }
  return at;
}

bool IsAscii(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char byte) { return static_cast<uint8_t>(byte) < 0x80; });
}

std::string_view Strip(std::string_view text, const std::string_view* characters, bool left, bool right) {
  std::u32string set;
  for (size_t i = 0; characters != nullptr && i < characters->size();) set.push_back(DecodeNext(*characters, &i));
  std::sort(set.begin(), set.end());
  const auto strips = [&](char32_t c) {
    return characters == nullptr ? IsSpace(c) : std::binary_search(set.begin(), set.end(), c);
  };
  size_t begin = 0, end = text.size();
  while (left && begin < end) {
    size_t next = begin;
    if (!strips(DecodeNext(text, &next))) break;
    begin = next;
  }
  while (right && end > begin) {
    size_t at = end;
    if (!strips(DecodePrevious(text, &at))) break;
    end = at;
  }
  return text.substr(begin, end - begin);
}

std::vector<std::string_view> SplitLines(std::string_view text, bool keep_ends) {
  std::vector<std::string_view> lines;
  size_t begin = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t end = at;
    const char32_t c = DecodeNext(text, &at);
    if (!IsLineEnd(c)) continue;
    if (c == '\r' && at < text.size() && text[at] == '\n') ++at;
    lines.push_back(text.substr(begin, (keep_ends ? at : end) - begin));
    begin = at;
  }
  if (begin < text.size()) lines.push_back(text.substr(begin));
  return lines;
}

std::vector<std::string_view> Split(std::string_view text, const std::string_view* separator, int64_t limit) {
  std::vector<std::string_view> parts;
  if (separator != nullptr) {
    size_t begin = 0;
    while (limit < 0 || static_cast<int64_t>(parts.size()) < limit) {
      const size_t at = Find(text, *separator, begin);
      if (at == std::string_view::npos) break;
      parts.push_back(text.substr(begin, at - begin));
      begin = at + separator->size();
    }
    parts.push_back(text.substr(begin));
    return parts;
  }
  std::string_view rest = Strip(text, nullptr, true, false);
  while (!rest.empty()) {
    if (limit >= 0 && static_cast<int64_t>(parts.size()) >= limit) {
      parts.push_back(rest);
      break;
    }
    size_t at = 0, end = 0;
    while (at < rest.size()) {
      end = at;
      if (IsSpace(DecodeNext(rest, &at))) break;
      end = at;
    }
    parts.push_back(rest.substr(0, end));
    rest = Strip(rest.substr(end), nullptr, true, false);
  }
  return parts;
}

std::vector<std::string_view> SplitRight(std::string_view text, const std::string_view* separator, int64_t limit) {
  if (limit < 0) return Split(text, separator, limit);
  std::vector<std::string_view> parts;
  if (separator != nullptr) {
    while (static_cast<int64_t>(parts.size()) < limit) {
      const size_t at = FindLast(text, *separator);
      if (at == std::string_view::npos) break;
      parts.push_back(text.substr(at + separator->size()));
      text = text.substr(0, at);
    }
    parts.push_back(text);
  } else {
    text = Strip(text, nullptr, false, true);
    while (!text.empty()) {
      if (static_cast<int64_t>(parts.size()) >= limit) {
        parts.push_back(text);
        break;
      }
      size_t begin = text.size();
      while (begin > 0) {
        size_t at = begin;
        if (IsSpace(DecodePrevious(text, &at))) break;
        begin = at;
      }
      parts.push_back(text.substr(begin));
      text = Strip(text.substr(0, begin), nullptr, false, true);
    }
  }
  std::reverse(parts.begin(), parts.end());
  return parts;
}

size_t Find(std::string_view text, std::string_view needle, size_t from) {
  if (from > text.size()) return std::string_view::npos;
  if (needle.empty()) return from;
  // memmem is the two-way algorithm; string_view::find is quadratic on hostile input.
  const void* found = memmem(text.data() + from, text.size() - from, needle.data(), needle.size());
  return found == nullptr ? std::string_view::npos : static_cast<size_t>(static_cast<const char*>(found) - text.data());
}

size_t FindLast(std::string_view text, std::string_view needle) {
  if (needle.empty()) return text.size();
  if (needle.size() <= 16) return text.rfind(needle);
  // Backwards by the two-way algorithm: the first place of the mirrored needle in the mirrored text.
  const std::string mirrored(text.rbegin(), text.rend());
  const std::string mirrored_needle(needle.rbegin(), needle.rend());
  const size_t found = Find(mirrored, mirrored_needle);
  return found == std::string_view::npos ? found : text.size() - found - needle.size();
}

std::string Replace(std::string_view text, std::string_view from, std::string_view to, int64_t limit) {
  std::string out;
  size_t begin = 0;
  if (from.empty()) {
    // Python puts `to` before every character and at the end.
    int64_t done = 0;
    while (limit < 0 || done < limit) {
      out.append(to);
      ++done;
      if (begin >= text.size()) return out;
      size_t next = begin;
      DecodeNext(text, &next);
      out.append(text.substr(begin, next - begin));
      begin = next;
    }
    return out.append(text.substr(begin));
  }
  for (int64_t done = 0; limit < 0 || done < limit; ++done) {
    const size_t at = Find(text, from, begin);
    if (at == std::string_view::npos) break;
    out.append(text.substr(begin, at - begin));
    out.append(to);
    begin = at + from.size();
  }
  return out.append(text.substr(begin));
}

std::string EscapeHtml(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '\'':
        out += "&#39;";
        break;
      case '"':
        out += "&#34;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

}  // namespace tercet::chat
