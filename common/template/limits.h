// What one render may cost. A template is somebody else's program and the messages are a stranger's data, so each of
// steps, depth, output, memory and time has an end; crossing one is an InvalidArgument status that names it.
#pragma once

#include <cstdint>

namespace tercet::chat {

struct RenderLimits {
  // Expressions and statements evaluated, plus items walked by filters.
  int64_t max_steps = 20'000'000;
  // Bytes of rendered text, those of a macro's or a set block's buffer included.
  int64_t max_output_bytes = int64_t{128} << 20;
  // Bytes held at one time by the values of the render: the variables' copy, strings, lists.
  int64_t max_memory_bytes = int64_t{1} << 30;
  // Nested evaluations (an expression in an expression in a statement …, through macro calls).
  int max_depth = 1000;
  // Nested calls of macros and of recursive loops.
  int max_calls = 100;
  // CPU time of the rendering thread.
  int64_t max_cpu_ms = 2000;
};

// Nesting of statements, and of parentheses and the like within one expression, that a template may have. Jinja2 itself
// meets Python's recursion limit near 70 parentheses.
inline constexpr int kMaxNesting = 64;
// Depth of an expression's tree, chains of operators (a + b + …) included; CPython refuses more than 200 as well.
inline constexpr int kMaxExpressionDepth = 200;
// Levels of lists and mappings within each other.
inline constexpr int kMaxValueDepth = 200;
// Bytes of a template.
inline constexpr int64_t kMaxTemplateBytes = int64_t{4} << 20;
// Items of a range(), as Jinja2's sandbox has it.
inline constexpr int64_t kMaxRange = 100'000;

}  // namespace tercet::chat
