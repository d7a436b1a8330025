#include "common/template/repr.h"

#include <charconv>
#include <cmath>

#include "common/template/callable.h"
#include "common/template/error.h"
#include "common/template/limits.h"
#include "common/template/loop.h"
#include "common/template/strcat.h"
#include "common/template/text.h"
#include "fmt/format.h"

namespace tercet::chat {
namespace {

void AppendRepr(const Value& value, int depth, std::string* out);

void AppendItems(const Values& items, int depth, std::string* out) {
  for (size_t i = 0; i < items.size(); ++i) {
    if (i > 0) out->append(", ");
    AppendRepr(items[i], depth, out);
  }
}

void AppendDict(const DictObject& dict, int depth, std::string* out) {
  out->push_back('{');
  for (size_t i = 0; i < dict.items.size(); ++i) {
    if (i > 0) out->append(", ");
    AppendRepr(dict.items[i].first, depth, out);
    out->append(": ");
    AppendRepr(dict.items[i].second, depth, out);
  }
  out->push_back('}');
}

void AppendView(const DictViewObject& view, int depth, std::string* out) {
  const char* name = view.part == DictPart::kKeys     ? "dict_keys"
                     : view.part == DictPart::kValues ? "dict_values"
                                                      : "dict_items";
  StrAppend(out, name, "([");
  bool first = true;
  for (const auto& [key, item] : view.dict.as<DictObject>()->items) {
    if (!first) out->append(", ");
    first = false;
    if (view.part == DictPart::kItems) out->push_back('(');
    if (view.part != DictPart::kValues) AppendRepr(key, depth, out);
    if (view.part == DictPart::kItems) out->append(", ");
    if (view.part != DictPart::kKeys) AppendRepr(item, depth, out);
    if (view.part == DictPart::kItems) out->push_back(')');
  }
  out->append("])");
}

void AppendNamespace(const NamespaceObject& space, int depth, std::string* out) {
  out->append("<Namespace {");
  for (size_t i = 0; i < space.attributes.size(); ++i) {
    if (i > 0) out->append(", ");
    StrAppend(out, StringRepr(space.attributes[i].first), ": ");
    AppendRepr(space.attributes[i].second, depth, out);
  }
  out->append("}>");
}

void AppendRepr(const Value& value, int depth, std::string* out) {
  if (depth > kMaxValueDepth) Fail("maximum recursion depth exceeded while getting the repr of an object");
  switch (value.kind()) {
    case Kind::kMissing:
      out->append("missing");
      return;
    case Kind::kUndefined:
      out->append("Undefined");
      return;
    case Kind::kNone:
      out->append("None");
      return;
    case Kind::kBool:
      out->append(value.boolean() ? "True" : "False");
      return;
    case Kind::kInt:
      StrAppend(out, value.integer());
      return;
    case Kind::kFloat:
      out->append(FloatRepr(value.number()));
      return;
    case Kind::kBigInt:
      out->append(value.text());
      return;
    case Kind::kString:
      if (value.as<StringObject>()->markup) {
        StrAppend(out, "Markup(", StringRepr(value.text()), ")");
      } else {
        out->append(StringRepr(value.text()));
      }
      return;
    case Kind::kList:
      out->push_back('[');
      AppendItems(value.as<SequenceObject>()->items, depth + 1, out);
      out->push_back(']');
      return;
    case Kind::kTuple:
      out->push_back('(');
      AppendItems(value.as<SequenceObject>()->items, depth + 1, out);
      out->append(value.as<SequenceObject>()->items.size() == 1 ? ",)" : ")");
      return;
    case Kind::kDict:
      AppendDict(*value.as<DictObject>(), depth + 1, out);
      return;
    case Kind::kDictView:
      AppendView(*value.as<DictViewObject>(), depth + 1, out);
      return;
    case Kind::kRange: {
      const auto& range = *value.as<RangeObject>();
      StrAppend(out, "range(", range.start, ", ", range.stop);
      if (range.step != 1) StrAppend(out, ", ", range.step);
      out->push_back(')');
      return;
    }
    case Kind::kGenerator:
      StrAppend(out, "<", value.as<GeneratorObject>()->type, " object>");
      return;
    case Kind::kNamespace:
      AppendNamespace(*value.as<NamespaceObject>(), depth + 1, out);
      return;
    case Kind::kMacro: {
      const auto& macro = *value.as<MacroObject>();
      StrAppend(out, "<Macro ", macro.name.empty() ? "anonymous" : StringRepr(macro.name), ">");
      return;
    }
    case Kind::kMethod:
      StrAppend(out, "<built-in method ", value.as<MethodObject>()->name, " of ",
                TypeName(value.as<MethodObject>()->self), " object>");
      return;
    case Kind::kFunction:
      StrAppend(out, "<function ", value.as<FunctionObject>()->name, ">");
      return;
    case Kind::kLoop: {
      auto& loop = *value.as<LoopObject>();
      const int64_t length = loop.Length();
      StrAppend(out, "<LoopContext ", loop.index0 + 1, "/", length, ">");
      return;
    }
    case Kind::kCycler:
      out->append("<jinja2.utils.Cycler object>");
      return;
    case Kind::kJoiner:
      out->append("<jinja2.utils.Joiner object>");
      return;
  }
}

}  // namespace

std::string FloatRepr(double number) {
  if (std::isnan(number)) return "nan";
  if (std::isinf(number)) return number < 0 ? "-inf" : "inf";
  char buffer[64];
  // The shortest digits that read back as the same number, as d.ddde±xx; then Python's choice of notation.
  const auto [end, error] = std::to_chars(buffer, buffer + sizeof buffer, number, std::chars_format::scientific);
  std::string_view text(buffer, static_cast<size_t>(end - buffer));
  std::string out;
  if (text.front() == '-') {
    out.push_back('-');
    text.remove_prefix(1);
  }
  const size_t e = text.find('e');
  std::string digits(text.substr(0, 1));
  if (e > 2) digits.append(text.substr(2, e - 2));
  int exponent = 0;
  const char* exponent_begin = text.data() + e + 1 + (text[e + 1] == '+');
  std::from_chars(exponent_begin, text.data() + text.size(), exponent);
  const int count = static_cast<int>(digits.size());
  if (exponent < -4 || exponent >= 16) {
    out.push_back(digits[0]);
    if (count > 1) StrAppend(&out, ".", digits.substr(1));
    StrAppend(&out, "e", exponent < 0 ? "-" : "+", std::abs(exponent) < 10 ? "0" : "", std::abs(exponent));
  } else if (exponent < 0) {
    StrAppend(&out, "0.", std::string(static_cast<size_t>(-exponent - 1), '0'), digits);
  } else if (count <= exponent + 1) {
    StrAppend(&out, digits, std::string(static_cast<size_t>(exponent + 1 - count), '0'), ".0");
  } else {
    StrAppend(&out, digits.substr(0, exponent + 1), ".", digits.substr(exponent + 1));
  }
  return out;
}

std::string StringRepr(std::string_view text) {
  const bool single = text.find('\'') != std::string_view::npos;
  const bool twice = text.find('"') != std::string_view::npos;
  const char quote = single && !twice ? '"' : '\'';
  std::string out(1, quote);
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    const char32_t c = DecodeNext(text, &at);
    if (c == static_cast<char32_t>(quote) || c == '\\') {
      out.push_back('\\');
      out.push_back(static_cast<char>(c));
    } else if (c == '\n') {
      out.append("\\n");
    } else if (c == '\r') {
      out.append("\\r");
    } else if (c == '\t') {
      out.append("\\t");
    } else if (IsPrintable(c)) {
      out.append(text.substr(begin, at - begin));
    } else if (c < 0x100) {
      out += fmt::format("\\x{:02x}", static_cast<uint32_t>(c));
    } else if (c < 0x10000) {
      out += fmt::format("\\u{:04x}", static_cast<uint32_t>(c));
    } else {
      out += fmt::format("\\U{:08x}", static_cast<uint32_t>(c));
    }
  }
  out.push_back(quote);
  return out;
}

std::string Repr(const Value& value) {
  std::string out;
  AppendRepr(value, 0, &out);
  return out;
}

void AppendStr(const Value& value, std::string* out) {
  if (value.is(Kind::kString)) {
    out->append(value.text());
  } else if (!value.is(Kind::kUndefined)) {
    AppendRepr(value, 0, out);
  }
}

std::string Str(const Value& value) {
  std::string out;
  AppendStr(value, &out);
  return out;
}

}  // namespace tercet::chat
