// str.upper and its kin: Unicode's full case mappings. utf8proc knows the mappings to one character; those to several
// are the table below (Unicode's SpecialCasing.txt, the unconditional ones).
#include <utf8proc.h>

#include <algorithm>
#include <cstdlib>
#include <memory>

#include "common/template/text.h"

namespace tercet::chat {
namespace {

struct SpecialCase {
  char32_t character;
  std::u32string_view upper;
  std::u32string_view title;
};

constexpr SpecialCase kSpecialCases[] = {
    {0x00DF, U"SS", U"Ss"},
    {0x0149, U"\u02BCN", U"\u02BCN"},
    {0x01F0, U"J\u030C", U"J\u030C"},
    {0x0390, U"\u0399\u0308\u0301", U"\u0399\u0308\u0301"},
    {0x03B0, U"\u03A5\u0308\u0301", U"\u03A5\u0308\u0301"},
    {0x0587, U"\u0535\u0552", U"\u0535\u0582"},
    {0x1E96, U"H\u0331", U"H\u0331"},
    {0x1E97, U"T\u0308", U"T\u0308"},
    {0x1E98, U"W\u030A", U"W\u030A"},
    {0x1E99, U"Y\u030A", U"Y\u030A"},
    {0x1E9A, U"A\u02BE", U"A\u02BE"},
    {0x1F50, U"\u03A5\u0313", U"\u03A5\u0313"},
    {0x1F52, U"\u03A5\u0313\u0300", U"\u03A5\u0313\u0300"},
    {0x1F54, U"\u03A5\u0313\u0301", U"\u03A5\u0313\u0301"},
    {0x1F56, U"\u03A5\u0313\u0342", U"\u03A5\u0313\u0342"},
    {0x1F80, U"\u1F08\u0399", U"\u1F88"},
    {0x1F81, U"\u1F09\u0399", U"\u1F89"},
    {0x1F82, U"\u1F0A\u0399", U"\u1F8A"},
    {0x1F83, U"\u1F0B\u0399", U"\u1F8B"},
    {0x1F84, U"\u1F0C\u0399", U"\u1F8C"},
    {0x1F85, U"\u1F0D\u0399", U"\u1F8D"},
    {0x1F86, U"\u1F0E\u0399", U"\u1F8E"},
    {0x1F87, U"\u1F0F\u0399", U"\u1F8F"},
    {0x1F88, U"\u1F08\u0399", U"\u1F88"},
    {0x1F89, U"\u1F09\u0399", U"\u1F89"},
    {0x1F8A, U"\u1F0A\u0399", U"\u1F8A"},
    {0x1F8B, U"\u1F0B\u0399", U"\u1F8B"},
    {0x1F8C, U"\u1F0C\u0399", U"\u1F8C"},
    {0x1F8D, U"\u1F0D\u0399", U"\u1F8D"},
    {0x1F8E, U"\u1F0E\u0399", U"\u1F8E"},
    {0x1F8F, U"\u1F0F\u0399", U"\u1F8F"},
    {0x1F90, U"\u1F28\u0399", U"\u1F98"},
    {0x1F91, U"\u1F29\u0399", U"\u1F99"},
    {0x1F92, U"\u1F2A\u0399", U"\u1F9A"},
    {0x1F93, U"\u1F2B\u0399", U"\u1F9B"},
    {0x1F94, U"\u1F2C\u0399", U"\u1F9C"},
    {0x1F95, U"\u1F2D\u0399", U"\u1F9D"},
    {0x1F96, U"\u1F2E\u0399", U"\u1F9E"},
    {0x1F97, U"\u1F2F\u0399", U"\u1F9F"},
    {0x1F98, U"\u1F28\u0399", U"\u1F98"},
    {0x1F99, U"\u1F29\u0399", U"\u1F99"},
    {0x1F9A, U"\u1F2A\u0399", U"\u1F9A"},
    {0x1F9B, U"\u1F2B\u0399", U"\u1F9B"},
    {0x1F9C, U"\u1F2C\u0399", U"\u1F9C"},
    {0x1F9D, U"\u1F2D\u0399", U"\u1F9D"},
    {0x1F9E, U"\u1F2E\u0399", U"\u1F9E"},
    {0x1F9F, U"\u1F2F\u0399", U"\u1F9F"},
    {0x1FA0, U"\u1F68\u0399", U"\u1FA8"},
    {0x1FA1, U"\u1F69\u0399", U"\u1FA9"},
    {0x1FA2, U"\u1F6A\u0399", U"\u1FAA"},
    {0x1FA3, U"\u1F6B\u0399", U"\u1FAB"},
    {0x1FA4, U"\u1F6C\u0399", U"\u1FAC"},
    {0x1FA5, U"\u1F6D\u0399", U"\u1FAD"},
    {0x1FA6, U"\u1F6E\u0399", U"\u1FAE"},
    {0x1FA7, U"\u1F6F\u0399", U"\u1FAF"},
    {0x1FA8, U"\u1F68\u0399", U"\u1FA8"},
    {0x1FA9, U"\u1F69\u0399", U"\u1FA9"},
    {0x1FAA, U"\u1F6A\u0399", U"\u1FAA"},
    {0x1FAB, U"\u1F6B\u0399", U"\u1FAB"},
    {0x1FAC, U"\u1F6C\u0399", U"\u1FAC"},
    {0x1FAD, U"\u1F6D\u0399", U"\u1FAD"},
    {0x1FAE, U"\u1F6E\u0399", U"\u1FAE"},
    {0x1FAF, U"\u1F6F\u0399", U"\u1FAF"},
    {0x1FB2, U"\u1FBA\u0399", U"\u1FBA\u0345"},
    {0x1FB3, U"\u0391\u0399", U"\u1FBC"},
    {0x1FB4, U"\u0386\u0399", U"\u0386\u0345"},
    {0x1FB6, U"\u0391\u0342", U"\u0391\u0342"},
    {0x1FB7, U"\u0391\u0342\u0399", U"\u0391\u0342\u0345"},
    {0x1FBC, U"\u0391\u0399", U"\u1FBC"},
    {0x1FC2, U"\u1FCA\u0399", U"\u1FCA\u0345"},
    {0x1FC3, U"\u0397\u0399", U"\u1FCC"},
    {0x1FC4, U"\u0389\u0399", U"\u0389\u0345"},
    {0x1FC6, U"\u0397\u0342", U"\u0397\u0342"},
    {0x1FC7, U"\u0397\u0342\u0399", U"\u0397\u0342\u0345"},
    {0x1FCC, U"\u0397\u0399", U"\u1FCC"},
    {0x1FD2, U"\u0399\u0308\u0300", U"\u0399\u0308\u0300"},
    {0x1FD3, U"\u0399\u0308\u0301", U"\u0399\u0308\u0301"},
    {0x1FD6, U"\u0399\u0342", U"\u0399\u0342"},
    {0x1FD7, U"\u0399\u0308\u0342", U"\u0399\u0308\u0342"},
    {0x1FE2, U"\u03A5\u0308\u0300", U"\u03A5\u0308\u0300"},
    {0x1FE3, U"\u03A5\u0308\u0301", U"\u03A5\u0308\u0301"},
    {0x1FE4, U"\u03A1\u0313", U"\u03A1\u0313"},
    {0x1FE6, U"\u03A5\u0342", U"\u03A5\u0342"},
    {0x1FE7, U"\u03A5\u0308\u0342", U"\u03A5\u0308\u0342"},
    {0x1FF2, U"\u1FFA\u0399", U"\u1FFA\u0345"},
    {0x1FF3, U"\u03A9\u0399", U"\u1FFC"},
    {0x1FF4, U"\u038F\u0399", U"\u038F\u0345"},
    {0x1FF6, U"\u03A9\u0342", U"\u03A9\u0342"},
    {0x1FF7, U"\u03A9\u0342\u0399", U"\u03A9\u0342\u0345"},
    {0x1FFC, U"\u03A9\u0399", U"\u1FFC"},
    {0xFB00, U"FF", U"Ff"},
    {0xFB01, U"FI", U"Fi"},
    {0xFB02, U"FL", U"Fl"},
    {0xFB03, U"FFI", U"Ffi"},
    {0xFB04, U"FFL", U"Ffl"},
    {0xFB05, U"ST", U"St"},
    {0xFB06, U"ST", U"St"},
    {0xFB13, U"\u0544\u0546", U"\u0544\u0576"},
    {0xFB14, U"\u0544\u0535", U"\u0544\u0565"},
    {0xFB15, U"\u0544\u053B", U"\u0544\u056B"},
    {0xFB16, U"\u054E\u0546", U"\u054E\u0576"},
    {0xFB17, U"\u0544\u053D", U"\u0544\u056D"},
};

const SpecialCase* FindSpecial(char32_t c) {
  const auto* found = std::lower_bound(std::begin(kSpecialCases), std::end(kSpecialCases), c,
                                       [](const SpecialCase& entry, char32_t key) { return entry.character < key; });
  return found != std::end(kSpecialCases) && found->character == c ? found : nullptr;
}

void AppendAll(std::u32string_view characters, std::string* out) {
  for (char32_t c : characters) AppendUtf8(c, out);
}

void AppendUpper(char32_t c, std::string* out) {
  if (c < 0x80) {
    out->push_back(static_cast<char>(c >= 'a' && c <= 'z' ? c - 32 : c));
  } else if (const SpecialCase* special = FindSpecial(c)) {
    AppendAll(special->upper, out);
  } else {
    AppendUtf8(utf8proc_toupper(static_cast<utf8proc_int32_t>(c)), out);
  }
}

void AppendTitle(char32_t c, std::string* out) {
  if (c < 0x80) {
    AppendUpper(c, out);
  } else if (const SpecialCase* special = FindSpecial(c)) {
    AppendAll(special->title, out);
  } else {
    AppendUtf8(utf8proc_totitle(static_cast<utf8proc_int32_t>(c)), out);
  }
}

bool IsCased(char32_t c) { return IsUpper(c) || IsLower(c) || IsTitle(c); }

// Characters that the rule for a final sigma looks through.
bool IsCaseIgnorable(char32_t c) {
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(c))) {
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_SK:
      return true;
    default:
      return c == '\'' || c == '.' || c == ':' || c == 0xB7 || c == 0x387 || c == 0x2018 || c == 0x2019 ||
             c == 0x2024 || c == 0x2027;
  }
}

// Whether the Σ that ends at `end` and began at `begin` closes a word.
bool IsFinalSigma(std::string_view text, size_t begin, size_t end) {
  char32_t before = 0;
  do {
    if (begin == 0) return false;
    before = DecodePrevious(text, &begin);
  } while (IsCaseIgnorable(before));
  if (!IsCased(before)) return false;
  while (end < text.size()) {
    const char32_t c = DecodeNext(text, &end);
    if (!IsCaseIgnorable(c)) return !IsCased(c);
  }
  return true;
}

// Lower case of the character at [begin, end) of `text`.
void AppendLower(std::string_view text, size_t begin, size_t end, char32_t c, std::string* out) {
  if (c < 0x80) {
    out->push_back(static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c));
  } else if (c == 0x130) {
    AppendAll(U"i\u0307", out);
  } else if (c == 0x3A3) {
    AppendUtf8(IsFinalSigma(text, begin, end) ? 0x3C2 : 0x3C3, out);
  } else {
    AppendUtf8(utf8proc_tolower(static_cast<utf8proc_int32_t>(c)), out);
  }
}

}  // namespace

std::string Upper(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) AppendUpper(DecodeNext(text, &at), &out);
  return out;
}

std::string Lower(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    const char32_t c = DecodeNext(text, &at);
    AppendLower(text, begin, at, c, &out);
  }
  return out;
}

std::string CaseFold(std::string_view text) {
  if (IsAscii(text)) return Lower(text);
  utf8proc_uint8_t* folded = nullptr;
  const auto size = utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                                 static_cast<utf8proc_ssize_t>(text.size()), &folded, UTF8PROC_CASEFOLD);
  const std::unique_ptr<utf8proc_uint8_t, void (*)(void*)> owner(folded, std::free);
  if (size < 0) return std::string(text);
  return std::string(reinterpret_cast<const char*>(folded), static_cast<size_t>(size));
}

std::string Capitalize(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    const char32_t c = DecodeNext(text, &at);
    if (begin == 0) {
      AppendTitle(c, &out);
    } else {
      AppendLower(text, begin, at, c, &out);
    }
  }
  return out;
}

std::string SwapCase(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    const char32_t c = DecodeNext(text, &at);
    if (IsUpper(c)) {
      AppendLower(text, begin, at, c, &out);
    } else if (IsLower(c)) {
      AppendUpper(c, &out);
    } else {
      AppendUtf8(c, &out);
    }
  }
  return out;
}

std::string TitleCase(std::string_view text) {
  std::string out;
  bool inside = false;
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    const char32_t c = DecodeNext(text, &at);
    if (inside) {
      AppendLower(text, begin, at, c, &out);
    } else {
      AppendTitle(c, &out);
    }
    inside = IsCased(c);
  }
  return out;
}

}  // namespace tercet::chat
