// The `loop` variable of a for statement: where it is, and a look at the items around.
#pragma once

#include <cstdint>
#include <memory>

#include "common/template/runtime.h"
#include "common/template/value.h"

namespace tercet::chat {

struct ForNode;     // ast.h
struct Activation;  // interpreter.h

struct LoopObject final : Object {
  Value iterable;
  std::unique_ptr<Iterator> iterator;
  int64_t index0 = -1;
  int depth0 = 0;
  // Of a recursive loop: what loop(…) runs again, and the variables around it.
  const ForNode* node = nullptr;
  Activation* outer = nullptr;

  // Moves to the next item; false at the end.
  bool Advance();
  // Number of items. Reads a generator to its end, as Jinja2 does.
  int64_t Length();
  // loop.<name>; missing when there is no such attribute.
  Value Attribute(Runtime& runtime, std::string_view name, const Value& self);
  const Value& current() const { return current_; }
  // loop.changed(…)
  bool Changed(const Values& values, Runtime& runtime);
  void Empty() override;

 private:
  bool Peek();

  Value current_, before_, after_, last_changed_;
  bool has_after_ = false;
  int64_t length_ = -1;
};

}  // namespace tercet::chat
