// Gives every name of a template its variable, and every scope what it does when it is entered.
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "common/template/ast_walk.h"
#include "common/template/compiled_template.h"
#include "common/template/error.h"
#include "common/template/symbols.h"

namespace tercet::chat {
namespace {

// Where in the template the compiler is.
struct Frame {
  const Symbols* symbols;
  Function* function;
  // Inside `if` or a conditional expression of this scope: an unknown filter or test is an error only when it is
  // reached.
  bool soft = false;
  // Inside the body of a loop of this function: break and continue have something to leave.
  bool loop = false;

  Frame Soft() const {
    Frame frame = *this;
    frame.soft = true;
    return frame;
  }
  Frame Inner(const Symbols& inner) const { return Frame{&inner, inner.function(), false, loop}; }
};

class Resolver {
 public:
  explicit Resolver(Program* program) : program_(program) {}

  void Run() {
    Function root(nullptr, &program_->function, &budget_);
    Symbols symbols(nullptr, &root);
    FindSymbols(program_->body, &symbols);
    Compile(program_->body, Frame{&symbols, &root});
    program_->scope = Entries(symbols, &root);
    for (const std::string& name : symbols.stores()) {
      program_->exported.emplace_back(NameIndex(name), symbols.Find(name)->slot);
    }
  }

 private:
  uint16_t NameIndex(const std::string& name) {
    const auto [entry, added] = name_indices_.try_emplace(name, static_cast<uint16_t>(program_->resolved_names.size()));
    if (added) {
      if (program_->resolved_names.size() >= 65535) Fail("the template has more than 65535 names");
      program_->resolved_names.push_back(name);
    }
    return entry->second;
  }

  // How `place` is reached from `function`; the activations on the way must outlive their calls.
  static VariableRef Reach(const Place& place, Function* function) {
    VariableRef reference{static_cast<uint16_t>(function->depth - place.function->depth), place.slot};
    for (Function* at = function; at != place.function; at = at->parent) at->parent->code->captured = true;
    return reference;
  }

  ScopeCode Entries(const Symbols& symbols, Function* function) {
    ScopeCode code;
    for (const auto& [slot, entry] : symbols.entries()) {
      switch (entry.action) {
        case Symbols::Entry::Action::kParameter:
          code.push_back({ScopeEntry::Action::kParameter, slot, {}});
          break;
        case Symbols::Entry::Action::kResolve:
          code.push_back({ScopeEntry::Action::kResolve, slot, VariableRef{0, NameIndex(entry.name)}});
          break;
        case Symbols::Entry::Action::kAlias:
          code.push_back({ScopeEntry::Action::kAlias, slot, Reach(entry.outer, function)});
          break;
        case Symbols::Entry::Action::kUnset:
          code.push_back({ScopeEntry::Action::kUnset, slot, {}});
          break;
      }
    }
    return code;
  }

  void Compile(const Body& body, const Frame& frame) {
    for (const auto& statement : body) Compile(*statement, frame);
  }

  void Compile(Expr* expr, const Frame& frame) {
    if (expr == nullptr) return;
    if (expr->kind == ExprKind::kName) {
      auto& name = static_cast<NameExpr&>(*expr);
      const Place* place = frame.symbols->Find(name.name.text());
      // Names in places that the analysis does not look at (the filter of a set block) may be new.
      if (place == nullptr) FailAt(expr->offset, "the name '", name.name.text(), "' cannot be used here");
      name.variable = Reach(*place, frame.function);
      return;
    }
    if (expr->kind == ExprKind::kFilter && static_cast<FilterExpr*>(expr)->filter == nullptr && !frame.soft) {
      FailAt(expr->offset, "No filter named '", static_cast<FilterExpr*>(expr)->name, "'.");
    }
    if (expr->kind == ExprKind::kTest && static_cast<TestExpr*>(expr)->test == nullptr && !frame.soft) {
      FailAt(expr->offset, "No test named '", static_cast<TestExpr*>(expr)->name, "'.");
    }
    const Frame inside = expr->kind == ExprKind::kConditional ? frame.Soft() : frame;
    ForEachChild(*expr, [&](Expr& child) { Compile(&child, inside); });
  }

  void Compile(Statement& statement, const Frame& frame) {
    switch (statement.kind) {
      case StatementKind::kOutput:
        for (const ExprPtr& part : static_cast<OutputNode&>(statement).parts) Compile(part.get(), frame);
        return;
      case StatementKind::kFor:
        For(static_cast<ForNode&>(statement), frame);
        return;
      case StatementKind::kIf: {
        auto& node = static_cast<IfNode&>(statement);
        for (const auto& [test, body] : node.branches) {
          Compile(test.get(), frame.Soft());
          Compile(body, frame.Soft());
        }
        Compile(node.otherwise, frame.Soft());
        return;
      }
      case StatementKind::kSet:
        Compile(static_cast<SetNode&>(statement).target.get(), frame);
        Compile(static_cast<SetNode&>(statement).value.get(), frame);
        return;
      case StatementKind::kSetBlock: {
        auto& node = static_cast<SetBlockNode&>(statement);
        Symbols symbols(frame.symbols, frame.function);
        FindSymbols(node.body, &symbols);
        FindSymbols(node.filter.get(), &symbols);
        Compile(node.body, frame.Inner(symbols));
        Compile(node.filter.get(), frame.Inner(symbols));
        Compile(node.target.get(), frame);
        node.scope = Entries(symbols, frame.function);
        return;
      }
      case StatementKind::kMacro: {
        auto& node = static_cast<MacroNode&>(statement);
        Macro(node, frame);
        Compile(node.name.get(), frame);
        return;
      }
      case StatementKind::kCallBlock: {
        auto& node = static_cast<CallBlockNode&>(statement);
        Macro(*node.caller, frame);
        Compile(node.call.get(), frame);
        return;
      }
      case StatementKind::kFilterBlock: {
        auto& node = static_cast<FilterBlockNode&>(statement);
        Symbols symbols(frame.symbols, frame.function);
        FindSymbols(node.body, &symbols);
        FindSymbols(node.filter.get(), &symbols);
        Compile(node.body, frame.Inner(symbols));
        Compile(node.filter.get(), frame.Inner(symbols));
        node.scope = Entries(symbols, frame.function);
        return;
      }
      case StatementKind::kWith: {
        auto& node = static_cast<WithNode&>(statement);
        Symbols symbols(frame.symbols, frame.function);
        for (const auto& [target, value] : node.variables) FindSymbols(target.get(), &symbols);
        FindSymbols(node.body, &symbols);
        for (const auto& [target, value] : node.variables) {
          Compile(target.get(), frame.Inner(symbols));
          Compile(value.get(), frame);
        }
        Compile(node.body, frame.Inner(symbols));
        node.scope = Entries(symbols, frame.function);
        return;
      }
      case StatementKind::kBlock: {
        auto& node = static_cast<BlockNode&>(statement);
        Function function(nullptr, &node.function, &budget_);
        Symbols symbols(nullptr, &function);
        FindSymbols(node.body, &symbols);
        Compile(node.body, Frame{&symbols, &function});
        node.scope = Entries(symbols, &function);
        return;
      }
      case StatementKind::kBreak:
      case StatementKind::kContinue:
        if (!frame.loop) {
          FailAt(statement.offset, "'", statement.kind == StatementKind::kBreak ? "break" : "continue",
                 "' outside of a loop");
        }
        return;
      case StatementKind::kLoad:
        return;
    }
  }

  // Which of `names` the body reads before it assigns them, in the order of the text.
  static std::set<std::string> Undeclared(const Body& body, std::set<std::string> names) {
    std::set<std::string> found;
    ForEachName(body, [&](const NameExpr& name) {
      if (!names.contains(name.name.text())) return;
      if (name.use == NameUse::kLoad) {
        found.insert(name.name.text());
      } else {
        names.erase(name.name.text());
      }
    });
    return found;
  }

  void Macro(MacroNode& node, const Frame& frame) {
    Function function(frame.function, &node.function, &budget_);
    Symbols symbols(frame.symbols, &function);
    bool takes_kwargs = false, takes_varargs = false;
    for (const Parameter& parameter : node.parameters) {
      const std::string& name = parameter.name->name.text();
      symbols.DeclareParameter(name);
      node.explicit_caller |= name == "caller";
      takes_kwargs |= name == "kwargs";
      takes_varargs |= name == "varargs";
    }
    for (const Parameter& parameter : node.parameters) FindSymbols(parameter.otherwise.get(), &symbols);
    FindSymbols(node.body, &symbols);

    const std::set<std::string> undeclared = Undeclared(node.body, {"caller", "kwargs", "varargs"});
    if (undeclared.contains("caller")) {
      node.uses_caller = true;
      if (!node.explicit_caller) {
        node.caller = {0, symbols.DeclareParameter("caller").slot};
      } else {
        for (const Parameter& parameter : node.parameters) {
          if (parameter.name->name.text() == "caller" && parameter.otherwise == nullptr) {
            FailAt(node.offset, "the special \"caller\" argument of a macro must be left out or be given a default");
          }
        }
      }
    }
    if (undeclared.contains("kwargs") && !takes_kwargs) {
      node.uses_kwargs = true;
      node.kwargs = {0, symbols.DeclareParameter("kwargs").slot};
    }
    if (undeclared.contains("varargs") && !takes_varargs) {
      node.uses_varargs = true;
      node.varargs = {0, symbols.DeclareParameter("varargs").slot};
    }
    const Frame inside{&symbols, &function};
    for (const Parameter& parameter : node.parameters) {
      Compile(parameter.name.get(), inside);
      Compile(parameter.otherwise.get(), inside);
    }
    Compile(node.body, inside);
    node.scope = Entries(symbols, &function);
  }

  void RefuseLoopAssignment(const ForNode& node) {
    const auto check = [&](const NameExpr& name) {
      if (name.use == NameUse::kStore && name.name.text() == "loop") {
        FailAt(name.offset, "Can't assign to special loop variable in for-loop");
      }
    };
    ForEachName(node.target.get(), check);
    ForEachName(node.body, check);
    ForEachName(node.otherwise, check);
  }

  void For(ForNode& node, const Frame& frame) {
    RefuseLoopAssignment(node);
    // A recursive loop is a function; calling it runs the body over other items.
    Function recursion(frame.function, &node.recursive_function, &budget_);
    Function* function = node.recursive ? &recursion : frame.function;

    Symbols body(frame.symbols, function);
    node.uses_loop = node.recursive || !Undeclared(node.body, {"loop"}).empty();
    if (node.uses_loop) node.loop = {0, body.DeclareParameter("loop").slot};
    FindSymbols(node.target.get(), &body, true);
    FindSymbols(node.body, &body);

    Symbols otherwise(frame.symbols, function);
    FindSymbols(node.otherwise, &otherwise);

    if (node.test != nullptr) {
      Function test_function(frame.function, &node.test_function, &budget_);
      Symbols test(frame.symbols, &test_function);
      FindSymbols(node.target.get(), &test, true);
      FindSymbols(node.test.get(), &test);
      const Frame inside{&test, &test_function};
      node.test_target = CloneTarget(*node.target);
      Compile(node.test_target.get(), inside);
      Compile(node.test.get(), inside);
      node.test_scope = Entries(test, &test_function);
    }
    Compile(node.iterable.get(), frame);
    const Frame in_body{&body, function, false, true};
    Compile(node.target.get(), in_body);
    Compile(node.body, in_body);
    Compile(node.otherwise, Frame{&otherwise, function, false, frame.loop && !node.recursive});
    node.body_scope = Entries(body, function);
    node.else_scope = Entries(otherwise, function);
  }

  static ExprPtr CloneTarget(const Expr& target) {
    if (target.kind == ExprKind::kName) {
      auto copy = std::make_unique<NameExpr>(target.offset);
      copy->name = static_cast<const NameExpr&>(target).name;
      copy->use = NameUse::kStore;
      return copy;
    }
    auto copy = std::make_unique<ItemsExpr>(ExprKind::kTuple, target.offset);
    for (const ExprPtr& item : static_cast<const ItemsExpr&>(target).items) copy->items.push_back(CloneTarget(*item));
    return copy;
  }

  Program* program_;
  int64_t budget_ = 10'000'000;
  std::map<std::string, uint16_t> name_indices_;
};

}  // namespace

void ResolveScopes(Program* program) { Resolver(program).Run(); }

}  // namespace tercet::chat
