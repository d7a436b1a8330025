// The syntax tree of a template. Built by the parser; scope.cc fills in where each name lives; the interpreter walks
// it.
//
// Depth is bounded when it is built (kMaxNesting, kMaxExpressionDepth), so that every walk may recurse.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/template/value.h"

namespace tercet::chat {

// A variable: the slot of a function's activation, `hops` functions out from where it is used.
struct VariableRef {
  uint16_t hops = 0;
  uint16_t slot = 0;
};

enum class ExprKind : uint8_t {
  kConstant,
  kName,
  kTuple,
  kList,
  kDict,
  kConcat,
  kBinary,
  kAnd,
  kOr,
  kNot,
  kNegative,
  kPositive,
  kCompare,
  kConditional,
  kAttribute,
  kItem,
  kSlice,
  kCall,
  kFilter,
  kTest,
  kNamespaceTarget,  // ns.x on the left side of `set`
};

struct Expr {
  Expr(ExprKind k, uint32_t o) : kind(k), offset(o) {}
  virtual ~Expr() = default;
  ExprKind kind;
  uint16_t depth = 1;
  uint32_t offset;  // byte in the normalized source
};
using ExprPtr = std::unique_ptr<Expr>;

struct ConstantExpr final : Expr {
  explicit ConstantExpr(uint32_t o) : Expr(ExprKind::kConstant, o) {}
  Value value;
};

// How a name occurs: read, assigned, or declared as a parameter (of a macro, a loop, a with).
enum class NameUse : uint8_t { kLoad, kStore, kParameter };

struct NameExpr final : Expr {
  explicit NameExpr(uint32_t o) : Expr(ExprKind::kName, o) {}
  Value name;
  NameUse use = NameUse::kLoad;
  VariableRef variable;
};

// kTuple, kList, kConcat, and kDict (keys and values in turn).
struct ItemsExpr final : Expr {
  using Expr::Expr;
  std::vector<ExprPtr> items;
};

enum class BinaryOp : uint8_t { kAdd, kSub, kMul, kDiv, kFloorDiv, kMod, kPow };

// kBinary, kAnd, kOr
struct BinaryExpr final : Expr {
  using Expr::Expr;
  BinaryOp op = BinaryOp::kAdd;
  ExprPtr left, right;
};

// kNot, kNegative, kPositive
struct UnaryExpr final : Expr {
  using Expr::Expr;
  ExprPtr operand;
};

enum class CompareOp : uint8_t { kEq, kNe, kLt, kLtEq, kGt, kGtEq, kIn, kNotIn };

struct CompareExpr final : Expr {
  explicit CompareExpr(uint32_t o) : Expr(ExprKind::kCompare, o) {}
  ExprPtr first;
  std::vector<std::pair<CompareOp, ExprPtr>> rest;
};

struct ConditionalExpr final : Expr {
  explicit ConditionalExpr(uint32_t o) : Expr(ExprKind::kConditional, o) {}
  ExprPtr test, then, otherwise;  // otherwise may be null
};

// kAttribute (object.name) and kNamespaceTarget
struct AttributeExpr final : Expr {
  using Expr::Expr;
  ExprPtr object;
  Value name;
};

struct ItemExpr final : Expr {
  explicit ItemExpr(uint32_t o) : Expr(ExprKind::kItem, o) {}
  ExprPtr object, index;  // index may be a SliceExpr
};

struct SliceExpr final : Expr {
  explicit SliceExpr(uint32_t o) : Expr(ExprKind::kSlice, o) {}
  ExprPtr start, stop, step;  // each may be null
};

struct CallArguments {
  std::vector<ExprPtr> positional;
  std::vector<std::pair<std::string, ExprPtr>> keywords;
  ExprPtr rest, keyword_rest;  // *args, **kwargs; may be null
};

struct CallExpr final : Expr {
  explicit CallExpr(uint32_t o) : Expr(ExprKind::kCall, o) {}
  ExprPtr callee;
  CallArguments arguments;
};

struct Filter;  // filters.h
struct Test;    // tests.h

struct FilterExpr final : Expr {
  explicit FilterExpr(uint32_t o) : Expr(ExprKind::kFilter, o) {}
  ExprPtr input;  // null: the text of the block around
  std::string name;
  const Filter* filter = nullptr;  // null: unknown, an error when it is reached
  CallArguments arguments;
};

struct TestExpr final : Expr {
  explicit TestExpr(uint32_t o) : Expr(ExprKind::kTest, o) {}
  ExprPtr input;
  std::string name;
  const Test* test = nullptr;  // null: unknown, an error when it is reached
  CallArguments arguments;
};

enum class StatementKind : uint8_t {
  kOutput,
  kFor,
  kIf,
  kSet,
  kSetBlock,
  kMacro,
  kCallBlock,
  kFilterBlock,
  kWith,
  kBlock,
  kBreak,
  kContinue,
  kLoad,  // include, import, from, extends: nothing to load from
};

struct Statement {
  Statement(StatementKind k, uint32_t o) : kind(k), offset(o) {}
  virtual ~Statement() = default;
  StatementKind kind;
  uint32_t offset;
};
using Body = std::vector<std::unique_ptr<Statement>>;

// What a scope does with its variables when it is entered.
struct ScopeEntry {
  enum class Action : uint8_t {
    kResolve,    // slot = the template variable or global number `source.slot`
    kAlias,      // slot = the outer variable `source`
    kUnset,      // slot = no value
    kParameter,  // nothing: whoever enters the scope has set it
  };
  Action action;
  uint16_t slot;
  VariableRef source;
};
using ScopeCode = std::vector<ScopeEntry>;

// A body that has its own activation: the template, a macro, a caller, a recursive loop, a loop's filter, a block.
struct FunctionCode {
  uint16_t slots = 0;
  // Functions inside reach its variables, and may live longer than the call: the activation stays until the end.
  bool captured = false;
};

// Text and {{ … }} in turn; text is a ConstantExpr.
struct OutputNode final : Statement {
  explicit OutputNode(uint32_t o) : Statement(StatementKind::kOutput, o) {}
  std::vector<ExprPtr> parts;
};

struct ForNode final : Statement {
  explicit ForNode(uint32_t o) : Statement(StatementKind::kFor, o) {}
  ExprPtr target, iterable, test;  // test may be null
  bool recursive = false;
  Body body, otherwise;
  bool uses_loop = false;
  VariableRef loop;
  ScopeCode body_scope, else_scope, test_scope;
  ExprPtr test_target;  // the target once more, in the test's scope
  FunctionCode test_function;
  FunctionCode recursive_function;  // when recursive
};

struct IfNode final : Statement {
  explicit IfNode(uint32_t o) : Statement(StatementKind::kIf, o) {}
  std::vector<std::pair<ExprPtr, Body>> branches;  // if, elif, …
  Body otherwise;
};

struct SetNode final : Statement {
  explicit SetNode(uint32_t o) : Statement(StatementKind::kSet, o) {}
  ExprPtr target, value;
};

struct SetBlockNode final : Statement {
  explicit SetBlockNode(uint32_t o) : Statement(StatementKind::kSetBlock, o) {}
  ExprPtr target, filter;  // filter may be null
  Body body;
  ScopeCode scope;
};

struct Parameter {
  std::unique_ptr<NameExpr> name;
  ExprPtr otherwise;  // the default, or null
};

// A macro, or the caller of a call block.
struct MacroNode final : Statement {
  explicit MacroNode(uint32_t o) : Statement(StatementKind::kMacro, o) {}
  std::unique_ptr<NameExpr> name;  // null: a caller
  std::vector<Parameter> parameters;
  Body body;
  FunctionCode function;
  ScopeCode scope;
  bool uses_caller = false, uses_kwargs = false, uses_varargs = false;
  bool explicit_caller = false;
  VariableRef caller, kwargs, varargs;
};

// {% call %}, and {% generation %}, which calls its body at once.
struct CallBlockNode final : Statement {
  explicit CallBlockNode(uint32_t o) : Statement(StatementKind::kCallBlock, o) {}
  std::unique_ptr<CallExpr> call;  // null: generation
  std::unique_ptr<MacroNode> caller;
};

struct FilterBlockNode final : Statement {
  explicit FilterBlockNode(uint32_t o) : Statement(StatementKind::kFilterBlock, o) {}
  ExprPtr filter;
  Body body;
  ScopeCode scope;
};

struct WithNode final : Statement {
  explicit WithNode(uint32_t o) : Statement(StatementKind::kWith, o) {}
  std::vector<std::pair<ExprPtr, ExprPtr>> variables;  // target, value
  Body body;
  ScopeCode scope;
};

struct BlockNode final : Statement {
  explicit BlockNode(uint32_t o) : Statement(StatementKind::kBlock, o) {}
  std::string name;
  bool required = false;
  Body body;
  FunctionCode function;
  ScopeCode scope;
};

// kBreak, kContinue
struct JumpNode final : Statement {
  using Statement::Statement;
};

struct LoadNode final : Statement {
  explicit LoadNode(uint32_t o) : Statement(StatementKind::kLoad, o) {}
  std::string tag;
};

// Constants of the template; they outlive the tree and are shared by all renders.
class ConstantPool {
 public:
  Value String(std::string text);
  Value BigInt(std::string digits);

 private:
  std::vector<std::unique_ptr<Object>> objects_;
};

}  // namespace tercet::chat
