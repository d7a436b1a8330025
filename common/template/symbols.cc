#include "common/template/symbols.h"

#include <limits>

#include "common/template/ast_walk.h"
#include "common/template/error.h"

namespace tercet::chat {
namespace {

// `if`, from branch number `first` on. An `elif` is an `if` inside of its own branch.
void FindInBranches(const IfNode& node, size_t first, Symbols* symbols);

void FindInIf(const IfNode& node, Symbols* symbols) {
  FindSymbols(node.branches[0].first.get(), symbols);
  std::vector<Symbols> branches = symbols->Branches(3);
  FindSymbols(node.branches[0].second, &branches[0]);
  FindInBranches(node, 1, &branches[1]);
  FindSymbols(node.otherwise, &branches[2]);
  symbols->Merge(branches);
}

void FindInBranches(const IfNode& node, size_t first, Symbols* symbols) {
  for (size_t i = first; i < node.branches.size(); ++i) {
    FindSymbols(node.branches[i].first.get(), symbols);
    std::vector<Symbols> branches = symbols->Branches(1);
    FindSymbols(node.branches[i].second, &branches[0]);
    symbols->Merge(branches);
  }
}

void FindInStatement(const Statement& statement, Symbols* symbols) {
  switch (statement.kind) {
    case StatementKind::kOutput:
      for (const ExprPtr& part : static_cast<const OutputNode&>(statement).parts) FindSymbols(part.get(), symbols);
      return;
    case StatementKind::kIf:
      FindInIf(static_cast<const IfNode&>(statement), symbols);
      return;
    case StatementKind::kFor:
      FindSymbols(static_cast<const ForNode&>(statement).iterable.get(), symbols);
      return;
    case StatementKind::kSet:
      FindSymbols(static_cast<const SetNode&>(statement).value.get(), symbols);
      FindSymbols(static_cast<const SetNode&>(statement).target.get(), symbols);
      return;
    case StatementKind::kSetBlock:
      FindSymbols(static_cast<const SetBlockNode&>(statement).target.get(), symbols);
      return;
    case StatementKind::kMacro:
      symbols->Store(static_cast<const MacroNode&>(statement).name->name.text());
      return;
    case StatementKind::kCallBlock:
      FindSymbols(static_cast<const CallBlockNode&>(statement).call.get(), symbols);
      return;
    case StatementKind::kFilterBlock:
      FindSymbols(static_cast<const FilterBlockNode&>(statement).filter.get(), symbols);
      return;
    case StatementKind::kWith:
      for (const auto& [target, value] : static_cast<const WithNode&>(statement).variables) {
        FindSymbols(value.get(), symbols);
      }
      return;
    case StatementKind::kBlock:
    case StatementKind::kBreak:
    case StatementKind::kContinue:
    case StatementKind::kLoad:
      return;
  }
}

}  // namespace

uint16_t Function::Slot(int level, const std::string& name) {
  const auto [entry, added] = slots.try_emplace({level, name}, code->slots);
  if (added) {
    if (code->slots == std::numeric_limits<uint16_t>::max())
      Fail("the template has more than 65534 variables in one scope");
    ++code->slots;
  }
  return entry->second;
}

const Place* Symbols::Find(const std::string& name) const {
  for (const Symbols* symbols = this; symbols != nullptr; symbols = symbols->parent_) {
    const auto found = symbols->places_.find(name);
    if (found != symbols->places_.end()) return &found->second;
  }
  return nullptr;
}

Place Symbols::Define(const std::string& name, Entry entry) {
  const Place place{function_, function_->Slot(level_, name)};
  places_[name] = place;
  entries_[place.slot] = std::move(entry);
  return place;
}

void Symbols::Load(const std::string& name) {
  if (Find(name) == nullptr) Define(name, Entry{Entry::Action::kResolve, name});
}

void Symbols::Store(const std::string& name) {
  stores_.insert(name);
  if (places_.contains(name)) return;
  const Place* outer = parent_ == nullptr ? nullptr : parent_->Find(name);
  if (outer != nullptr) {
    Define(name, Entry{Entry::Action::kAlias, name, *outer});
  } else {
    Define(name, Entry{Entry::Action::kUnset});
  }
}

Place Symbols::DeclareParameter(const std::string& name) {
  stores_.insert(name);
  return Define(name, Entry{Entry::Action::kParameter});
}

std::vector<Symbols> Symbols::Branches(size_t count) const {
  *function_->budget -= static_cast<int64_t>(count * (places_.size() + stores_.size() + 1));
  if (*function_->budget < 0) Fail("the template has too many variables and if statements");
  return std::vector<Symbols>(count, *this);
}

void Symbols::Merge(const std::vector<Symbols>& branches) {
  std::set<std::string> stores;
  for (const Symbols& branch : branches) {
    for (const std::string& name : branch.stores_) {
      if (!stores_.contains(name)) stores.insert(name);
    }
  }
  for (const Symbols& branch : branches) {
    for (const auto& [name, place] : branch.places_) places_[name] = place;
    for (const auto& [slot, entry] : branch.entries_) entries_[slot] = entry;
    stores_.insert(branch.stores_.begin(), branch.stores_.end());
  }
  // Whether such a name is assigned is known only at run time; until then it is what it was outside.
  for (const std::string& name : stores) {
    const Place* outer = parent_ == nullptr ? nullptr : parent_->Find(name);
    entries_[Find(name)->slot] =
        outer != nullptr ? Entry{Entry::Action::kAlias, name, *outer} : Entry{Entry::Action::kResolve, name};
  }
}

void FindSymbols(const Expr* expr, Symbols* symbols, bool as_parameter) {
  if (expr == nullptr) return;
  if (expr->kind == ExprKind::kName) {
    const auto& name = static_cast<const NameExpr&>(*expr);
    if (as_parameter || name.use == NameUse::kParameter) {
      symbols->DeclareParameter(name.name.text());
    } else if (name.use == NameUse::kStore) {
      symbols->Store(name.name.text());
    } else {
      symbols->Load(name.name.text());
    }
    return;
  }
  ForEachChild(*expr, [&](Expr& child) { FindSymbols(&child, symbols, as_parameter); });
}

void FindSymbols(const Body& body, Symbols* symbols) {
  for (const auto& statement : body) FindInStatement(*statement, symbols);
}

}  // namespace tercet::chat
