#include "common/template/expression_parser.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>

#include "common/template/filters.h"
#include "common/template/tests.h"

namespace tercet::chat {
namespace {

// `parent` now holds `child`: its depth grows, within bounds.
void Deepen(Expr* parent, const Expr* child) {
  if (child == nullptr || child->depth < parent->depth) return;
  parent->depth = static_cast<uint16_t>(child->depth + 1);
  if (parent->depth > kMaxExpressionDepth) {
    FailAt(parent->offset, "an expression is deeper than ", kMaxExpressionDepth, " levels");
  }
}

}  // namespace

ExprPtr ExpressionParser::Items(ExprKind kind, uint32_t offset, std::vector<ExprPtr> items) {
  auto expr = std::make_unique<ItemsExpr>(kind, offset);
  for (const ExprPtr& item : items) Deepen(expr.get(), item.get());
  expr->items = std::move(items);
  return expr;
}

ExprPtr ExpressionParser::Binary(ExprKind kind, BinaryOp op, uint32_t offset, ExprPtr left, ExprPtr right) {
  auto expr = std::make_unique<BinaryExpr>(kind, offset);
  Deepen(expr.get(), left.get());
  Deepen(expr.get(), right.get());
  expr->op = op;
  expr->left = std::move(left);
  expr->right = std::move(right);
  return expr;
}

ExprPtr ExpressionParser::Constant(uint32_t offset, Value value) {
  auto expr = std::make_unique<ConstantExpr>(offset);
  expr->value = std::move(value);
  return expr;
}

ExprPtr ExpressionParser::Integer(const Token& token) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(token.text.data(), token.text.data() + token.text.size(), number);
  if (error != std::errc()) return Constant(token.offset, constants_.BigInt(token.text));
  return Constant(token.offset, Value::Int(number));
}

std::unique_ptr<NameExpr> ExpressionParser::Name(NameUse use) {
  const Token& token = stream_.Expect(TokenType::kName);
  auto expr = std::make_unique<NameExpr>(token.offset);
  expr->name = constants_.String(token.text);
  expr->use = use;
  return expr;
}

ExprPtr ExpressionParser::Expression(bool conditional) {
  Nested nested(*this);
  ExprPtr expr = Or();
  while (conditional && stream_.IsName("if")) {
    auto choice = std::make_unique<ConditionalExpr>(stream_.Take().offset);
    choice->then = std::move(expr);
    choice->test = Or();
    if (stream_.SkipName("else")) choice->otherwise = Expression();
    Deepen(choice.get(), choice->then.get());
    Deepen(choice.get(), choice->test.get());
    Deepen(choice.get(), choice->otherwise.get());
    expr = std::move(choice);
  }
  return expr;
}

ExprPtr ExpressionParser::Or() {
  ExprPtr left = And();
  while (stream_.IsName("or")) {
    const uint32_t offset = stream_.Take().offset;
    left = Binary(ExprKind::kOr, {}, offset, std::move(left), And());
  }
  return left;
}

ExprPtr ExpressionParser::And() {
  ExprPtr left = Not();
  while (stream_.IsName("and")) {
    const uint32_t offset = stream_.Take().offset;
    left = Binary(ExprKind::kAnd, {}, offset, std::move(left), Not());
  }
  return left;
}

ExprPtr ExpressionParser::Not() {
  if (!stream_.IsName("not")) return Compare();
  Nested nested(*this);
  auto expr = std::make_unique<UnaryExpr>(ExprKind::kNot, stream_.Take().offset);
  expr->operand = Not();
  Deepen(expr.get(), expr->operand.get());
  return expr;
}

ExprPtr ExpressionParser::Compare() {
  ExprPtr first = Sum();
  auto expr = std::make_unique<CompareExpr>(stream_.offset());
  while (true) {
    CompareOp op;
    switch (stream_.current().type) {
      case TokenType::kEq:
        op = CompareOp::kEq;
        break;
      case TokenType::kNe:
        op = CompareOp::kNe;
        break;
      case TokenType::kLt:
        op = CompareOp::kLt;
        break;
      case TokenType::kLtEq:
        op = CompareOp::kLtEq;
        break;
      case TokenType::kGt:
        op = CompareOp::kGt;
        break;
      case TokenType::kGtEq:
        op = CompareOp::kGtEq;
        break;
      default:
        if (stream_.IsName("in")) {
          op = CompareOp::kIn;
        } else if (stream_.IsName("not") && stream_.next().type == TokenType::kName && stream_.next().text == "in") {
          stream_.Take();
          op = CompareOp::kNotIn;
        } else if (expr->rest.empty()) {
          return first;
        } else {
          Deepen(expr.get(), first.get());
          expr->first = std::move(first);
          return expr;
        }
    }
    stream_.Take();
    expr->rest.emplace_back(op, Sum());
    Deepen(expr.get(), expr->rest.back().second.get());
  }
}

ExprPtr ExpressionParser::Sum() {
  ExprPtr left = Concat();
  while (stream_.Is(TokenType::kAdd) || stream_.Is(TokenType::kSub)) {
    const Token& token = stream_.Take();
    const BinaryOp op = token.type == TokenType::kAdd ? BinaryOp::kAdd : BinaryOp::kSub;
    const uint32_t offset = token.offset;
    left = Binary(ExprKind::kBinary, op, offset, std::move(left), Concat());
  }
  return left;
}

ExprPtr ExpressionParser::Concat() {
  const uint32_t offset = stream_.offset();
  std::vector<ExprPtr> items;
  items.push_back(Product());
  while (stream_.Skip(TokenType::kTilde)) items.push_back(Product());
  if (items.size() == 1) return std::move(items[0]);
  return Items(ExprKind::kConcat, offset, std::move(items));
}

ExprPtr ExpressionParser::Product() {
  ExprPtr left = Power();
  while (true) {
    BinaryOp op;
    switch (stream_.current().type) {
      case TokenType::kMul:
        op = BinaryOp::kMul;
        break;
      case TokenType::kDiv:
        op = BinaryOp::kDiv;
        break;
      case TokenType::kFloorDiv:
        op = BinaryOp::kFloorDiv;
        break;
      case TokenType::kMod:
        op = BinaryOp::kMod;
        break;
      default:
        return left;
    }
    const uint32_t offset = stream_.Take().offset;
    left = Binary(ExprKind::kBinary, op, offset, std::move(left), Power());
  }
}

ExprPtr ExpressionParser::Power() {
  ExprPtr left = Unary(true);
  while (stream_.Is(TokenType::kPow)) {
    const uint32_t offset = stream_.Take().offset;
    left = Binary(ExprKind::kBinary, BinaryOp::kPow, offset, std::move(left), Unary(true));
  }
  return left;
}

ExprPtr ExpressionParser::Unary(bool filters) {
  ExprPtr expr;
  if (stream_.Is(TokenType::kSub) || stream_.Is(TokenType::kAdd)) {
    Nested nested(*this);
    const Token& token = stream_.Take();
    const ExprKind kind = token.type == TokenType::kSub ? ExprKind::kNegative : ExprKind::kPositive;
    auto sign = std::make_unique<UnaryExpr>(kind, token.offset);
    sign->operand = Unary(false);
    Deepen(sign.get(), sign->operand.get());
    expr = std::move(sign);
  } else {
    expr = Primary(false);
  }
  expr = Postfix(std::move(expr));
  return filters ? PostfixAndFilters(std::move(expr)) : std::move(expr);
}

ExprPtr ExpressionParser::Primary(bool spaces) {
  const Token& token = stream_.current();
  switch (token.type) {
    case TokenType::kName: {
      const std::string& text = token.text;
      if (text == "true" || text == "True" || text == "false" || text == "False") {
        stream_.Take();
        return Constant(token.offset, Value::Bool(text == "true" || text == "True"));
      }
      if (text == "none" || text == "None") {
        stream_.Take();
        return Constant(token.offset, Value::None());
      }
      std::unique_ptr<NameExpr> name = Name(NameUse::kLoad);
      if (!spaces || !stream_.Skip(TokenType::kDot)) return name;
      auto target = std::make_unique<AttributeExpr>(ExprKind::kNamespaceTarget, name->offset);
      target->object = std::move(name);
      target->name = constants_.String(stream_.Expect(TokenType::kName).text);
      return target;
    }
    case TokenType::kString: {
      std::string text;
      while (stream_.Is(TokenType::kString)) text += stream_.Take().text;
      return Constant(token.offset, constants_.String(std::move(text)));
    }
    case TokenType::kInteger:
      stream_.Take();
      return Integer(token);
    case TokenType::kFloat:
      stream_.Take();
      return Constant(token.offset, Value::Float(std::strtod(token.text.c_str(), nullptr)));
    case TokenType::kLParen:
      return Parenthesized();
    case TokenType::kLBracket:
      return List();
    case TokenType::kLBrace:
      return Dict();
    default:
      FailAt(token.offset, "unexpected ", Describe(token));
  }
}

template <typename ParseItem>
ExprPtr ExpressionParser::TupleOf(std::string_view end, bool parentheses, ParseItem parse_item) {
  const uint32_t offset = stream_.offset();
  std::vector<ExprPtr> items;
  bool tuple = false;
  while (true) {
    if (!items.empty()) stream_.Expect(TokenType::kComma);
    if (stream_.Is(TokenType::kVariableEnd) || stream_.Is(TokenType::kBlockEnd) || stream_.Is(TokenType::kRParen) ||
        (!end.empty() && stream_.IsName(end))) {
      break;
    }
    items.push_back(parse_item());
    if (!stream_.Is(TokenType::kComma)) break;
    tuple = true;
  }
  if (!tuple) {
    if (!items.empty()) return std::move(items[0]);
    if (!parentheses) FailAt(stream_.offset(), "expected an expression, got ", Describe(stream_.current()));
  }
  return Items(ExprKind::kTuple, offset, std::move(items));
}

ExprPtr ExpressionParser::Tuple(bool conditional, std::string_view end) {
  return TupleOf(end, false, [&] { return Expression(conditional); });
}

ExprPtr ExpressionParser::Parenthesized() {
  stream_.Expect(TokenType::kLParen);
  ExprPtr expr = TupleOf({}, true, [&] { return Expression(); });
  stream_.Expect(TokenType::kRParen);
  return expr;
}

namespace {

// Turns what was parsed as an expression into something assigned to.
void MakeTarget(Expr* expr) {
  switch (expr->kind) {
    case ExprKind::kName: {
      auto* name = static_cast<NameExpr*>(expr);
      name->use = NameUse::kStore;
      return;
    }
    case ExprKind::kNamespaceTarget:
      return;
    case ExprKind::kTuple:
      for (const ExprPtr& item : static_cast<ItemsExpr*>(expr)->items) MakeTarget(item.get());
      return;
    default:
      FailAt(expr->offset, "can't assign to this expression; only names, ns.name and tuples of them can be assigned");
  }
}

}  // namespace

ExprPtr ExpressionParser::Target(std::string_view end, bool spaces) {
  ExprPtr expr = TupleOf(end, false, [&] { return Primary(spaces); });
  MakeTarget(expr.get());
  return expr;
}

ExprPtr ExpressionParser::List() {
  const uint32_t offset = stream_.Expect(TokenType::kLBracket).offset;
  std::vector<ExprPtr> items;
  while (!stream_.Is(TokenType::kRBracket)) {
    if (!items.empty()) stream_.Expect(TokenType::kComma);
    if (stream_.Is(TokenType::kRBracket)) break;
    items.push_back(Expression());
  }
  stream_.Expect(TokenType::kRBracket);
  return Items(ExprKind::kList, offset, std::move(items));
}

ExprPtr ExpressionParser::Dict() {
  const uint32_t offset = stream_.Expect(TokenType::kLBrace).offset;
  std::vector<ExprPtr> items;
  while (!stream_.Is(TokenType::kRBrace)) {
    if (!items.empty()) stream_.Expect(TokenType::kComma);
    if (stream_.Is(TokenType::kRBrace)) break;
    items.push_back(Expression());
    stream_.Expect(TokenType::kColon);
    items.push_back(Expression());
  }
  stream_.Expect(TokenType::kRBrace);
  return Items(ExprKind::kDict, offset, std::move(items));
}

ExprPtr ExpressionParser::Postfix(ExprPtr expr) {
  while (true) {
    if (stream_.Is(TokenType::kDot)) {
      expr = Attribute(std::move(expr));
    } else if (stream_.Is(TokenType::kLBracket)) {
      expr = Subscript(std::move(expr));
    } else if (stream_.Is(TokenType::kLParen)) {
      expr = Call(std::move(expr));
    } else {
      return expr;
    }
  }
}

ExprPtr ExpressionParser::PostfixAndFilters(ExprPtr expr) {
  while (true) {
    if (stream_.Is(TokenType::kPipe)) {
      expr = Filters(std::move(expr), false);
    } else if (stream_.IsName("is")) {
      expr = Test(std::move(expr));
    } else if (stream_.Is(TokenType::kLParen)) {
      expr = Call(std::move(expr));
    } else {
      return expr;
    }
  }
}

ExprPtr ExpressionParser::Attribute(ExprPtr object) {
  const uint32_t offset = stream_.Expect(TokenType::kDot).offset;
  const Token& token = stream_.Take();
  if (token.type == TokenType::kInteger) {
    auto expr = std::make_unique<ItemExpr>(offset);
    expr->index = Integer(token);
    Deepen(expr.get(), object.get());
    expr->object = std::move(object);
    return expr;
  }
  if (token.type != TokenType::kName)
    FailAt(token.offset, "expected a name or a number after '.', got ", Describe(token));
  auto expr = std::make_unique<AttributeExpr>(ExprKind::kAttribute, offset);
  expr->name = constants_.String(token.text);
  Deepen(expr.get(), object.get());
  expr->object = std::move(object);
  return expr;
}

ExprPtr ExpressionParser::Subscript(ExprPtr object) {
  auto expr = std::make_unique<ItemExpr>(stream_.Expect(TokenType::kLBracket).offset);
  std::vector<ExprPtr> parts;
  while (!stream_.Is(TokenType::kRBracket)) {
    if (!parts.empty()) stream_.Expect(TokenType::kComma);
    parts.push_back(SubscriptPart());
  }
  stream_.Expect(TokenType::kRBracket);
  expr->index = parts.size() == 1 ? std::move(parts[0]) : Items(ExprKind::kTuple, expr->offset, std::move(parts));
  Deepen(expr.get(), object.get());
  Deepen(expr.get(), expr->index.get());
  expr->object = std::move(object);
  return expr;
}

ExprPtr ExpressionParser::SubscriptPart() {
  auto slice = std::make_unique<SliceExpr>(stream_.offset());
  if (!stream_.Is(TokenType::kColon)) {
    ExprPtr expr = Expression();
    if (!stream_.Is(TokenType::kColon)) return expr;
    slice->start = std::move(expr);
  }
  stream_.Expect(TokenType::kColon);
  const auto ends = [&] { return stream_.Is(TokenType::kRBracket) || stream_.Is(TokenType::kComma); };
  if (!stream_.Is(TokenType::kColon) && !ends()) slice->stop = Expression();
  if (stream_.Skip(TokenType::kColon) && !ends()) slice->step = Expression();
  Deepen(slice.get(), slice->start.get());
  Deepen(slice.get(), slice->stop.get());
  Deepen(slice.get(), slice->step.get());
  return slice;
}

CallArguments ExpressionParser::Arguments(Expr* owner) {
  const uint32_t offset = stream_.Expect(TokenType::kLParen).offset;
  CallArguments arguments;
  const auto require = [&](bool allowed) {
    if (!allowed) FailAt(offset, "invalid syntax for function call expression");
  };
  bool first = true;
  while (!stream_.Is(TokenType::kRParen)) {
    if (!first) {
      stream_.Expect(TokenType::kComma);
      if (stream_.Is(TokenType::kRParen)) break;
    }
    first = false;
    if (stream_.Skip(TokenType::kMul)) {
      require(arguments.rest == nullptr && arguments.keyword_rest == nullptr);
      arguments.rest = Expression();
      Deepen(owner, arguments.rest.get());
    } else if (stream_.Skip(TokenType::kPow)) {
      require(arguments.keyword_rest == nullptr);
      arguments.keyword_rest = Expression();
      Deepen(owner, arguments.keyword_rest.get());
    } else if (stream_.Is(TokenType::kName) && stream_.next().type == TokenType::kAssign) {
      require(arguments.keyword_rest == nullptr);
      const Token& name = stream_.Take();
      for (const auto& [other, value] : arguments.keywords) {
        if (other == name.text) FailAt(name.offset, "keyword argument repeated: ", name.text);
      }
      stream_.Take();
      arguments.keywords.emplace_back(name.text, Expression());
      Deepen(owner, arguments.keywords.back().second.get());
    } else {
      require(arguments.rest == nullptr && arguments.keyword_rest == nullptr && arguments.keywords.empty());
      arguments.positional.push_back(Expression());
      Deepen(owner, arguments.positional.back().get());
    }
  }
  stream_.Expect(TokenType::kRParen);
  return arguments;
}

ExprPtr ExpressionParser::Call(ExprPtr callee) {
  auto expr = std::make_unique<CallExpr>(stream_.offset());
  Deepen(expr.get(), callee.get());
  expr->arguments = Arguments(expr.get());
  expr->callee = std::move(callee);
  return expr;
}

ExprPtr ExpressionParser::Filters(ExprPtr input, bool bare) {
  while (stream_.Is(TokenType::kPipe) || bare) {
    if (!bare) stream_.Take();
    bare = false;
    const Token& token = stream_.Expect(TokenType::kName);
    auto expr = std::make_unique<FilterExpr>(token.offset);
    expr->name = token.text;
    while (stream_.Skip(TokenType::kDot)) expr->name += "." + stream_.Expect(TokenType::kName).text;
    expr->filter = FindFilter(expr->name);
    Deepen(expr.get(), input.get());
    if (stream_.Is(TokenType::kLParen)) expr->arguments = Arguments(expr.get());
    expr->input = std::move(input);
    input = std::move(expr);
  }
  return input;
}

ExprPtr ExpressionParser::Test(ExprPtr input) {
  stream_.ExpectName("is");
  const bool negated = stream_.SkipName("not");
  const Token& token = stream_.Expect(TokenType::kName);
  auto expr = std::make_unique<TestExpr>(token.offset);
  expr->name = token.text;
  while (stream_.Skip(TokenType::kDot)) expr->name += "." + stream_.Expect(TokenType::kName).text;
  expr->test = FindTest(expr->name);
  Deepen(expr.get(), input.get());
  expr->input = std::move(input);
  const TokenType type = stream_.current().type;
  if (type == TokenType::kLParen) {
    expr->arguments = Arguments(expr.get());
  } else if ((type == TokenType::kName || type == TokenType::kString || type == TokenType::kInteger ||
              type == TokenType::kFloat || type == TokenType::kLBracket || type == TokenType::kLBrace) &&
             !stream_.IsName("else") && !stream_.IsName("or") && !stream_.IsName("and")) {
    if (stream_.IsName("is")) FailAt(stream_.offset(), "You cannot chain multiple tests with is");
    expr->arguments.positional.push_back(Postfix(Primary(false)));
    Deepen(expr.get(), expr->arguments.positional.back().get());
  }
  if (!negated) return expr;
  auto negation = std::make_unique<UnaryExpr>(ExprKind::kNot, expr->offset);
  Deepen(negation.get(), expr.get());
  negation->operand = std::move(expr);
  return negation;
}

}  // namespace tercet::chat
