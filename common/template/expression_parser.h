// Expressions: Jinja2's grammar, precedence for precedence.
#pragma once

#include <initializer_list>
#include <memory>
#include <string_view>

#include "common/template/ast.h"
#include "common/template/compiled_template.h"
#include "common/template/limits.h"
#include "common/template/token_stream.h"

namespace tercet::chat {

class ExpressionParser {
 public:
  ExpressionParser(TokenStream& stream, ConstantPool& constants) : stream_(stream), constants_(constants) {}

  ExprPtr Expression(bool conditional = true);
  // An expression, or a tuple without parentheses. `end` is a name that ends it ("in", "recursive"), or empty.
  ExprPtr Tuple(bool conditional = true, std::string_view end = {});
  // What may stand left of `=`, or between `for` and `in`; `end` as above. `spaces` allows ns.x.
  ExprPtr Target(std::string_view end, bool spaces);
  std::unique_ptr<NameExpr> Name(NameUse use);
  // |filter|filter…; `input` may be null. `bare`: the first stands without its |, as in {% filter upper %}.
  ExprPtr Filters(ExprPtr input, bool bare);

  // Counts one level of nesting while it lives.
  class Nested {
   public:
    explicit Nested(ExpressionParser& parser) : parser_(parser) {
      if (++parser_.nesting_ > kMaxNesting) {
        --parser_.nesting_;
        FailAt(parser_.stream_.offset(), "nested deeper than ", kMaxNesting, " levels");
      }
    }
    ~Nested() { --parser_.nesting_; }

   private:
    ExpressionParser& parser_;
  };

 private:
  ExprPtr Or();
  ExprPtr And();
  ExprPtr Not();
  ExprPtr Compare();
  ExprPtr Sum();
  ExprPtr Concat();
  ExprPtr Product();
  ExprPtr Power();
  ExprPtr Unary(bool filters);
  ExprPtr Primary(bool spaces);
  ExprPtr Parenthesized();
  ExprPtr List();
  ExprPtr Dict();
  ExprPtr Postfix(ExprPtr expr);
  ExprPtr PostfixAndFilters(ExprPtr expr);
  ExprPtr Attribute(ExprPtr object);
  ExprPtr Subscript(ExprPtr object);
  ExprPtr SubscriptPart();
  ExprPtr Call(ExprPtr callee);
  ExprPtr Test(ExprPtr input);
  CallArguments Arguments(Expr* owner);
  ExprPtr Items(ExprKind kind, uint32_t offset, std::vector<ExprPtr> items);
  ExprPtr Binary(ExprKind kind, BinaryOp op, uint32_t offset, ExprPtr left, ExprPtr right);
  ExprPtr Constant(uint32_t offset, Value value);
  ExprPtr Integer(const Token& token);
  // The tuple's items, the first of which `first` parses.
  template <typename ParseItem>
  ExprPtr TupleOf(std::string_view end, bool parentheses, ParseItem parse_item);

  TokenStream& stream_;
  ConstantPool& constants_;
  int nesting_ = 0;
};

}  // namespace tercet::chat
