// The parser's place in the tokens.
#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include "common/template/error.h"
#include "common/template/token.h"

namespace tercet::chat {

class TokenStream {
 public:
  explicit TokenStream(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  const Token& current() const { return tokens_[position_]; }
  const Token& next() const { return tokens_[position_ + 1 < tokens_.size() ? position_ + 1 : position_]; }
  uint32_t offset() const { return current().offset; }
  bool Is(TokenType type) const { return current().type == type; }
  bool IsName(std::string_view name) const { return Is(TokenType::kName) && current().text == name; }

  // The current token, left behind. At the end of the template it stays.
  const Token& Take() {
    const Token& token = current();
    if (token.type != TokenType::kEnd) ++position_;
    return token;
  }
  bool Skip(TokenType type) {
    if (!Is(type)) return false;
    Take();
    return true;
  }
  bool SkipName(std::string_view name) {
    if (!IsName(name)) return false;
    Take();
    return true;
  }
  const Token& Expect(TokenType type) {
    if (Is(type)) return Take();
    if (Is(TokenType::kEnd)) FailAt(offset(), "unexpected end of template, expected ", Describe(type));
    FailAt(offset(), "expected ", Describe(type), ", got ", Describe(current()));
  }
  void ExpectName(std::string_view name) {
    if (!SkipName(name)) FailAt(offset(), "expected '", name, "', got ", Describe(current()));
  }

 private:
  std::vector<Token> tokens_;
  size_t position_ = 0;
};

}  // namespace tercet::chat
