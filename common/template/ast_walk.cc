#include "common/template/ast_walk.h"

namespace tercet::chat {
namespace {

using VisitChild = std::function<void(Expr&)>;
using VisitName = std::function<void(const NameExpr&)>;

void Child(const ExprPtr& expr, const VisitChild& visit) {
  if (expr != nullptr) visit(*expr);
}

void ArgumentChildren(const CallArguments& arguments, const VisitChild& visit) {
  for (const ExprPtr& argument : arguments.positional) visit(*argument);
  for (const auto& [name, argument] : arguments.keywords) visit(*argument);
  Child(arguments.rest, visit);
  Child(arguments.keyword_rest, visit);
}

void MacroNames(const MacroNode& node, const VisitName& visit) {
  for (const Parameter& parameter : node.parameters) visit(*parameter.name);
  for (const Parameter& parameter : node.parameters) ForEachName(parameter.otherwise.get(), visit);
  ForEachName(node.body, visit);
}

void StatementNames(const Statement& statement, const VisitName& visit) {
  switch (statement.kind) {
    case StatementKind::kOutput:
      for (const ExprPtr& part : static_cast<const OutputNode&>(statement).parts) ForEachName(part.get(), visit);
      return;
    case StatementKind::kFor: {
      const auto& node = static_cast<const ForNode&>(statement);
      ForEachName(node.target.get(), visit);
      ForEachName(node.iterable.get(), visit);
      ForEachName(node.body, visit);
      ForEachName(node.otherwise, visit);
      ForEachName(node.test.get(), visit);
      return;
    }
    case StatementKind::kIf: {
      const auto& node = static_cast<const IfNode&>(statement);
      for (const auto& [test, body] : node.branches) {
        ForEachName(test.get(), visit);
        ForEachName(body, visit);
      }
      ForEachName(node.otherwise, visit);
      return;
    }
    case StatementKind::kSet: {
      const auto& node = static_cast<const SetNode&>(statement);
      ForEachName(node.target.get(), visit);
      ForEachName(node.value.get(), visit);
      return;
    }
    case StatementKind::kSetBlock: {
      const auto& node = static_cast<const SetBlockNode&>(statement);
      ForEachName(node.target.get(), visit);
      ForEachName(node.filter.get(), visit);
      ForEachName(node.body, visit);
      return;
    }
    case StatementKind::kMacro:
      MacroNames(static_cast<const MacroNode&>(statement), visit);
      return;
    case StatementKind::kCallBlock: {
      const auto& node = static_cast<const CallBlockNode&>(statement);
      ForEachName(node.call.get(), visit);
      MacroNames(*node.caller, visit);
      return;
    }
    case StatementKind::kFilterBlock: {
      const auto& node = static_cast<const FilterBlockNode&>(statement);
      ForEachName(node.body, visit);
      ForEachName(node.filter.get(), visit);
      return;
    }
    case StatementKind::kWith: {
      const auto& node = static_cast<const WithNode&>(statement);
      for (const auto& [target, value] : node.variables) ForEachName(target.get(), visit);
      for (const auto& [target, value] : node.variables) ForEachName(value.get(), visit);
      ForEachName(node.body, visit);
      return;
    }
    case StatementKind::kBlock:
    case StatementKind::kBreak:
    case StatementKind::kContinue:
    case StatementKind::kLoad:
      return;
  }
}

}  // namespace

void ForEachChild(const Expr& expr, const VisitChild& visit) {
  switch (expr.kind) {
    case ExprKind::kConstant:
    case ExprKind::kName:
      return;
    case ExprKind::kTuple:
    case ExprKind::kList:
    case ExprKind::kDict:
    case ExprKind::kConcat:
      for (const ExprPtr& item : static_cast<const ItemsExpr&>(expr).items) visit(*item);
      return;
    case ExprKind::kBinary:
    case ExprKind::kAnd:
    case ExprKind::kOr:
      visit(*static_cast<const BinaryExpr&>(expr).left);
      visit(*static_cast<const BinaryExpr&>(expr).right);
      return;
    case ExprKind::kNot:
    case ExprKind::kNegative:
    case ExprKind::kPositive:
      visit(*static_cast<const UnaryExpr&>(expr).operand);
      return;
    case ExprKind::kCompare: {
      const auto& compare = static_cast<const CompareExpr&>(expr);
      visit(*compare.first);
      for (const auto& [op, operand] : compare.rest) visit(*operand);
      return;
    }
    case ExprKind::kConditional: {
      const auto& conditional = static_cast<const ConditionalExpr&>(expr);
      visit(*conditional.test);
      visit(*conditional.then);
      Child(conditional.otherwise, visit);
      return;
    }
    case ExprKind::kAttribute:
    case ExprKind::kNamespaceTarget:
      visit(*static_cast<const AttributeExpr&>(expr).object);
      return;
    case ExprKind::kItem:
      visit(*static_cast<const ItemExpr&>(expr).object);
      visit(*static_cast<const ItemExpr&>(expr).index);
      return;
    case ExprKind::kSlice:
      Child(static_cast<const SliceExpr&>(expr).start, visit);
      Child(static_cast<const SliceExpr&>(expr).stop, visit);
      Child(static_cast<const SliceExpr&>(expr).step, visit);
      return;
    case ExprKind::kCall:
      visit(*static_cast<const CallExpr&>(expr).callee);
      ArgumentChildren(static_cast<const CallExpr&>(expr).arguments, visit);
      return;
    case ExprKind::kFilter:
      Child(static_cast<const FilterExpr&>(expr).input, visit);
      ArgumentChildren(static_cast<const FilterExpr&>(expr).arguments, visit);
      return;
    case ExprKind::kTest:
      visit(*static_cast<const TestExpr&>(expr).input);
      ArgumentChildren(static_cast<const TestExpr&>(expr).arguments, visit);
      return;
  }
}

void ForEachName(const Expr* expr, const VisitName& visit) {
  if (expr == nullptr) return;
  if (expr->kind == ExprKind::kName) visit(static_cast<const NameExpr&>(*expr));
  ForEachChild(*expr, [&](Expr& child) { ForEachName(&child, visit); });
}

void ForEachName(const Body& body, const VisitName& visit) {
  for (const auto& statement : body) StatementNames(*statement, visit);
}

}  // namespace tercet::chat
