// Python's operators on values. Each throws where Python or Jinja2's Undefined would.
#pragma once

#include "common/template/ast.h"
#include "common/template/runtime.h"
#include "common/template/value.h"

namespace tercet::chat {

Value Binary(Runtime& runtime, BinaryOp op, const Value& left, const Value& right);
Value Negative(Runtime& runtime, const Value& operand);
Value Positive(const Value& operand);
bool Compare(Runtime& runtime, CompareOp op, const Value& left, const Value& right);
// `item in container`
bool Contains(Runtime& runtime, const Value& container, const Value& item);
// The parts' str()s, one after the other (the operator ~).
Value Concatenate(Runtime& runtime, const Values& parts);

// object[start:stop:step]; a bound that is left out is missing.
Value Slice(Runtime& runtime, const Value& object, const Value& start, const Value& stop, const Value& step);
// object.name and object[index], as Jinja2's sandbox looks them up: undefined when there is no such thing.
Value GetAttribute(Runtime& runtime, const Value& object, const Value& name);
Value GetItem(Runtime& runtime, const Value& object, const Value& index);

}  // namespace tercet::chat
