#include "common/template/token.h"

#include "common/template/strcat.h"

namespace tercet::chat {

std::string Describe(TokenType type) {
  switch (type) {
    case TokenType::kData:
      return "template text";
    case TokenType::kVariableBegin:
      return "begin of print statement";
    case TokenType::kVariableEnd:
      return "end of print statement";
    case TokenType::kBlockBegin:
      return "begin of statement block";
    case TokenType::kBlockEnd:
      return "end of statement block";
    case TokenType::kName:
      return "a name";
    case TokenType::kString:
      return "a string";
    case TokenType::kInteger:
      return "an integer";
    case TokenType::kFloat:
      return "a float";
    case TokenType::kAdd:
      return "'+'";
    case TokenType::kAssign:
      return "'='";
    case TokenType::kColon:
      return "':'";
    case TokenType::kComma:
      return "','";
    case TokenType::kDiv:
      return "'/'";
    case TokenType::kDot:
      return "'.'";
    case TokenType::kEq:
      return "'=='";
    case TokenType::kFloorDiv:
      return "'//'";
    case TokenType::kGt:
      return "'>'";
    case TokenType::kGtEq:
      return "'>='";
    case TokenType::kLBrace:
      return "'{'";
    case TokenType::kLBracket:
      return "'['";
    case TokenType::kLParen:
      return "'('";
    case TokenType::kLt:
      return "'<'";
    case TokenType::kLtEq:
      return "'<='";
    case TokenType::kMod:
      return "'%'";
    case TokenType::kMul:
      return "'*'";
    case TokenType::kNe:
      return "'!='";
    case TokenType::kPipe:
      return "'|'";
    case TokenType::kPow:
      return "'**'";
    case TokenType::kRBrace:
      return "'}'";
    case TokenType::kRBracket:
      return "']'";
    case TokenType::kRParen:
      return "')'";
    case TokenType::kSemicolon:
      return "';'";
    case TokenType::kSub:
      return "'-'";
    case TokenType::kTilde:
      return "'~'";
    case TokenType::kEnd:
      return "end of template";
  }
  return "a token";
}

std::string Describe(const Token& token) {
  if (token.type == TokenType::kName || token.type == TokenType::kInteger || token.type == TokenType::kFloat) {
    return StrCat("'", token.text, "'");
  }
  return Describe(token.type);
}

}  // namespace tercet::chat
