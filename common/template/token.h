// The words of a template.
#pragma once

#include <cstdint>
#include <string>

namespace tercet::chat {

enum class TokenType : uint8_t {
  kData,  // text outside of tags
  kVariableBegin,
  kVariableEnd,
  kBlockBegin,
  kBlockEnd,
  kName,
  kString,   // text: the value, escapes resolved
  kInteger,  // text: decimal digits
  kFloat,    // text: as written, without underscores
  kAdd,
  kAssign,
  kColon,
  kComma,
  kDiv,
  kDot,
  kEq,
  kFloorDiv,
  kGt,
  kGtEq,
  kLBrace,
  kLBracket,
  kLParen,
  kLt,
  kLtEq,
  kMod,
  kMul,
  kNe,
  kPipe,
  kPow,
  kRBrace,
  kRBracket,
  kRParen,
  kSemicolon,
  kSub,
  kTilde,
  kEnd,  // of the template
};

struct Token {
  TokenType type;
  uint32_t offset;  // byte in the normalized source
  std::string text;
};

// For messages: "'endif'", "end of print statement", "'+'", …
std::string Describe(const Token& token);
std::string Describe(TokenType type);

}  // namespace tercet::chat
