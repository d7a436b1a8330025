// Runs a compiled template: one Interpreter a render.
//
// Every function of the template (the template itself, a macro, a caller, a recursive loop, a loop's filter) runs in an
// Activation, a row of variables. An activation that functions inside can reach stays until the render ends, as they
// may be kept in a namespace; others are used again.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/template/ast.h"
#include "common/template/callable.h"
#include "common/template/compiled_template.h"
#include "common/template/loop.h"
#include "common/template/runtime.h"

namespace tercet::chat {

struct Activation {
  Values slots;
  Activation* outer = nullptr;
};

class Interpreter {
 public:
  // `variables` is a JSON object; both must outlive the interpreter.
  Interpreter(Runtime& runtime, const Program& program, const nlohmann::ordered_json& variables);
  ~Interpreter();

  // The rendered text. Throws TemplateError.
  std::string Run();
  // Where in the template it is, or was when an error was thrown.
  size_t offset() const { return offset_; }

 private:
  friend class LoopFilter;

  enum class Flow : uint8_t { kNext, kBreak, kContinue };

  // An activation for one call, given back (or kept) at its end.
  class Frame {
   public:
    Frame(Interpreter& interpreter, const FunctionCode& code, Activation* outer);
    ~Frame();
    Activation& operator*() { return *activation_; }

   private:
    Interpreter& interpreter_;
    bool captured_;
    std::unique_ptr<Activation> activation_;
    Activation* kept_ = nullptr;
    friend class Interpreter;
  };
  // Sends output to a buffer while it lives.
  class Capture {
   public:
    explicit Capture(Interpreter& interpreter) : interpreter_(interpreter), outer_(interpreter.output_) {
      interpreter_.output_ = &text;
    }
    ~Capture() { interpreter_.output_ = outer_; }
    std::string text;

   private:
    Interpreter& interpreter_;
    std::string* outer_;
  };
  // Counts a call while it lives.
  class CallDepth {
   public:
    explicit CallDepth(Interpreter& interpreter);
    ~CallDepth() { --interpreter_.calls_; }

   private:
    Interpreter& interpreter_;
  };

  // Statements (interpreter_statements.cc)
  Flow Execute(const Body& body, Activation& activation);
  Flow Execute(const Statement& statement, Activation& activation);
  void Output(const OutputNode& node, Activation& activation);
  Flow If(const IfNode& node, Activation& activation);
  Flow For(const ForNode& node, Activation& activation);
  Flow RunLoop(const ForNode& node, const Value& iterable, Activation& activation, Activation* outer, int depth);
  Flow RunPlainLoop(const ForNode& node, Iterator& iterator, Activation& activation, bool* finished);
  Flow RunLoopWithVariable(const ForNode& node, const Value& iterable, std::unique_ptr<Iterator> iterator,
                           Activation& activation, Activation* outer, int depth, bool* finished);
  Flow LoopBody(const ForNode& node, const Value& item, Activation& activation, bool* finished);
  Value RunRecursive(const ForNode& node, const Value& iterable, Activation* outer, int depth);
  Flow SetBlock(const SetBlockNode& node, Activation& activation);
  Flow FilterBlock(const FilterBlockNode& node, Activation& activation);
  Flow With(const WithNode& node, Activation& activation);
  void CallBlock(const CallBlockNode& node, Activation& activation);
  void Block(const BlockNode& node);
  void Set(const SetNode& node, Activation& activation);
  void Enter(const ScopeCode& scope, Activation& activation);
  void Leave(const ScopeCode& scope, Activation& activation);
  void Assign(const Expr& target, const Value& value, Activation& activation);
  void CheckNamespaces(const Expr& target, Activation& activation);
  void Emit(const Value& value);
  void CountOutput(size_t bytes);
  Value MakeMacro(const MacroNode& node, Activation& activation);

  // Expressions (interpreter_expressions.cc)
  Value Evaluate(const Expr& expr, Activation& activation);
  Value EvaluateNested(const Expr& expr, Activation& activation);
  Value Name(const NameExpr& expr, Activation& activation);
  Value Items(const ItemsExpr& expr, Activation& activation);
  Value Dict(const ItemsExpr& expr, Activation& activation);
  Value Chain(const CompareExpr& expr, Activation& activation);
  Value Item(const ItemExpr& expr, Activation& activation);
  Value CallExpression(const CallExpr& expr, Activation& activation, const Value* caller);
  Value FilterExpression(const FilterExpr& expr, Activation& activation);
  Value TestExpression(const TestExpr& expr, Activation& activation);
  Arguments EvaluateArguments(const CallArguments& arguments, Activation& activation);

  // Calls (interpreter_calls.cc)
  Value Call(const Value& callee, Arguments& arguments);
  Value CallMacro(const MacroObject& macro, Arguments& arguments);
  void BindMacro(const MacroObject& macro, Arguments& arguments, Activation& activation);

  static Value& Slot(const VariableRef& reference, Activation& activation);
  Value Resolve(uint16_t name_index);
  // Notes where an error belongs that is thrown from here on.
  void At(const Expr& expr) { offset_ = expr.offset; }

  Runtime& runtime_;
  const Program& program_;
  const nlohmann::ordered_json& variables_;
  std::string* output_ = nullptr;
  int64_t output_bytes_ = 0;
  int calls_ = 0;
  size_t offset_ = 0;
  Values resolved_;  // by index in resolved_names
  Activation* root_ = nullptr;
  const Value* block_text_ = nullptr;  // what the filter of a block works on
  std::vector<std::unique_ptr<Activation>> free_, kept_;
};

}  // namespace tercet::chat
