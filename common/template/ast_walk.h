// Goes through a syntax tree, children in the order in which Jinja2's node visitors see them.
#pragma once

#include <functional>

#include "common/template/ast.h"

namespace tercet::chat {

// Calls visit(child) for each direct child of an expression (null children left out).
void ForEachChild(const Expr& expr, const std::function<void(Expr&)>& visit);

// Calls visit(name) for each name in the bodies, those of nested statements included, but not inside of blocks.
void ForEachName(const Body& body, const std::function<void(const NameExpr&)>& visit);
void ForEachName(const Expr* expr, const std::function<void(const NameExpr&)>& visit);

}  // namespace tercet::chat
