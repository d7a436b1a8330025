#include <charconv>
#include <cmath>

#include "common/template/error.h"
#include "common/template/format.h"
#include "common/template/operators.h"
#include "common/template/repr.h"
#include "common/template/strcat.h"
#include "common/template/text.h"

namespace tercet::chat {
namespace {

FormatSpec ParseSpec(std::string_view text) {
  FormatSpec spec;
  const auto is_align = [](char c) { return c == '<' || c == '>' || c == '^' || c == '='; };
  if (!text.empty()) {
    size_t first = 0;
    DecodeNext(text, &first);
    if (first < text.size() && is_align(text[first])) {
      spec.fill = std::string(text.substr(0, first));
      spec.align = text[first];
      text.remove_prefix(first + 1);
    } else if (is_align(text[0])) {
      spec.align = text[0];
      text.remove_prefix(1);
    }
  }
  const auto take = [&](std::string_view any) {
    if (text.empty() || any.find(text[0]) == std::string_view::npos) return '\0';
    const char c = text[0];
    text.remove_prefix(1);
    return c;
  };
  const auto number = [&] {
    int64_t value = 0;
    while (!text.empty() && text[0] >= '0' && text[0] <= '9') {
      value = std::min<int64_t>(value * 10 + (text[0] - '0'), 1'000'000'000);
      text.remove_prefix(1);
    }
    return value;
  };
  if (const char sign = take("+- ")) spec.sign = sign;
  spec.alternate = take("#") != 0;
  if (take("0") != 0) {
    spec.zero = true;
    if (spec.align == 0) {
      spec.fill = "0";
      spec.align = '=';
    }
  }
  spec.width = number();
  spec.grouped = take(",") != 0;
  if (take(".") != 0) {
    if (text.empty() || text[0] < '0' || text[0] > '9') Fail("Format specifier missing precision");
    spec.precision = number();
  }
  if (!text.empty()) {
    spec.type = text[0];
    text.remove_prefix(1);
  }
  if (!text.empty()) Fail("Invalid format specifier");
  return spec;
}

std::string FormatValue(const Value& value, std::string_view text) {
  if (text.empty()) return Str(value);
  FormatSpec spec = ParseSpec(text);
  if (value.is(Kind::kFloat) ||
      (value.is_integral() && std::string_view("eEfFgG%").find(spec.type) != std::string_view::npos &&
       spec.type != 0)) {
    return Pad(FormatFloat(value.number(), spec), spec, '>');
  }
  if (value.is_integral() && spec.type != 's') {
    if (spec.precision >= 0) Fail("Precision not allowed in integer format specifier");
    if (spec.type == 'c') {
      std::string character;
      if (value.integer() < 0 || value.integer() > 0x10FFFF || (value.integer() >> 11) == 0x1B)
        Fail("%c arg not in range(0x110000)");
      AppendUtf8(static_cast<char32_t>(value.integer()), &character);
      return Pad(std::move(character), spec, '<');
    }
    return Pad(FormatInteger(value.integer(), spec), spec, '>');
  }
  if (value.is(Kind::kBigInt)) return Pad(value.text(), spec, '>');
  if (!value.is(Kind::kString) && !value.is(Kind::kBool)) {
    Fail("unsupported format string passed to ", TypeName(value), ".__format__");
  }
  if (spec.type != 0 && spec.type != 's') {
    Fail("Unknown format code '", std::string(1, spec.type), "' for object of type '", TypeName(value), "'");
  }
  if (spec.align == '=' && !spec.zero) Fail("'=' alignment not allowed in string format specifier");
  if (spec.align == '=') spec.align = '<';
  std::string out = Str(value);
  if (spec.precision >= 0) out.resize(ByteOffset(out, spec.precision));
  return Pad(std::move(out), spec, '<');
}

class BraceFormatter {
 public:
  BraceFormatter(Runtime& runtime, const Arguments& arguments, bool markup)
      : runtime_(runtime), arguments_(arguments), markup_(markup) {}

  std::string Run(std::string_view format, int depth) {
    if (depth > 2) Fail("Max string recursion exceeded");
    std::string out;
    for (size_t at = 0; at < format.size();) {
      const char c = format[at];
      if ((c == '{' || c == '}') && at + 1 < format.size() && format[at + 1] == c) {
        out.push_back(c);
        at += 2;
      } else if (c == '}') {
        Fail("Single '}' encountered in format string");
      } else if (c == '{') {
        const size_t end = FieldEnd(format, at + 1);
        out += Field(format.substr(at + 1, end - at - 1), depth);
        runtime_.StepOver(static_cast<int64_t>(out.size()) / 16);
        at = end + 1;
      } else {
        out.push_back(c);
        ++at;
      }
    }
    return out;
  }

 private:
  static size_t FieldEnd(std::string_view format, size_t at) {
    for (int open = 1; at < format.size(); ++at) {
      open += (format[at] == '{') - (format[at] == '}');
      if (open == 0) return at;
    }
    Fail("expected '}' before end of string");
  }

  std::string Field(std::string_view field, int depth) {
    std::string_view nested_spec;
    if (const size_t colon = field.find(':'); colon != std::string_view::npos) {
      nested_spec = field.substr(colon + 1);
      field = field.substr(0, colon);
    }
    char conversion = 0;
    if (const size_t mark = field.find('!'); mark != std::string_view::npos) {
      if (mark + 2 != field.size()) Fail("expected ':' after conversion specifier");
      conversion = field[mark + 1];
      field = field.substr(0, mark);
    }
    Value value = Lookup(field);
    if (conversion == 'r' || conversion == 'a') {
      value = runtime_.String(Repr(value));
    } else if (conversion == 's') {
      value = runtime_.String(Str(value));
    } else if (conversion != 0) {
      Fail("Unknown conversion specifier ", std::string(1, conversion));
    }
    // Fields inside of the specification are numbered after this one.
    std::string text = FormatValue(value, Run(nested_spec, depth + 1));
    const bool safe = value.is(Kind::kString) && value.as<StringObject>()->markup;
    return markup_ && !safe ? EscapeHtml(text) : text;
  }

  Value Lookup(std::string_view field) {
    const size_t end = std::min(field.find_first_of(".["), field.size());
    Value value = First(field.substr(0, end));
    field.remove_prefix(end);
    while (!field.empty()) {
      if (field[0] == '.') {
        const size_t stop = std::min(field.find_first_of(".[", 1), field.size());
        value = GetAttribute(runtime_, value, runtime_.String(std::string(field.substr(1, stop - 1))));
        field.remove_prefix(stop);
      } else {
        const size_t close = field.find(']');
        if (field[0] != '[' || close == std::string_view::npos) Fail("Missing ']' in format string");
        const std::string_view key = field.substr(1, close - 1);
        int64_t index = 0;
        const auto [stop, error] = std::from_chars(key.data(), key.data() + key.size(), index);
        const bool number = error == std::errc() && stop == key.data() + key.size() && key[0] != '-';
        value = GetItem(runtime_, value, number ? Value::Int(index) : runtime_.String(std::string(key)));
        field.remove_prefix(close + 1);
      }
    }
    return value;
  }

  Value First(std::string_view name) {
    int64_t index = 0;
    const auto [stop, error] = std::from_chars(name.data(), name.data() + name.size(), index);
    if (name.empty()) {
      if (automatic_ < 0) Fail("cannot switch from manual field specification to automatic field numbering");
      index = automatic_++;
    } else if (error == std::errc() && stop == name.data() + name.size()) {
      if (automatic_ > 0) Fail("cannot switch from automatic field numbering to manual field specification");
      automatic_ = -1;
    } else {
      for (const auto& [keyword, value] : arguments_.keywords) {
        if (keyword == name) return value;
      }
      Fail("KeyError: ", StringRepr(name));
    }
    if (index < 0 || index >= static_cast<int64_t>(arguments_.positional.size())) {
      Fail("Replacement index ", index, " out of range for positional args tuple");
    }
    return arguments_.positional[static_cast<size_t>(index)];
  }

  Runtime& runtime_;
  const Arguments& arguments_;
  bool markup_;
  int64_t automatic_ = 0;
};

}  // namespace

Value BraceFormat(Runtime& runtime, const Value& format, const Arguments& arguments) {
  const bool markup = format.as<StringObject>()->markup;
  return runtime.String(BraceFormatter(runtime, arguments, markup).Run(format.text(), 1), markup);
}

}  // namespace tercet::chat
