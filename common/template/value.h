// The values that a template computes with: those of Python that a chat template can meet.
//
// A Value is 16 bytes: a kind, and a number or a counted reference to an Object. Objects are immutable once they are
// visible to a template (Jinja2's immutable sandbox lets nothing change a list or mapping), except namespaces, loops,
// cyclers, joiners and generators. So there is no cycle among the immutable ones, and their depth, counted when they
// are made and at most kMaxValueDepth, bounds every recursion over values, destruction included. The mutable ones that
// can hold others later (namespaces, loops) are kept in the Runtime's registry and emptied when the render ends.
//
// Thread safety: none; values belong to one render. The exception are immortal objects (constants of a compiled
// template, built-in functions): their counts are never touched, so that any number of renders share them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"

namespace tercet::chat {

enum class Kind : uint8_t {
  kMissing,    // no value at all: an unset variable; never seen by operators
  kUndefined,  // UndefinedObject, Jinja2's default Undefined
  kNone,
  kBool,
  kInt,
  kFloat,
  kBigInt,  // StringObject: decimal digits of an integer outside int64
  kString,  // StringObject
  kList,    // SequenceObject
  kTuple,   // SequenceObject
  kDict,    // DictObject
  kDictView,
  kRange,
  kGenerator,
  kNamespace,
  kMacro,
  kMethod,
  kFunction,
  kLoop,
  kCycler,
  kJoiner,
};

// Counts the bytes that live objects hold.
class Meter {
 public:
  explicit Meter(int64_t limit) : limit_(limit) {}
  void Take(int64_t bytes) {
    live_ += bytes;
    if (live_ > limit_) Overflow(bytes);
  }
  void Give(int64_t bytes) { live_ -= bytes; }
  // Takes without throwing; an overflow shows with the next Take.
  void Note(int64_t bytes) { live_ += bytes; }

 private:
  [[noreturn]] void Overflow(int64_t bytes);
  int64_t live_ = 0;
  int64_t limit_;
};

struct Object {
  Object() = default;
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;
  virtual ~Object() {
    if (meter != nullptr) meter->Give(bytes);
  }
  // Drops what a changeable object holds; called when the render ends.
  virtual void Empty() {}

  int32_t references = 0;  // below 0: immortal
  uint16_t depth = 1;
  // Bytes, those of shared parts counted as often as they occur: what printing or comparing the value may cost.
  int64_t weight = 1;
  int64_t bytes = 0;
  Meter* meter = nullptr;
};

class Value {
 public:
  Value() : kind_(Kind::kMissing), integer_(0) {}
  Value(Kind kind, Object* object) : kind_(kind), object_(object) { Retain(); }
  Value(const Value& other) : kind_(other.kind_), integer_(other.integer_) { Retain(); }
  Value(Value&& other) noexcept : kind_(other.kind_), integer_(other.integer_) { other.kind_ = Kind::kMissing; }
  Value& operator=(const Value& other) {
    Value copy(other);
    Swap(copy);
    return *this;
  }
  Value& operator=(Value&& other) noexcept {
    Value taken(std::move(other));
    Swap(taken);
    return *this;
  }
  ~Value() { Release(); }

  static Value None() { return Value(Kind::kNone, int64_t{0}); }
  static Value Bool(bool value) { return Value(Kind::kBool, int64_t{value}); }
  static Value Int(int64_t value) { return Value(Kind::kInt, value); }
  static Value Float(double value) {
    Value result(Kind::kFloat, int64_t{0});
    result.number_ = value;
    return result;
  }

  Kind kind() const { return kind_; }
  bool missing() const { return kind_ == Kind::kMissing; }
  bool is(Kind kind) const { return kind_ == kind; }
  bool is_number() const { return kind_ == Kind::kInt || kind_ == Kind::kBool || kind_ == Kind::kFloat; }
  // kBool counts as 0 or 1, as in Python.
  bool is_integral() const { return kind_ == Kind::kInt || kind_ == Kind::kBool; }
  bool boolean() const { return integer_ != 0; }
  int64_t integer() const { return integer_; }
  // Of any number.
  double number() const { return kind_ == Kind::kFloat ? number_ : static_cast<double>(integer_); }
  // The text of kString and kBigInt.
  const std::string& text() const;
  template <typename T>
  T* as() const {
    return static_cast<T*>(object_);
  }
  Object* object() const { return object_; }
  bool holds_object() const {
    return kind_ != Kind::kMissing && kind_ != Kind::kNone && kind_ != Kind::kBool && kind_ != Kind::kInt &&
           kind_ != Kind::kFloat;
  }
  int depth() const { return holds_object() ? object_->depth : 0; }
  int64_t weight() const { return holds_object() ? object_->weight : 1; }

 private:
  Value(Kind kind, int64_t integer) : kind_(kind), integer_(integer) {}
  void Retain() {
    if (holds_object() && object_->references >= 0) ++object_->references;
  }
  void Release() {
    if (holds_object() && object_->references >= 0 && --object_->references == 0) delete object_;
  }
  void Swap(Value& other) noexcept {
    std::swap(kind_, other.kind_);
    std::swap(integer_, other.integer_);
  }

  Kind kind_;
  union {
    int64_t integer_;
    double number_;
    Object* object_;
  };
};

using Values = std::vector<Value>;

// Positional and keyword arguments of a call.
struct Arguments {
  Values positional;
  std::vector<std::pair<std::string, Value>> keywords;
};

struct UndefinedObject final : Object {
  std::string hint;             // the whole message, or empty: made from the two below
  const char* owner = nullptr;  // type of the object that lacks `name`; null: a variable of that name
  Value name;
  bool security = false;
};

struct StringObject final : Object {
  std::string text;     // UTF-8
  int64_t length = -1;  // code points, or -1 while not counted
  bool markup = false;  // markupsafe.Markup
};

struct SequenceObject final : Object {
  Values items;
  bool group = false;  // a tuple of groupby: [0] is .grouper, [1] is .list
};

// A mapping in order of insertion. Keys are what Python can hash: numbers, strings, None, tuples of such, …
struct DictObject final : Object {
  std::vector<std::pair<Value, Value>> items;

  // Null when absent. The key must be hashable.
  const Value* Find(const Value& key) const;
  const Value* Find(std::string_view key) const;
  // Replaces the value of an equal key, in its place.
  void Set(Value key, Value value);

 private:
  // String keys to positions, once there are many; views into the keys' objects.
  mutable absl::flat_hash_map<std::string_view, size_t> index_;
  mutable size_t indexed_ = 0;
};

enum class DictPart : uint8_t { kKeys, kValues, kItems };

struct DictViewObject final : Object {
  Value dict;
  DictPart part;
};

struct RangeObject final : Object {
  int64_t start, stop, step;
  int64_t length;
};

class Iterator {
 public:
  virtual ~Iterator() = default;
  // False at the end, and from then on.
  virtual bool Next(Value* out) = 0;
};

// What map, select, reverse, … give: walked once, each item made when it is asked for.
struct GeneratorObject final : Object {
  std::unique_ptr<Iterator> iterator;
  const char* type;  // Python's name for it
};

struct NamespaceObject final : Object {
  void Empty() override { attributes.clear(); }
  std::vector<std::pair<std::string, Value>> attributes;
};

struct CyclerObject final : Object {
  Values items;
  size_t position = 0;
};

struct JoinerObject final : Object {
  Value separator;
  bool used = false;
};

// Python's type name: "str", "int", "NoneType", "dict", …
const char* TypeName(const Value& value);

bool Truth(const Value& value);
// Python's ==.
bool Equal(const Value& left, const Value& right);
// Python's `is`.
bool Same(const Value& left, const Value& right);
// How numbers, strings, lists and tuples compare: -1, 0, 1, or 2 where a NaN is in the way. Anything else throws as a
// TypeError would; `symbol` is the operator that its message names.
int Order(const Value& left, const Value& right, const char* symbol = "<");
// Throws unless the value can be a key of a mapping.
void RequireHashable(const Value& value);

// Python's len(), or -1 for a value that has none.
int64_t LengthOf(const Value& value);

}  // namespace tercet::chat
