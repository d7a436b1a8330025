// Filters on text.
#include <algorithm>
#include <utility>

#include "common/template/arguments.h"
#include "common/template/filters.h"
#include "common/template/format.h"
#include "common/template/repr.h"
#include "common/template/strcat.h"
#include "common/template/text.h"
#include "common/template/tojson.h"
#include "fmt/format.h"

namespace tercet::chat {
namespace {

using Names = std::string_view;

// A filter that maps text to text and takes no arguments.
template <std::string (*kMap)(std::string_view)>
Value Mapped(Runtime& runtime, const Value& input, Arguments& arguments) {
  NoArguments(arguments, "filter");
  bool markup;
  const std::string text = SoftText(input, &markup);
  runtime.StepOver(static_cast<int64_t>(text.size()));
  return runtime.String(kMap(text), markup);
}

// Jinja2's own title: a word begins after white space and - ( { [ <.
std::string TitleWords(std::string_view text) {
  std::string out;
  size_t at = 0;
  const auto separates = [](char32_t c) {
    return c == '-' || c == '(' || c == '{' || c == '[' || c == '<' || IsSpace(c);
  };
  while (at < text.size()) {
    const size_t begin = at;
    const char32_t first = DecodeNext(text, &at);
    if (separates(first)) {
      out.append(text.substr(begin, at - begin));
      continue;
    }
    out += Upper(text.substr(begin, at - begin));
    const size_t rest = at;
    while (at < text.size()) {
      size_t next = at;
      if (separates(DecodeNext(text, &next))) break;
      at = next;
    }
    out += Lower(text.substr(rest, at - rest));
  }
  return out;
}

Value Trim(Runtime& runtime, const Value& input, Arguments& arguments) {
  auto [characters] = Bind<1>(arguments, "trim", {"chars"}, 0);
  bool markup;
  const std::string text = SoftText(input, &markup);
  if (characters.missing() || characters.is(Kind::kNone)) {
    return runtime.String(std::string(Strip(text, nullptr, true, true)), markup);
  }
  const std::string_view set = RequireString(characters, "strip arg");
  return runtime.String(std::string(Strip(text, &set, true, true)), markup);
}

Value ReplaceFilter(Runtime& runtime, const Value& input, Arguments& arguments) {
  auto [from, to, count] = Bind<3>(arguments, "replace", {"old", "new", "count"}, 2);
  const int64_t limit = count.missing() || count.is(Kind::kNone) ? -1 : RequireInt(count, "replace: count");
  const std::string text = Str(input), old_text = Str(from), new_text = Str(to);
  runtime.StepOver(static_cast<int64_t>(text.size()));
  // Each place that could be replaced may grow the text by the new one.
  const auto places = static_cast<int64_t>(text.size() / std::max<size_t>(old_text.size(), 1) + 1);
  if (places > runtime.limits().max_memory_bytes / static_cast<int64_t>(new_text.size() + 1)) {
    Fail("a replacement may take more than ", runtime.limits().max_memory_bytes, " bytes of memory");
  }
  return runtime.String(Replace(text, old_text, new_text, limit));
}

Value StringFilter(Runtime& runtime, const Value& input, Arguments& arguments) {
  NoArguments(arguments, "string");
  return input.is(Kind::kString) ? input : runtime.String(Str(input));
}

Value SafeFilter(Runtime& runtime, const Value& input, Arguments& arguments) {
  NoArguments(arguments, "safe");
  return runtime.String(Str(input), true);
}

Value EscapeFilter(Runtime& runtime, const Value& input, Arguments& arguments) {
  NoArguments(arguments, "escape");
  bool markup;
  std::string text = SoftText(input, &markup);
  return runtime.String(markup ? std::move(text) : EscapeHtml(text), true);
}

Value ForceEscape(Runtime& runtime, const Value& input, Arguments& arguments) {
  NoArguments(arguments, "forceescape");
  return runtime.String(EscapeHtml(Str(input)), true);
}

Value Indent(Runtime& runtime, const Value& input, Arguments& arguments) {
  auto [width, first, blank] = Bind<3>(arguments, "indent", {"width", "first", "blank"}, 0);
  if (input.is(Kind::kUndefined)) FailUndefined(input);
  const std::string text = StrCat(RequireString(input, "indent: the input"), "\n");
  std::string indention;
  if (width.is(Kind::kString)) {
    indention = width.text();
  } else {
    const int64_t spaces = IntOr(width, 4, "indent: width");
    if (spaces > 10'000) Fail("indent: width is above 10000");
    indention.assign(static_cast<size_t>(std::max<int64_t>(spaces, 0)), ' ');
  }
  const auto lines = SplitLines(text, false);
  runtime.StepOver(static_cast<int64_t>(text.size() + lines.size() * indention.size()));
  if (static_cast<int64_t>(lines.size() * indention.size()) > runtime.limits().max_memory_bytes) {
    Fail("an indented text takes more than ", runtime.limits().max_memory_bytes, " bytes of memory");
  }
  std::string out = TruthOr(first, false) ? indention : "";
  for (size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) out.push_back('\n');
    if (i > 0 && (TruthOr(blank, false) || !lines[i].empty())) out += indention;
    out += lines[i];
  }
  return runtime.String(std::move(out), input.as<StringObject>()->markup);
}

Value Truncate(Runtime& runtime, const Value& input, Arguments& arguments) {
  auto [length_value, killwords, end_value, leeway_value] =
      Bind<4>(arguments, "truncate", {"length", "killwords", "end", "leeway"}, 0);
  const int64_t length = IntOr(length_value, 255, "truncate: length");
  const std::string end = end_value.missing() ? "..." : RequireString(end_value, "truncate: end");
  const int64_t leeway =
      leeway_value.missing() || leeway_value.is(Kind::kNone) ? 5 : RequireInt(leeway_value, "truncate: leeway");
  const int64_t end_length = CountCodePoints(end);
  if (length < end_length) Fail("expected length >= ", end_length, ", got ", length);
  if (leeway < 0) Fail("expected leeway >= 0, got ", leeway);
  if (input.is(Kind::kUndefined)) return input;
  const int64_t given = LengthOf(input);
  if (given < 0) Fail("object of type '", TypeName(input), "' has no len()");
  if (given <= length + leeway) return input;
  const std::string& text = RequireString(input, "truncate: the input");
  const bool markup = input.as<StringObject>()->markup;
  std::string_view kept = std::string_view(text).substr(0, ByteOffset(text, length - end_length));
  if (!TruthOr(killwords, false)) {
    if (const size_t space = kept.rfind(' '); space != std::string_view::npos) kept = kept.substr(0, space);
  }
  return runtime.String(StrCat(kept, end), markup);
}

Value Center(Runtime& runtime, const Value& input, Arguments& arguments) {
  auto [width] = Bind<1>(arguments, "center", {"width"}, 0);
  bool markup;
  const std::string text = SoftText(input, &markup);
  const int64_t total = IntOr(width, 80, "center: width"), missing = total - CountCodePoints(text);
  if (missing <= 0) return runtime.String(text, markup);
  if (missing > 1'000'000) Fail("center: width is above 1000000");
  const int64_t left = missing / 2 + (missing & total & 1);
  return runtime.String(
      StrCat(std::string(static_cast<size_t>(left), ' '), text, std::string(static_cast<size_t>(missing - left), ' ')),
      markup);
}

Value WordCount(Runtime& runtime, const Value& input, Arguments& arguments) {
  NoArguments(arguments, "wordcount");
  bool markup;
  const std::string text = SoftText(input, &markup);
  runtime.StepOver(static_cast<int64_t>(text.size()));
  int64_t words = 0;
  bool inside = false;
  for (size_t at = 0; at < text.size();) {
    const char32_t c = DecodeNext(text, &at);
    const bool word = IsAlphanumeric(c) || c == '_';
    words += word && !inside;
    inside = word;
  }
  return Value::Int(words);
}

Value FormatFilter(Runtime& runtime, const Value& input, Arguments& arguments) {
  if (!arguments.positional.empty() && !arguments.keywords.empty()) {
    Fail("can't handle positional and keyword arguments at the same time");
  }
  const Value text = input.is(Kind::kString) ? input : runtime.String(Str(input));
  if (arguments.keywords.empty()) return PercentFormat(runtime, text, runtime.Tuple(arguments.positional));
  const Value named = runtime.NewDict();
  for (auto& [name, value] : arguments.keywords) named.as<DictObject>()->Set(runtime.String(name), value);
  runtime.Seal(named);
  return PercentFormat(runtime, text, named);
}

std::string PercentEncode(std::string_view text, bool query) {
  std::string out;
  for (char c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
                       c == '.' || c == '-' || c == '~' || (c == '/' && !query);
    if (plain) {
      out.push_back(c);
    } else if (query && c == ' ') {
      out.push_back('+');
    } else {
      out += fmt::format("%{:02X}", static_cast<unsigned>(static_cast<unsigned char>(c)));
    }
  }
  return out;
}

Value UrlEncode(Runtime& runtime, const Value& input, Arguments& arguments) {
  NoArguments(arguments, "urlencode");
  const bool pairs = input.is(Kind::kDict) || input.is(Kind::kList) || input.is(Kind::kTuple) ||
                     input.is(Kind::kDictView) || input.is(Kind::kGenerator) || input.is(Kind::kUndefined);
  if (!pairs) return runtime.String(PercentEncode(Str(input), false));
  std::string out;
  const Value items = input.is(Kind::kDict) ? runtime.DictView(input, DictPart::kItems) : input;
  for (const Value& item : Collect(runtime, items)) {
    const Values pair = Collect(runtime, item);
    if (pair.size() != 2) Fail("urlencode: expected pairs of a key and a value");
    StrAppend(&out, out.empty() ? "" : "&", PercentEncode(Str(pair[0]), true), "=", PercentEncode(Str(pair[1]), true));
  }
  return runtime.String(std::move(out));
}

Value StripTags(Runtime& runtime, const Value& input, Arguments& arguments) {
  NoArguments(arguments, "striptags");
  std::string text = Str(input);
  runtime.StepOver(static_cast<int64_t>(text.size()));
  const auto remove = [&](std::string_view open, std::string_view close) {
    std::string out;
    size_t at = 0;
    while (true) {
      const size_t begin = text.find(open, at);
      const size_t end = begin == std::string::npos ? begin : text.find(close, begin);
      if (end == std::string::npos) break;
      out.append(text, at, begin - at);
      at = end + close.size();
    }
    text = out.append(text, at, std::string::npos);
  };
  remove("<!--", "-->");
  remove("<", ">");
  std::string out;
  for (std::string_view word : Split(text, nullptr, -1)) StrAppend(&out, out.empty() ? "" : " ", word);
  // The entities that escaping writes; others stay.
  static constexpr std::pair<std::string_view, std::string_view> kEntities[] = {
      {"&lt;", "<"}, {"&gt;", ">"}, {"&#39;", "'"}, {"&#34;", "\""}, {"&quot;", "\""}, {"&amp;", "&"}};
  for (const auto& [entity, character] : kEntities) out = Replace(out, entity, character, -1);
  return runtime.String(std::move(out));
}

Value XmlAttributes(Runtime& runtime, const Value& input, Arguments& arguments) {
  auto [space] = Bind<1>(arguments, "xmlattr", {"autospace"}, 0);
  if (input.is(Kind::kUndefined)) FailUndefined(input);
  if (!input.is(Kind::kDict)) Fail("'", TypeName(input), "' object has no attribute 'items'");
  std::string out;
  for (const auto& [key, value] : input.as<DictObject>()->items) {
    if (value.is(Kind::kNone) || value.is(Kind::kUndefined)) continue;
    const std::string& name = RequireString(key, "xmlattr: a key");
    if (name.find_first_of(" \t\n\r\f\v/>=") != std::string::npos) {
      Fail("Invalid character in attribute name: ", StringRepr(name));
    }
    StrAppend(&out, out.empty() ? "" : " ", EscapeHtml(name), "=\"", EscapeHtml(Str(value)), "\"");
  }
  if (TruthOr(space, true) && !out.empty()) out.insert(out.begin(), ' ');
  return runtime.String(std::move(out));
}

}  // namespace

std::span<const Filter> TextFilters() {
  static constexpr Filter kFilters[] = {
      {"capitalize", Mapped<Capitalize>},
      {"center", Center},
      {"e", EscapeFilter},
      {"escape", EscapeFilter},
      {"forceescape", ForceEscape},
      {"format", FormatFilter},
      {"indent", Indent},
      {"lower", Mapped<Lower>},
      {"replace", ReplaceFilter},
      {"safe", SafeFilter},
      {"string", StringFilter},
      {"striptags", StripTags},
      {"title", Mapped<TitleWords>},
      {"tojson", ToJsonFilter},
      {"trim", Trim},
      {"truncate", Truncate},
      {"upper", Mapped<Upper>},
      {"urlencode", UrlEncode},
      {"wordcount", WordCount},
      {"xmlattr", XmlAttributes},
  };
  return kFilters;
}

}  // namespace tercet::chat
