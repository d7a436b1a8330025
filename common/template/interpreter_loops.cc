#include <memory>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "common/template/interpreter.h"

namespace tercet::chat {

// The items that a loop's `if` lets through, tested when they are asked for. Has its own activation, as it may be asked
// after the loop was left (loop.last of a loop kept in a namespace).
class LoopFilter final : public Iterator {
 public:
  LoopFilter(Interpreter& interpreter, const ForNode& node, std::unique_ptr<Iterator> items, Activation* outer)
      : interpreter_(interpreter), node_(node), items_(std::move(items)) {
    activation_.slots.resize(node.test_function.slots);
    activation_.outer = outer;
    interpreter_.Enter(node.test_scope, activation_);
  }

  bool Next(Value* out) override {
    while (items_->Next(out)) {
      interpreter_.Assign(*node_.test_target, *out, activation_);
      if (Truth(interpreter_.Evaluate(*node_.test, activation_))) return true;
    }
    return false;
  }

 private:
  Interpreter& interpreter_;
  const ForNode& node_;
  std::unique_ptr<Iterator> items_;
  Activation activation_;
};

Interpreter::Flow Interpreter::For(const ForNode& node, Activation& activation) {
  const Value iterable = Evaluate(*node.iterable, activation);
  offset_ = node.offset;
  if (node.recursive) {
    Emit(RunRecursive(node, iterable, &activation, 0));
    return Flow::kNext;
  }
  return RunLoop(node, iterable, activation, &activation, 0);
}

Value Interpreter::RunRecursive(const ForNode& node, const Value& iterable, Activation* outer, int depth) {
  const CallDepth call(*this);
  const Runtime::Level level(runtime_);
  Capture capture(*this);
  Frame frame(*this, node.recursive_function, outer);
  RunLoop(node, iterable, *frame, outer, depth);
  return runtime_.String(std::move(capture.text));
}

Interpreter::Flow Interpreter::RunLoop(const ForNode& node, const Value& iterable, Activation& activation,
                                       Activation* outer, int depth) {
  std::unique_ptr<Iterator> iterator = Iterate(runtime_, iterable);
  if (node.test != nullptr) iterator = std::make_unique<LoopFilter>(*this, node, std::move(iterator), outer);
  // Jinja2's `else` runs unless some pass came to the end of the body; a `continue` in every pass counts as none.
  bool finished = false;
  const Flow flow = node.uses_loop
                        ? RunLoopWithVariable(node, iterable, std::move(iterator), activation, outer, depth, &finished)
                        : RunPlainLoop(node, *iterator, activation, &finished);
  if (flow != Flow::kNext) return flow;
  Leave(node.body_scope, activation);
  if (finished || node.otherwise.empty()) return Flow::kNext;
  Enter(node.else_scope, activation);
  const Flow else_flow = Execute(node.otherwise, activation);
  Leave(node.else_scope, activation);
  return else_flow;
}

Interpreter::Flow Interpreter::RunPlainLoop(const ForNode& node, Iterator& iterator, Activation& activation,
                                            bool* finished) {
  Value item;
  while (iterator.Next(&item)) {
    if (LoopBody(node, item, activation, finished) == Flow::kBreak) break;
  }
  return Flow::kNext;
}

Interpreter::Flow Interpreter::RunLoopWithVariable(const ForNode& node, const Value& iterable,
                                                   std::unique_ptr<Iterator> iterator, Activation& activation,
                                                   Activation* outer, int depth, bool* finished) {
  auto* loop = runtime_.Make<LoopObject>(0, Runtime::Held().Add(iterable));
  const Value value(Kind::kLoop, loop);
  // What a filtered loop walks over has no length of its own.
  if (node.test == nullptr) loop->iterable = iterable;
  loop->iterator = std::move(iterator);
  loop->depth0 = depth;
  loop->outer = outer;
  if (node.recursive) loop->node = &node;
  // Someone may keep the loop, even in itself (loop.changed(loop)).
  const absl::Cleanup keep = [&] {
    if (loop->references > 1) {
      Slot(node.loop, activation) = Value();
      if (loop->references > 1) runtime_.Register(value);
    }
  };
  while (loop->Advance()) {
    Slot(node.loop, activation) = value;
    const Value item = loop->current();
    if (LoopBody(node, item, activation, finished) == Flow::kBreak) break;
  }
  return Flow::kNext;
}

Interpreter::Flow Interpreter::LoopBody(const ForNode& node, const Value& item, Activation& activation,
                                        bool* finished) {
  runtime_.Step();
  Assign(*node.target, item, activation);
  Enter(node.body_scope, activation);
  const Flow flow = Execute(node.body, activation);
  if (flow == Flow::kNext) *finished = true;
  return flow;
}

}  // namespace tercet::chat
