#include "common/template/lexer.h"

#include <algorithm>
#include <utility>

#include "common/template/error.h"
#include "common/template/string_literal.h"
#include "common/template/text.h"

namespace tercet::chat {
namespace {

struct Operator {
  std::string_view text;
  TokenType type;
};

// Longest first.
constexpr Operator kOperators[] = {
    {"//", TokenType::kFloorDiv}, {"**", TokenType::kPow},      {"==", TokenType::kEq},    {"!=", TokenType::kNe},
    {">=", TokenType::kGtEq},     {"<=", TokenType::kLtEq},     {"+", TokenType::kAdd},    {"-", TokenType::kSub},
    {"/", TokenType::kDiv},       {"*", TokenType::kMul},       {"%", TokenType::kMod},    {"~", TokenType::kTilde},
    {"[", TokenType::kLBracket},  {"]", TokenType::kRBracket},  {"(", TokenType::kLParen}, {")", TokenType::kRParen},
    {"{", TokenType::kLBrace},    {"}", TokenType::kRBrace},    {">", TokenType::kGt},     {"<", TokenType::kLt},
    {"=", TokenType::kAssign},    {".", TokenType::kDot},       {":", TokenType::kColon},  {"|", TokenType::kPipe},
    {",", TokenType::kComma},     {";", TokenType::kSemicolon},
};

bool IsDecimalDigit(char c) { return c >= '0' && c <= '9'; }

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(source) {}

  std::vector<Token> Run() {
    while (position_ < source_.size()) Root();
    Emit(TokenType::kEnd, position_, "");
    return std::move(tokens_);
  }

 private:
  bool At(std::string_view text, size_t position) const {
    return source_.substr(position).substr(0, text.size()) == text;
  }
  bool At(std::string_view text) const { return At(text, position_); }
  void Emit(TokenType type, size_t offset, std::string text) {
    tokens_.push_back(Token{type, static_cast<uint32_t>(offset), std::move(text)});
  }
  size_t SkipSpace(size_t position) const {
    while (position < source_.size()) {
      size_t next = position;
      if (!IsSpace(DecodeNext(source_, &next))) break;
      position = next;
    }
    return position;
  }

  // Text up to the next tag, and that tag.
  void Root() {
    size_t begin = position_;
    while (begin + 1 < source_.size() &&
           !(source_[begin] == '{' &&
             (source_[begin + 1] == '{' || source_[begin + 1] == '%' || source_[begin + 1] == '#'))) {
      ++begin;
    }
    if (begin + 1 >= source_.size()) {
      Data(source_.substr(position_), '+', false);
      position_ = source_.size();
      return;
    }
    const std::string_view text = source_.substr(position_, begin - position_);
    const char kind = source_[begin + 1];
    const char sign = begin + 2 < source_.size() && (source_[begin + 2] == '-' || source_[begin + 2] == '+')
                          ? source_[begin + 2]
                          : '\0';
    Data(text, sign, kind != '{');
    const size_t inside = begin + 2 + (sign != '\0');
    if (kind == '%') {
      if (const size_t raw_end = RawBegin(inside); raw_end != std::string_view::npos) {
        position_ = raw_end;
        // The text inside begins a line only if white space up to a newline went before it.
        line_starting_ = source_[raw_end - 1] == '\n';
        Raw(begin);
        return;
      }
    }
    position_ = inside;
    line_starting_ = false;
    if (kind == '#') {
      Comment(begin);
    } else {
      Tag(begin, kind == '%');
    }
  }

  // Emits text before a tag, stripped as the tag's sign and lstrip_blocks say.
  void Data(std::string_view text, char sign, bool lstrip) {
    const size_t offset = position_;
    if (sign == '-') {
      text = Strip(text, nullptr, false, true);
    } else if (sign != '+' && lstrip) {
      const size_t newline = text.rfind('\n');
      const size_t line = newline == std::string_view::npos ? 0 : newline + 1;
      if (line > 0 || line_starting_) {
        const std::string_view last = text.substr(line);
        if (!last.empty() && Strip(last, nullptr, true, false).empty()) text = text.substr(0, line);
      }
    }
    if (!text.empty()) Emit(TokenType::kData, offset, std::string(text));
  }

  // End of a `raw` tag whose inside begins here, or npos when it is another tag.
  size_t RawBegin(size_t position) const {
    position = SkipSpace(position);
    if (!At("raw", position)) return std::string_view::npos;
    position = SkipSpace(position + 3);
    if (At("-%}", position)) return SkipSpace(position + 3);
    if (At("%}", position)) return position + 2;
    return std::string_view::npos;
  }

  // End of a tag (block, comment, endraw) that closes at `position`, or npos. `close` is "%}" or "#}".
  size_t TagEnd(size_t position, std::string_view close) const {
    if (At("+", position) && At(close, position + 1)) return position + 1 + close.size();
    if (At("-", position) && At(close, position + 1)) return SkipSpace(position + 1 + close.size());
    if (!At(close, position)) return std::string_view::npos;
    position += close.size();
    return position + At("\n", position);  // trim_blocks
  }

  void Raw(size_t begin) {
    if (position_ >= source_.size()) return;  // as Jinja2 has it: nothing follows, nothing is missing
    for (size_t at = source_.find("{%", position_); at != std::string_view::npos; at = source_.find("{%", at + 1)) {
      size_t inside = at + 2;
      char sign = '\0';
      if (At("-", inside) || At("+", inside)) sign = source_[inside++];
      inside = SkipSpace(inside);
      if (!At("endraw", inside)) continue;
      const size_t end = TagEnd(SkipSpace(inside + 6), "%}");
      if (end == std::string_view::npos) continue;
      Data(source_.substr(position_, at - position_), sign, true);
      Leave(end);
      return;
    }
    FailAt(begin, "Missing end of raw directive");
  }

  void Comment(size_t begin) {
    if (position_ >= source_.size()) return;  // as above
    for (size_t at = position_; at < source_.size(); ++at) {
      const size_t end = TagEnd(at, "#}");
      if (end == std::string_view::npos) continue;
      Leave(end);
      return;
    }
    FailAt(begin, "Missing end of comment tag");
  }

  void Leave(size_t end) {
    position_ = end;
    line_starting_ = source_[end - 1] == '\n';
  }

  void Tag(size_t begin, bool block) {
    Emit(block ? TokenType::kBlockBegin : TokenType::kVariableBegin, begin, "");
    std::string open;  // brackets that wait for their end; no tag ends inside them
    while (position_ < source_.size()) {
      if (open.empty()) {
        size_t end = std::string_view::npos;
        if (block) {
          end = TagEnd(position_, "%}");
        } else if (At("-}}")) {
          end = SkipSpace(position_ + 3);
        } else if (At("}}")) {
          end = position_ + 2;
        }
        if (end != std::string_view::npos) {
          Emit(block ? TokenType::kBlockEnd : TokenType::kVariableEnd, position_, "");
          Leave(end);
          return;
        }
      }
      Word(&open);
    }
    // The parser reports the end of the template in its own words.
  }

  void Word(std::string* open) {
    const size_t space = SkipSpace(position_);
    if (space != position_) {
      position_ = space;
      return;
    }
    const char c = source_[position_];
    if (IsDecimalDigit(c)) {
      Number();
    } else if (c == '"' || c == '\'') {
      const size_t end = StringEnd(source_, position_);
      if (end == std::string_view::npos) FailAt(position_, "a string is not closed: no second ", std::string(1, c));
      Emit(TokenType::kString, position_,
           UnescapeString(source_.substr(position_ + 1, end - position_ - 2), position_ + 1));
      position_ = end;
    } else if (const size_t end = NameEnd(); end != position_) {
      Emit(TokenType::kName, position_, std::string(source_.substr(position_, end - position_)));
      position_ = end;
    } else {
      Symbol(open);
    }
  }

  size_t NameEnd() const {
    size_t end = position_;
    while (end < source_.size()) {
      size_t next = end;
      if (!IsIdentifierPart(DecodeNext(source_, &next))) break;
      end = next;
    }
    return end;
  }

  void Symbol(std::string* open) {
    for (const Operator& symbol : kOperators) {
      if (!At(symbol.text)) continue;
      const char c = symbol.text[0];
      if (c == '(') open->push_back(')');
      if (c == '[') open->push_back(']');
      if (c == '{') open->push_back('}');
      if (c == ')' || c == ']' || c == '}') {
        if (open->empty()) FailAt(position_, "unexpected '", symbol.text, "'");
        if (open->back() != c) {
          FailAt(position_, "unexpected '", symbol.text, "', expected '", std::string(1, open->back()), "'");
        }
        open->pop_back();
      }
      Emit(symbol.type, position_, std::string(symbol.text));
      position_ += symbol.text.size();
      return;
    }
    size_t end = position_;
    DecodeNext(source_, &end);
    FailAt(position_, "unexpected character '", source_.substr(position_, end - position_), "'");
  }

  // End of digits that single underscores may separate, or `position` when there is none.
  size_t DigitsEnd(size_t position) const {
    if (position >= source_.size() || !IsDecimalDigit(source_[position])) return position;
    while (position < source_.size()) {
      if (IsDecimalDigit(source_[position])) {
        ++position;
      } else if (source_[position] == '_' && position + 1 < source_.size() && IsDecimalDigit(source_[position + 1])) {
        ++position;
      } else {
        break;
      }
    }
    return position;
  }

  void Number() {
    const size_t begin = position_;
    const size_t whole = DigitsEnd(begin);
    size_t end = whole;
    // A number right after a dot is an index: a.1.5 is (a.1).5.
    if (begin == 0 || source_[begin - 1] != '.') {
      if (At(".", end) && DigitsEnd(end + 1) != end + 1) end = DigitsEnd(end + 1);
      if (end < source_.size() && (source_[end] == 'e' || source_[end] == 'E')) {
        const size_t sign = end + 1 + (At("+", end + 1) || At("-", end + 1));
        if (DigitsEnd(sign) != sign) end = DigitsEnd(sign);
      }
    }
    std::string text;
    if (end != whole) {
      for (char c : source_.substr(begin, end - begin)) {
        if (c != '_') text.push_back(c);
      }
      Emit(TokenType::kFloat, begin, std::move(text));
      position_ = end;
      return;
    }
    end = IntegerLiteral(source_, begin, &text);
    Emit(TokenType::kInteger, begin, std::move(text));
    position_ = end;
  }

  std::string_view source_;
  size_t position_ = 0;
  bool line_starting_ = true;
  std::vector<Token> tokens_;
};

}  // namespace

std::string NormalizeSource(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      out.push_back('\n');
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    } else {
      out.push_back(source[i]);
    }
  }
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

std::vector<Token> Tokenize(std::string_view source) { return Lexer(source).Run(); }

}  // namespace tercet::chat
