// The compiled form of a template, and the passes that make it.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/template/ast.h"

namespace tercet::chat {

struct Program {
  std::string source;  // normalized; offsets count in it
  ConstantPool constants;
  Body body;
  FunctionCode function;
  ScopeCode scope;
  // Names that scopes resolve from the template variables and globals; ScopeEntry::source.slot indexes them.
  std::vector<std::string> resolved_names;
  // Top-level variables that blocks see: slots of the root activation by name in resolved_names.
  std::vector<std::pair<uint16_t, uint16_t>> exported;
};

// Lexer and parser: fills source, constants, body. Throws TemplateError.
void Parse(std::string_view source, Program* program);
// Gives every name its place, as Jinja2's compiler does. Throws TemplateError.
void ResolveScopes(Program* program);

}  // namespace tercet::chat
