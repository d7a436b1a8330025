// What a scope knows about its names: which it reads from outside, which it assigns, and where each of them lives.
//
// Jinja2 decides this before a template runs, scope by scope, and templates can tell: a name that a scope assigns
// anywhere is its own from the scope's beginning. This is that analysis; the words (load, store, alias, resolve) are
// Jinja2's.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/template/ast.h"

namespace tercet::chat {

// A body with an activation of its own, while its names are placed.
struct Function {
  Function* parent;  // null: sees no other
  int depth;
  FunctionCode* code;
  std::map<std::pair<int, std::string>, uint16_t> slots;  // by scope level and name; siblings share

  // Names that the analysis may still copy; shared by all functions of a template, so that no template takes long.
  int64_t* budget;

  Function(Function* outer, FunctionCode* function_code, int64_t* copies)
      : parent(outer), depth(outer == nullptr ? 0 : outer->depth + 1), code(function_code), budget(copies) {}
  uint16_t Slot(int level, const std::string& name);
};

struct Place {
  Function* function;
  uint16_t slot;
};

class Symbols {
 public:
  Symbols(const Symbols* parent, Function* function)
      : parent_(parent), function_(function), level_(parent == nullptr ? 0 : parent->level_ + 1) {}

  void Load(const std::string& name);
  void Store(const std::string& name);
  Place DeclareParameter(const std::string& name);
  // `count` copies, for the branches of an `if`.
  std::vector<Symbols> Branches(size_t count) const;
  // Takes over what the branches of an `if` have found.
  void Merge(const std::vector<Symbols>& branches);

  const Place* Find(const std::string& name) const;
  Function* function() const { return function_; }
  const std::set<std::string>& stores() const { return stores_; }

  struct Entry {
    enum class Action : uint8_t { kParameter, kResolve, kAlias, kUnset } action;
    std::string name;  // kResolve
    Place outer{};     // kAlias
  };
  const std::map<uint16_t, Entry>& entries() const { return entries_; }

 private:
  Place Define(const std::string& name, Entry entry);

  const Symbols* parent_;
  Function* function_;
  int level_;
  std::map<std::string, Place> places_;
  std::map<uint16_t, Entry> entries_;  // by slot
  std::set<std::string> stores_;
};

// Feeds a scope's statements (not those of scopes inside) to its symbols.
void FindSymbols(const Body& body, Symbols* symbols);
void FindSymbols(const Expr* expr, Symbols* symbols, bool as_parameter = false);

}  // namespace tercet::chat
