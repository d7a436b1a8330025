#include "common/template/tojson.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/template/arguments.h"
#include "common/template/repr.h"
#include "common/template/strcat.h"
#include "common/template/text.h"
#include "fmt/format.h"

namespace tercet::chat {
namespace {

std::string JsonFloat(double number) {
  if (std::isnan(number)) return "NaN";
  if (std::isinf(number)) return number < 0 ? "-Infinity" : "Infinity";
  return FloatRepr(number);
}

class JsonWriter {
 public:
  JsonWriter(Runtime& runtime, const JsonStyle& style) : runtime_(runtime), style_(style) {}

  void Write(const Value& value, int level) {
    runtime_.Step();
    switch (value.kind()) {
      case Kind::kNone:
        out_ += "null";
        return;
      case Kind::kBool:
        out_ += value.boolean() ? "true" : "false";
        return;
      case Kind::kInt:
        StrAppend(&out_, value.integer());
        return;
      case Kind::kBigInt:
        out_ += value.text();
        return;
      case Kind::kFloat:
        out_ += JsonFloat(value.number());
        return;
      case Kind::kString:
        String(value.text());
        return;
      case Kind::kList:
      case Kind::kTuple:
        List(value.as<SequenceObject>()->items, level);
        return;
      case Kind::kDict:
        Dict(*value.as<DictObject>(), level);
        return;
      case Kind::kMissing:
      case Kind::kUndefined:
      case Kind::kDictView:
      case Kind::kRange:
      case Kind::kGenerator:
      case Kind::kNamespace:
      case Kind::kMacro:
      case Kind::kMethod:
      case Kind::kFunction:
      case Kind::kLoop:
      case Kind::kCycler:
      case Kind::kJoiner:
        break;
    }
    Fail("Object of type ", TypeName(value), " is not JSON serializable");
  }

  std::string Take() { return std::move(out_); }

 private:
  void NewLine(int level) {
    if (!style_.indented) return;
    out_.push_back('\n');
    for (int i = 0; i < level; ++i) out_ += style_.indent;
  }

  void List(const Values& items, int level) {
    if (items.empty()) {
      out_ += "[]";
      return;
    }
    out_.push_back('[');
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) out_ += style_.item_separator;
      NewLine(level + 1);
      Write(items[i], level + 1);
    }
    NewLine(level);
    out_.push_back(']');
  }

  void Dict(const DictObject& dict, int level) {
    if (dict.items.empty()) {
      out_ += "{}";
      return;
    }
    std::vector<const std::pair<Value, Value>*> items;
    items.reserve(dict.items.size());
    for (const auto& item : dict.items) items.push_back(&item);
    if (style_.sort_keys) {
      std::stable_sort(items.begin(), items.end(),
                       [](const auto* a, const auto* b) { return Order(a->first, b->first) == -1; });
    }
    out_.push_back('{');
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) out_ += style_.item_separator;
      NewLine(level + 1);
      Key(items[i]->first);
      out_ += style_.key_separator;
      Write(items[i]->second, level + 1);
    }
    NewLine(level);
    out_.push_back('}');
  }

  void Key(const Value& key) {
    if (key.is(Kind::kString)) {
      String(key.text());
    } else if (key.is(Kind::kFloat)) {
      StrAppend(&out_, "\"", JsonFloat(key.number()), "\"");
    } else if (key.is(Kind::kBool)) {
      out_ += key.boolean() ? "\"true\"" : "\"false\"";
    } else if (key.is(Kind::kNone)) {
      out_ += "\"null\"";
    } else if (key.is(Kind::kInt) || key.is(Kind::kBigInt)) {
      StrAppend(&out_, "\"", Repr(key), "\"");
    } else {
      Fail("keys must be str, int, float, bool or None, not ", TypeName(key));
    }
  }

  void Escape(char32_t unit) { out_ += fmt::format("\\u{:04x}", static_cast<uint32_t>(unit)); }

  void String(std::string_view text) {
    out_.push_back('"');
    for (size_t at = 0; at < text.size();) {
      const auto byte = static_cast<unsigned char>(text[at]);
      if (byte >= 0x80 || (byte == 0x7F && style_.ensure_ascii)) {
        const size_t begin = at;
        const char32_t c = DecodeNext(text, &at);
        if (!style_.ensure_ascii) {
          out_.append(text.substr(begin, at - begin));
        } else if (c >= 0x10000) {
          Escape(0xD800 + ((c - 0x10000) >> 10));
          Escape(0xDC00 + ((c - 0x10000) & 0x3FF));
        } else {
          Escape(c);
        }
        continue;
      }
      ++at;
      switch (byte) {
        case '"':
          out_ += "\\\"";
          break;
        case '\\':
          out_ += "\\\\";
          break;
        case '\n':
          out_ += "\\n";
          break;
        case '\r':
          out_ += "\\r";
          break;
        case '\t':
          out_ += "\\t";
          break;
        case '\b':
          out_ += "\\b";
          break;
        case '\f':
          out_ += "\\f";
          break;
        default:
          if (byte < 0x20) {
            Escape(byte);
          } else {
            out_.push_back(static_cast<char>(byte));
          }
      }
    }
    out_.push_back('"');
  }

  Runtime& runtime_;
  const JsonStyle& style_;
  std::string out_;
};

}  // namespace

std::string ToJson(Runtime& runtime, const Value& value, const JsonStyle& style) {
  runtime.StepOver(value);
  JsonWriter writer(runtime, style);
  writer.Write(value, 0);
  return writer.Take();
}

Value ToJsonFilter(Runtime& runtime, const Value& value, Arguments& arguments) {
  static constexpr std::array<std::string_view, 4> kParameters = {"ensure_ascii", "indent", "separators", "sort_keys"};
  auto [ensure_ascii, indent, separators, sort_keys] = Bind(arguments, "tojson", kParameters, 0);
  JsonStyle style;
  style.ensure_ascii = TruthOr(ensure_ascii, false);
  style.sort_keys = TruthOr(sort_keys, false);
  if (!indent.missing() && !indent.is(Kind::kNone)) {
    style.indented = true;
    style.item_separator = ",";
    if (indent.is(Kind::kString)) {
      style.indent = indent.text();
    } else {
      const int64_t width = RequireInt(indent, "tojson: indent");
      if (width > 1000) Fail("tojson: indent is above 1000");
      style.indent.assign(static_cast<size_t>(std::max<int64_t>(width, 0)), ' ');
    }
  }
  if (!separators.missing() && !separators.is(Kind::kNone)) {
    const Values parts = Collect(runtime, separators);
    if (parts.size() != 2) Fail("tojson: separators must be a pair of strings");
    style.item_separator = RequireString(parts[0], "tojson: a separator");
    style.key_separator = RequireString(parts[1], "tojson: a separator");
  }
  return runtime.String(ToJson(runtime, value, style));
}

}  // namespace tercet::chat
