#include <cmath>

#include "common/template/error.h"
#include "common/template/format.h"
#include "common/template/operators.h"
#include "common/template/repr.h"
#include "common/template/strcat.h"
#include "common/template/text.h"

namespace tercet::chat {
namespace {

class PercentFormatter {
 public:
  PercentFormatter(Runtime& runtime, const Value& format, const Value& arguments)
      : runtime_(runtime), format_(format.text()), markup_(format.as<StringObject>()->markup), arguments_(arguments) {}

  Value Run() {
    std::string out;
    while (position_ < format_.size()) {
      const size_t percent = format_.find('%', position_);
      if (percent == std::string_view::npos) {
        out += format_.substr(position_);
        break;
      }
      out += format_.substr(position_, percent - position_);
      position_ = percent + 1;
      Field(&out);
      runtime_.StepOver(static_cast<int64_t>(out.size()) / 16);
    }
    CheckAllUsed();
    return runtime_.String(std::move(out), markup_);
  }

 private:
  char Next() {
    if (position_ >= format_.size()) Fail("incomplete format");
    return format_[position_++];
  }

  Value NextArgument() {
    if (!named_.missing()) return named_;
    if (arguments_.is(Kind::kTuple)) {
      const Values& items = arguments_.as<SequenceObject>()->items;
      if (used_ >= items.size()) Fail("not enough arguments for format string");
      return items[used_++];
    }
    if (used_++ > 0) Fail("not enough arguments for format string");
    return arguments_;
  }

  // A number in the format, or `*`: an argument.
  int64_t Number() {
    if (position_ < format_.size() && format_[position_] == '*') {
      ++position_;
      const Value value = NextArgument();
      if (!value.is_integral()) Fail("* wants int");
      return value.integer();
    }
    int64_t number = 0;
    while (position_ < format_.size() && format_[position_] >= '0' && format_[position_] <= '9') {
      number = std::min<int64_t>(number * 10 + (format_[position_++] - '0'), 1'000'000'000);
    }
    return number;
  }

  void Field(std::string* out) {
    named_ = Value();
    FormatSpec spec;
    if (position_ < format_.size() && format_[position_] == '(') {
      if (!arguments_.is(Kind::kDict)) Fail("format requires a mapping");
      size_t end = ++position_;
      for (int open = 1; end < format_.size(); ++end) {
        open += (format_[end] == '(') - (format_[end] == ')');
        if (open == 0) break;
      }
      if (end >= format_.size()) Fail("incomplete format key");
      const std::string_view key = format_.substr(position_, end - position_);
      const Value* found = arguments_.as<DictObject>()->Find(key);
      if (found == nullptr) Fail("KeyError: ", StringRepr(key));
      named_ = *found;
      position_ = end + 1;
    }
    while (position_ < format_.size() && std::string_view("-+ #0").find(format_[position_]) != std::string_view::npos) {
      switch (format_[position_++]) {
        case '-':
          spec.align = '<';
          break;
        case '+':
          spec.sign = '+';
          break;
        case ' ':
          if (spec.sign != '+') spec.sign = ' ';
          break;
        case '#':
          spec.alternate = true;
          break;
        default:
          spec.zero = true;
      }
    }
    spec.width = Number();
    if (spec.width < 0) {
      spec.align = '<';
      spec.width = -spec.width;
    }
    if (position_ < format_.size() && format_[position_] == '.') {
      ++position_;
      spec.precision = std::max<int64_t>(Number(), 0);
    }
    while (position_ < format_.size() && std::string_view("hlL").find(format_[position_]) != std::string_view::npos) {
      ++position_;
    }
    spec.type = Next();
    Convert(spec, out);
  }

  void Convert(FormatSpec spec, std::string* out) {
    switch (spec.type) {
      case '%':
        out->push_back('%');
        return;
      case 's':
      case 'r':
      case 'a': {
        const Value value = NextArgument();
        std::string text = spec.type == 's' ? Str(value) : Repr(value);
        if (markup_ && !(value.is(Kind::kString) && value.as<StringObject>()->markup)) text = EscapeHtml(text);
        if (spec.precision >= 0) text.resize(ByteOffset(text, spec.precision));
        *out += Pad(std::move(text), spec, '>');
        return;
      }
      case 'd':
      case 'i':
      case 'u':
      case 'x':
      case 'X':
      case 'o':
        *out += Integer(NextArgument(), spec);
        return;
      case 'e':
      case 'E':
      case 'f':
      case 'F':
      case 'g':
      case 'G': {
        const Value value = NextArgument();
        if (value.is(Kind::kUndefined)) FailUndefined(value);
        if (!value.is_number()) Fail("must be real number, not ", TypeName(value));
        *out += PadNumber(FormatFloat(value.number(), spec), spec);
        return;
      }
      case 'c': {
        const Value value = NextArgument();
        std::string text;
        if (value.is_integral() && value.integer() >= 0 && value.integer() < 0x110000 &&
            (value.integer() >> 11) != 0x1B) {
          AppendUtf8(static_cast<char32_t>(value.integer()), &text);
        } else if (value.is(Kind::kString) && LengthOf(value) == 1) {
          text = value.text();
        } else {
          Fail("%c requires int or char");
        }
        *out += Pad(std::move(text), spec, '>');
        return;
      }
      default:
        Fail("unsupported format character '", std::string(1, spec.type), "'");
    }
  }

  std::string Integer(const Value& value, const FormatSpec& spec) {
    if (value.is(Kind::kUndefined)) FailUndefined(value);
    if (value.is(Kind::kBigInt) && (spec.type == 'd' || spec.type == 'i' || spec.type == 'u')) {
      return PadNumber(value.text(), spec);
    }
    const bool hexadecimal = spec.type == 'x' || spec.type == 'X' || spec.type == 'o';
    if (!value.is_integral() && (hexadecimal || !value.is(Kind::kFloat))) {
      Fail("%", std::string(1, spec.type), " format: ", hexadecimal ? "an integer" : "a real number",
           " is required, not ", TypeName(value));
    }
    int64_t number = value.integer();
    if (value.is(Kind::kFloat)) {
      if (!(std::abs(value.number()) < 9.2e18))
        Fail("cannot convert ", FloatRepr(value.number()), " to a 64-bit integer");
      number = static_cast<int64_t>(value.number());
    }
    FormatSpec digits_spec = spec;
    std::string text = FormatInteger(number, digits_spec);
    if (spec.precision >= 0) {
      FormatSpec zeros;
      zeros.fill = "0";
      zeros.align = '=';
      const bool sign = text[0] == '-' || text[0] == '+' || text[0] == ' ';
      zeros.width = spec.precision + sign;
      text = Pad(std::move(text), zeros, '=');
    }
    return PadNumber(std::move(text), spec);
  }

  static std::string PadNumber(std::string text, FormatSpec spec) {
    if (spec.zero && spec.align == 0) {
      spec.fill = "0";
      spec.align = '=';
    }
    return Pad(std::move(text), spec, '>');
  }

  void CheckAllUsed() const {
    const bool positional = arguments_.is(Kind::kTuple);
    const size_t given = positional ? arguments_.as<SequenceObject>()->items.size() : 1;
    // Python takes any other container for a mapping, of which nothing needs to be used.
    const bool mapping = !positional && (arguments_.is(Kind::kDict) || arguments_.is(Kind::kList) ||
                                         arguments_.is(Kind::kRange) || arguments_.is(Kind::kUndefined));
    if (!mapping && used_ < given) Fail("not all arguments converted during string formatting");
  }

  Runtime& runtime_;
  std::string_view format_;
  bool markup_;
  const Value& arguments_;
  size_t position_ = 0;
  size_t used_ = 0;
  Value named_;
};

}  // namespace

Value PercentFormat(Runtime& runtime, const Value& format, const Value& arguments) {
  return PercentFormatter(runtime, format, arguments).Run();
}

}  // namespace tercet::chat
