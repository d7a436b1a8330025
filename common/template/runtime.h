// What one render owns: the values' memory, the budget, the clock.
//
// Invariant: values made here do not outlive the Runtime. Objects that a template can change (namespaces, loops, …) are
// registered, and emptied in the destructor, so that cycles through them are freed and no chain of them is destroyed by
// recursion.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/time/civil_time.h"
#include "common/template/error.h"
#include "common/template/limits.h"
#include "common/template/value.h"
#include "nlohmann/json.hpp"

namespace tercet::chat {

class Runtime {
 public:
  Runtime(const RenderLimits& limits, std::optional<absl::CivilSecond> now);
  ~Runtime();
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  // Counts work; throws when steps or CPU time are used up.
  void Step(int64_t steps = 1) {
    steps_ += steps;
    if (steps_ >= next_check_) Check();
  }

  // Counts the work of going through a value, or through `bytes` of text.
  void StepOver(const Value& value) { Step(1 + value.weight() / kBytesPerStep); }
  void StepOver(int64_t bytes) { Step(1 + bytes / kBytesPerStep); }

  // Counts one level of evaluation for as long as it lives.
  class Level {
   public:
    explicit Level(Runtime& runtime) : runtime_(runtime) {
      if (++runtime_.depth_ > runtime_.limits_.max_depth) {
        --runtime_.depth_;
        runtime_.TooDeep();
      }
    }
    ~Level() { --runtime_.depth_; }

   private:
    Runtime& runtime_;
  };

  Value String(std::string text, bool markup = false);
  Value String(std::string_view text) { return String(std::string(text)); }
  Value String(const char* text) { return String(std::string(text)); }
  Value BigInt(std::string digits);
  Value List(Values items) { return Sequence(Kind::kList, std::move(items)); }
  Value Tuple(Values items) { return Sequence(Kind::kTuple, std::move(items)); }
  Value Pair(Value first, Value second);
  // Fill the DictObject of NewDict, then Seal it (memory and depth are counted then).
  Value NewDict();
  void Seal(const Value& dict);
  Value DictView(const Value& dict, DictPart part);
  Value Range(int64_t start, int64_t stop, int64_t step);
  // `sources` are the values that the iterator holds.
  Value Generator(std::unique_ptr<Iterator> iterator, const char* type, const Value& source);
  Value UndefinedHint(std::string hint);
  // A variable of that name.
  Value UndefinedName(const Value& name);
  // `object` has no attribute or item `name`.
  Value UndefinedMember(const Value& object, const Value& name);
  // An attribute that the sandbox hides: any use fails.
  Value UndefinedUnsafe(const Value& object, std::string_view attribute);
  Value FromJson(const nlohmann::ordered_json& json, int depth = 0);

  // What an object holds, for the bounds on depth and weight.
  struct Held {
    int depth = 0;
    int64_t weight = 0;
    Held& Add(const Value& value) {
      depth = std::max(depth, value.depth());
      weight = std::min(weight + value.weight(), int64_t{1} << 60);
      return *this;
    }
  };
  // Makes an object whose memory is counted; `extra_bytes` are those beyond sizeof(T).
  template <typename T>
  T* Make(int64_t extra_bytes = 0, const Held& held = {}) {
    auto object = std::make_unique<T>();
    Charge(*object, static_cast<int64_t>(sizeof(T)) + extra_bytes, held);
    return object.release();
  }
  // Keeps a changeable object until the end of the render, and empties it then.
  void Register(Value value);

  Meter& meter() { return meter_; }
  const RenderLimits& limits() const { return limits_; }
  absl::CivilSecond Now() const;

 private:
  static constexpr int64_t kBytesPerStep = 256;

  Value Sequence(Kind kind, Values items);
  void Charge(Object& object, int64_t bytes, const Held& held);
  void Check();
  [[noreturn]] void TooDeep();

  RenderLimits limits_;
  Meter meter_;
  std::optional<absl::CivilSecond> now_;
  int64_t steps_ = 0;
  int64_t next_check_ = 0;
  int64_t cpu_deadline_ns_;
  int depth_ = 0;
  Values registry_;
};

// The message of an undefined value, as Jinja2 words it.
std::string UndefinedMessage(const Value& undefined);
// Throws it.
[[noreturn]] void FailUndefined(const Value& undefined);

// Walks any iterable; throws "'int' object is not iterable" and the like. Strings give characters, mappings keys.
std::unique_ptr<Iterator> Iterate(Runtime& runtime, const Value& value);
// Begins its work, and finds its errors, when the first item is asked for, as Python's generators do.
std::unique_ptr<Iterator> Deferred(std::function<std::unique_ptr<Iterator>()> begin);
// All items of an iterable.
Values Collect(Runtime& runtime, const Value& value);

}  // namespace tercet::chat
