// The methods of str.
#include <algorithm>
#include <utility>

#include "common/template/arguments.h"
#include "common/template/format.h"
#include "common/template/methods.h"
#include "common/template/repr.h"
#include "common/template/strcat.h"
#include "common/template/text.h"

namespace tercet::chat {
namespace {

bool IsMarkup(const Value& value) { return value.as<StringObject>()->markup; }

// A string of the same type as `self`: methods of Markup give Markup.
Value Like(Runtime& runtime, const Value& self, std::string text) {
  return runtime.String(std::move(text), IsMarkup(self));
}

Value Parts(Runtime& runtime, const Value& self, const std::vector<std::string_view>& parts) {
  Values items;
  items.reserve(parts.size());
  for (std::string_view part : parts) items.push_back(Like(runtime, self, std::string(part)));
  return runtime.List(std::move(items));
}

template <std::string (*kMap)(std::string_view)>
Value Mapped(Runtime& runtime, const Value& self, Arguments& arguments) {
  NoArguments(arguments, "str method");
  return Like(runtime, self, kMap(self.text()));
}

template <bool kLeft, bool kRight>
Value StripMethod(Runtime& runtime, const Value& self, Arguments& arguments) {
  NoKeywords(arguments, "strip");
  auto [characters] = Bind<1>(arguments, "strip", {"chars"}, 0);
  if (characters.missing() || characters.is(Kind::kNone)) {
    return Like(runtime, self, std::string(Strip(self.text(), nullptr, kLeft, kRight)));
  }
  const std::string_view set = RequireString(characters, "strip arg");
  return Like(runtime, self, std::string(Strip(self.text(), &set, kLeft, kRight)));
}

template <bool kFromRight>
Value SplitMethod(Runtime& runtime, const Value& self, Arguments& arguments) {
  auto [separator, limit_value] = Bind<2>(arguments, "split", {"sep", "maxsplit"}, 0);
  const int64_t limit = IntOr(limit_value, -1, "split: maxsplit");
  const auto split = kFromRight ? SplitRight : Split;
  if (separator.missing() || separator.is(Kind::kNone)) return Parts(runtime, self, split(self.text(), nullptr, limit));
  const std::string_view text = RequireString(separator, "split: sep");
  if (text.empty()) Fail("empty separator");
  return Parts(runtime, self, split(self.text(), &text, limit));
}

Value SplitLinesMethod(Runtime& runtime, const Value& self, Arguments& arguments) {
  auto [keep] = Bind<1>(arguments, "splitlines", {"keepends"}, 0);
  return Parts(runtime, self, SplitLines(self.text(), TruthOr(keep, false)));
}

template <bool kFromRight>
Value Partition(Runtime& runtime, const Value& self, Arguments& arguments) {
  NoKeywords(arguments, "partition");
  auto [separator] = Bind<1>(arguments, "partition", {"sep"}, 1);
  const std::string& between = RequireString(separator, "partition: sep");
  if (between.empty()) Fail("empty separator");
  const std::string& text = self.text();
  const size_t at = kFromRight ? FindLast(text, between) : Find(text, between);
  Values parts;
  if (at == std::string::npos) {
    const Value whole = Like(runtime, self, text), empty = Like(runtime, self, "");
    parts = kFromRight ? Values{empty, empty, whole} : Values{whole, empty, empty};
  } else {
    parts = {Like(runtime, self, text.substr(0, at)), Like(runtime, self, between),
             Like(runtime, self, text.substr(at + between.size()))};
  }
  return runtime.Tuple(std::move(parts));
}

Value ReplaceMethod(Runtime& runtime, const Value& self, Arguments& arguments) {
  NoKeywords(arguments, "replace");
  auto [from, to, count] = Bind<3>(arguments, "replace", {"old", "new", "count"}, 2);
  const std::string& old_text = RequireString(from, "replace() argument 1");
  std::string new_text = RequireString(to, "replace() argument 2");
  if (IsMarkup(self) && !IsMarkup(to)) new_text = EscapeHtml(new_text);
  const int64_t limit = IntOr(count, -1, "replace() argument 3");
  const auto places = static_cast<int64_t>(self.text().size() / std::max<size_t>(old_text.size(), 1) + 1);
  if (places > runtime.limits().max_memory_bytes / static_cast<int64_t>(new_text.size() + 1)) {
    Fail("a replacement may take more than ", runtime.limits().max_memory_bytes, " bytes of memory");
  }
  return Like(runtime, self, Replace(self.text(), old_text, new_text, limit));
}

Value JoinMethod(Runtime& runtime, const Value& self, Arguments& arguments) {
  NoKeywords(arguments, "join");
  auto [items] = Bind<1>(arguments, "join", {"iterable"}, 1);
  std::string out;
  const auto iterator = Iterate(runtime, items);
  Value item;
  for (int64_t i = 0; iterator->Next(&item); ++i) {
    if (!item.is(Kind::kString)) Fail("sequence item ", i, ": expected str instance, ", TypeName(item), " found");
    if (i > 0) out += self.text();
    out += IsMarkup(self) && !IsMarkup(item) ? EscapeHtml(item.text()) : item.text();
    if (static_cast<int64_t>(out.size()) > runtime.limits().max_memory_bytes) {
      Fail("a joined text takes more than ", runtime.limits().max_memory_bytes, " bytes of memory");
    }
  }
  return Like(runtime, self, std::move(out));
}

// The part of a string that start and end arguments select, and where it begins in code points.
struct Window {
  std::string_view text;
  int64_t begin = 0;
  bool valid = true;  // false: start lies behind the end
};

Window Select(const Value& self, const Value& start, const Value& end) {
  const int64_t length = LengthOf(self);
  const auto bound = [&](const Value& value, int64_t otherwise) {
    if (value.missing() || value.is(Kind::kNone)) return otherwise;
    if (!value.is_integral()) Fail("slice indices must be integers or None or have an __index__ method");
    const int64_t place = value.integer();
    return place < 0 ? std::max<int64_t>(place + length, 0) : place;
  };
  const int64_t first = bound(start, 0), last = std::min(bound(end, length), length);
  if (first > last) return Window{{}, 0, false};
  const std::string_view text = self.text();
  const size_t begin = ByteOffset(text, first);
  return Window{text.substr(begin, ByteOffset(text.substr(begin), last - first)), first, true};
}

// Code points before the first (or last) occurrence, or -1.
template <bool kFromRight>
int64_t Search(const Value& self, Arguments& arguments, const char* name) {
  NoKeywords(arguments, name);
  auto [needle, start, end] = Bind<3>(arguments, name, {"sub", "start", "end"}, 1);
  const std::string& text = RequireString(needle, name);
  const Window window = Select(self, start, end);
  if (!window.valid) return -1;
  const size_t at = kFromRight ? FindLast(window.text, text) : Find(window.text, text);
  return at == std::string_view::npos ? -1 : window.begin + CountCodePoints(window.text.substr(0, at));
}

template <bool kFromRight>
Value FindMethodOfString(Runtime&, const Value& self, Arguments& arguments) {
  return Value::Int(Search<kFromRight>(self, arguments, kFromRight ? "rfind" : "find"));
}

template <bool kFromRight>
Value IndexMethod(Runtime&, const Value& self, Arguments& arguments) {
  const int64_t at = Search<kFromRight>(self, arguments, kFromRight ? "rindex" : "index");
  if (at < 0) Fail("substring not found");
  return Value::Int(at);
}

Value CountMethod(Runtime&, const Value& self, Arguments& arguments) {
  NoKeywords(arguments, "count");
  auto [needle, start, end] = Bind<3>(arguments, "count", {"sub", "start", "end"}, 1);
  const std::string& text = RequireString(needle, "count");
  const Window window = Select(self, start, end);
  if (!window.valid) return Value::Int(0);
  if (text.empty()) return Value::Int(CountCodePoints(window.text) + 1);
  int64_t count = 0;
  for (size_t at = Find(window.text, text); at != std::string_view::npos;
       at = Find(window.text, text, at + text.size())) {
    ++count;
  }
  return Value::Int(count);
}

template <bool kAtEnd>
Value Matches(Runtime&, const Value& self, Arguments& arguments) {
  const char* name = kAtEnd ? "endswith" : "startswith";
  NoKeywords(arguments, name);
  auto [affix, start, end] = Bind<3>(arguments, name, {"prefix", "start", "end"}, 1);
  const Window window = Select(self, start, end);
  const auto matches = [&](const Value& value) {
    const std::string& text = value.text();
    return window.valid && (kAtEnd ? window.text.ends_with(text) : window.text.starts_with(text));
  };
  if (affix.is(Kind::kTuple)) {
    bool any = false;
    for (const Value& item : affix.as<SequenceObject>()->items) {
      if (!item.is(Kind::kString)) Fail("tuple for ", name, " must only contain str, not ", TypeName(item));
      any = any || matches(item);
    }
    return Value::Bool(any);
  }
  if (!affix.is(Kind::kString)) Fail(name, " first arg must be str or a tuple of str, not ", TypeName(affix));
  return Value::Bool(matches(affix));
}

template <bool kSuffix>
Value Remove(Runtime& runtime, const Value& self, Arguments& arguments) {
  NoKeywords(arguments, "removeprefix");
  auto [affix] = Bind<1>(arguments, kSuffix ? "removesuffix" : "removeprefix", {"affix"}, 1);
  const std::string_view text = RequireString(affix, "removeprefix() argument");
  std::string_view rest = self.text();
  if (!text.empty() && (kSuffix ? rest.ends_with(text) : rest.starts_with(text))) {
    rest = kSuffix ? rest.substr(0, rest.size() - text.size()) : rest.substr(text.size());
  }
  return Like(runtime, self, std::string(rest));
}

template <char kAlign>
Value Justify(Runtime& runtime, const Value& self, Arguments& arguments) {
  NoKeywords(arguments, "justify");
  auto [width_value, fill] = Bind<2>(arguments, "justify", {"width", "fillchar"}, 1);
  const int64_t width = RequireInt(width_value, "width");
  const std::string character = fill.missing() ? " " : RequireString(fill, "The fill character");
  if (CountCodePoints(character) != 1) Fail("The fill character must be exactly one character long");
  const int64_t missing = width - LengthOf(self);
  if (missing <= 0) return self;
  if (missing > 1'000'000) Fail("a width is above 1000000");
  const int64_t left = kAlign == '<' ? 0 : kAlign == '>' ? missing : missing / 2 + (missing & width & 1);
  std::string out;
  for (int64_t i = 0; i < left; ++i) out += character;
  out += self.text();
  for (int64_t i = left; i < missing; ++i) out += character;
  return Like(runtime, self, std::move(out));
}

Value ZeroFill(Runtime& runtime, const Value& self, Arguments& arguments) {
  NoKeywords(arguments, "zfill");
  auto [width_value] = Bind<1>(arguments, "zfill", {"width"}, 1);
  const int64_t missing = RequireInt(width_value, "width") - LengthOf(self);
  if (missing <= 0) return self;
  if (missing > 1'000'000) Fail("a width is above 1000000");
  std::string out = self.text();
  const bool sign = !out.empty() && (out[0] == '-' || out[0] == '+');
  out.insert(sign ? 1 : 0, static_cast<size_t>(missing), '0');
  return Like(runtime, self, std::move(out));
}

Value ExpandTabs(Runtime& runtime, const Value& self, Arguments& arguments) {
  auto [size_value] = Bind<1>(arguments, "expandtabs", {"tabsize"}, 0);
  const int64_t size = IntOr(size_value, 8, "tabsize");
  if (size > 1000) Fail("expandtabs: tabsize is above 1000");
  std::string out;
  int64_t column = 0;
  for (size_t at = 0; at < self.text().size();) {
    const size_t begin = at;
    const char32_t c = DecodeNext(self.text(), &at);
    if (c == '\t') {
      const int64_t spaces = size > 0 ? size - column % size : 0;
      out.append(static_cast<size_t>(spaces), ' ');
      column += spaces;
    } else {
      out.append(self.text(), begin, at - begin);
      column = c == '\n' || c == '\r' ? 0 : column + 1;
    }
  }
  return Like(runtime, self, std::move(out));
}

// True when there is a character, and all of them are of the class.
template <bool (*kIs)(char32_t)>
Value All(Runtime&, const Value& self, Arguments& arguments) {
  NoArguments(arguments, "str method");
  for (size_t at = 0; at < self.text().size();) {
    if (!kIs(DecodeNext(self.text(), &at))) return Value::Bool(false);
  }
  return Value::Bool(!self.text().empty());
}

Value AllPrintable(Runtime& runtime, const Value& self, Arguments& arguments) {
  const Value all = All<IsPrintable>(runtime, self, arguments);
  return Value::Bool(self.text().empty() || all.boolean());
}

Value AllAscii(Runtime&, const Value& self, Arguments& arguments) {
  NoArguments(arguments, "isascii");
  return Value::Bool(IsAscii(self.text()));
}

template <bool (*kHas)(char32_t), bool (*kOther)(char32_t)>
Value HasCase(Runtime&, const Value& self, Arguments& arguments) {
  NoArguments(arguments, "str method");
  bool any = false;
  for (size_t at = 0; at < self.text().size();) {
    const char32_t c = DecodeNext(self.text(), &at);
    if (kOther(c) || IsTitle(c)) return Value::Bool(false);
    any = any || kHas(c);
  }
  return Value::Bool(any);
}

Value IsTitleCased(Runtime&, const Value& self, Arguments& arguments) {
  NoArguments(arguments, "istitle");
  bool any = false, inside = false;
  for (size_t at = 0; at < self.text().size();) {
    const char32_t c = DecodeNext(self.text(), &at);
    const bool upper = IsUpper(c) || IsTitle(c), lower = IsLower(c);
    if ((upper && inside) || (lower && !inside)) return Value::Bool(false);
    inside = upper || lower;
    any = any || inside;
  }
  return Value::Bool(any);
}

Value IsIdentifier(Runtime&, const Value& self, Arguments& arguments) {
  NoArguments(arguments, "isidentifier");
  const std::string& text = self.text();
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    const char32_t c = DecodeNext(text, &at);
    if (!IsIdentifierPart(c) || (begin == 0 && !IsAlphabetic(c) && c != '_')) return Value::Bool(false);
  }
  return Value::Bool(!text.empty());
}

Value FormatMethod(Runtime& runtime, const Value& self, Arguments& arguments) {
  return BraceFormat(runtime, self, arguments);
}

Value FormatMapMethod(Runtime& runtime, const Value& self, Arguments& arguments) {
  NoKeywords(arguments, "format_map");
  auto [mapping] = Bind<1>(arguments, "format_map", {"mapping"}, 1);
  if (!mapping.is(Kind::kDict)) Fail("format_map() needs a mapping, not ", TypeName(mapping));
  Arguments named;
  for (const auto& [key, value] : mapping.as<DictObject>()->items) {
    if (key.is(Kind::kString)) named.keywords.emplace_back(key.text(), value);
  }
  return BraceFormat(runtime, self, named);
}

}  // namespace

std::span<const Method> StringMethods() {
  static constexpr Method kMethods[] = {
      // Those that templates use most come first: the table is searched from the front.
      {"strip", StripMethod<true, true>},
      {"split", SplitMethod<false>},
      {"startswith", Matches<false>},
      {"endswith", Matches<true>},
      {"replace", ReplaceMethod},
      {"lstrip", StripMethod<true, false>},
      {"rstrip", StripMethod<false, true>},
      {"join", JoinMethod},
      {"upper", Mapped<Upper>},
      {"lower", Mapped<Lower>},
      {"capitalize", Mapped<Capitalize>},
      {"casefold", Mapped<CaseFold>},
      {"center", Justify<'^'>},
      {"count", CountMethod},
      {"expandtabs", ExpandTabs},
      {"find", FindMethodOfString<false>},
      {"format", FormatMethod},
      {"format_map", FormatMapMethod},
      {"index", IndexMethod<false>},
      {"isalnum", All<IsAlphanumeric>},
      {"isalpha", All<IsAlphabetic>},
      {"isascii", AllAscii},
      {"isdecimal", All<IsDecimal>},
      {"isdigit", All<IsDigit>},
      {"isidentifier", IsIdentifier},
      {"islower", HasCase<IsLower, IsUpper>},
      {"isnumeric", All<IsNumeric>},
      {"isprintable", AllPrintable},
      {"isspace", All<IsSpace>},
      {"istitle", IsTitleCased},
      {"isupper", HasCase<IsUpper, IsLower>},
      {"ljust", Justify<'<'>},
      {"partition", Partition<false>},
      {"removeprefix", Remove<false>},
      {"removesuffix", Remove<true>},
      {"rfind", FindMethodOfString<true>},
      {"rindex", IndexMethod<true>},
      {"rjust", Justify<'>'>},
      {"rpartition", Partition<true>},
      {"rsplit", SplitMethod<true>},
      {"splitlines", SplitLinesMethod},
      {"swapcase", Mapped<SwapCase>},
      {"title", Mapped<TitleCase>},
      {"zfill", ZeroFill},
  };
  return kMethods;
}

}  // namespace tercet::chat
