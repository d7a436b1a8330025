#include "common/template/runtime.h"

#include <time.h>

#include <algorithm>
#include <chrono>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/template/repr.h"
#include "common/template/strcat.h"
#include "common/template/text.h"

namespace tercet::chat {
namespace {

// Steps between two looks at the clock (a system call).
constexpr int64_t kStepsBetweenChecks = 1024;

int64_t ThreadCpuNanoseconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

}  // namespace

void Meter::Overflow(int64_t bytes) {
  live_ -= bytes;
  Fail("the template's values need more than ", limit_, " bytes of memory");
}

Runtime::Runtime(const RenderLimits& limits, std::optional<absl::CivilSecond> now)
    : limits_(limits), meter_(limits.max_memory_bytes), now_(now) {
  cpu_deadline_ns_ = ThreadCpuNanoseconds() + limits.max_cpu_ms * 1'000'000;
  next_check_ = std::min(kStepsBetweenChecks, limits_.max_steps);
}

Runtime::~Runtime() {
  for (Value& value : registry_) value.object()->Empty();
}

void Runtime::Register(Value value) {
  meter_.Note(static_cast<int64_t>(2 * sizeof(Value)));
  registry_.push_back(std::move(value));
}

void Runtime::Check() {
  if (steps_ > limits_.max_steps) Fail("the template takes more than ", limits_.max_steps, " steps");
  if (ThreadCpuNanoseconds() > cpu_deadline_ns_) {
    Fail("the template takes more than ", limits_.max_cpu_ms, " ms of CPU time");
  }
  next_check_ = std::min(steps_ + kStepsBetweenChecks, limits_.max_steps + 1);
}

void Runtime::TooDeep() { Fail("the template nests evaluations deeper than ", limits_.max_depth, " levels"); }

absl::CivilSecond Runtime::Now() const {
  return now_.has_value() ? *now_ : absl::ToCivilSecond(absl::Now(), absl::LocalTimeZone());
}

void Runtime::Charge(Object& object, int64_t bytes, const Held& held) {
  if (held.depth >= kMaxValueDepth) Fail("lists or mappings are nested deeper than ", kMaxValueDepth, " levels");
  if (held.weight + bytes > limits_.max_memory_bytes) {
    Fail("a value's parts would take more than ", limits_.max_memory_bytes, " bytes when written out");
  }
  Step(bytes / kBytesPerStep);
  meter_.Take(bytes);
  object.depth = static_cast<uint16_t>(held.depth + 1);
  object.weight = bytes + held.weight;
  object.bytes += bytes;
  object.meter = &meter_;
}

Value Runtime::String(std::string text, bool markup) {
  auto* object = Make<StringObject>(static_cast<int64_t>(text.size()));
  object->text = std::move(text);
  object->markup = markup;
  return Value(Kind::kString, object);
}

Value Runtime::BigInt(std::string digits) {
  auto* object = Make<StringObject>(static_cast<int64_t>(digits.size()));
  object->text = std::move(digits);
  return Value(Kind::kBigInt, object);
}

Value Runtime::Sequence(Kind kind, Values items) {
  Held held;
  for (const Value& item : items) held.Add(item);
  auto* object = Make<SequenceObject>(static_cast<int64_t>(items.size() * sizeof(Value)), held);
  object->items = std::move(items);
  return Value(kind, object);
}

Value Runtime::Pair(Value first, Value second) {
  Values items;
  items.reserve(2);
  items.push_back(std::move(first));
  items.push_back(std::move(second));
  return Tuple(std::move(items));
}

Value Runtime::NewDict() { return Value(Kind::kDict, Make<DictObject>()); }

void Runtime::Seal(const Value& dict) {
  auto* object = dict.as<DictObject>();
  Held held;
  for (const auto& [key, value] : object->items) held.Add(key).Add(value);
  Charge(*object, static_cast<int64_t>(object->items.size() * 2 * sizeof(Value)), held);
}

Value Runtime::DictView(const Value& dict, DictPart part) {
  auto* view = Make<DictViewObject>(0, Held().Add(dict));
  view->dict = dict;
  view->part = part;
  return Value(Kind::kDictView, view);
}

Value Runtime::Range(int64_t start, int64_t stop, int64_t step) {
  if (step == 0) Fail("range() arg 3 must not be zero");
  // Unsigned arithmetic: the distance of two int64 fits in uint64.
  uint64_t length = 0;
  if (step > 0 && start < stop) {
    length = (static_cast<uint64_t>(stop) - static_cast<uint64_t>(start) - 1) / static_cast<uint64_t>(step) + 1;
  } else if (step < 0 && start > stop) {
    const uint64_t stride = uint64_t{0} - static_cast<uint64_t>(step);
    length = (static_cast<uint64_t>(start) - static_cast<uint64_t>(stop) - 1) / stride + 1;
  }
  if (length > static_cast<uint64_t>(kMaxRange)) {
    Fail("Range too big. The sandbox blocks ranges larger than MAX_RANGE (", kMaxRange, ").");
  }
  auto* range = Make<RangeObject>();
  range->start = start;
  range->stop = stop;
  range->step = step;
  range->length = static_cast<int64_t>(length);
  return Value(Kind::kRange, range);
}

Value Runtime::Generator(std::unique_ptr<Iterator> iterator, const char* type, const Value& source) {
  auto* generator = Make<GeneratorObject>(0, Held().Add(source));
  generator->iterator = std::move(iterator);
  generator->type = type;
  return Value(Kind::kGenerator, generator);
}

Value Runtime::UndefinedHint(std::string hint) {
  auto* undefined = Make<UndefinedObject>(static_cast<int64_t>(hint.size()));
  undefined->hint = std::move(hint);
  return Value(Kind::kUndefined, undefined);
}

Value Runtime::UndefinedName(const Value& name) {
  auto* undefined = Make<UndefinedObject>();
  undefined->name = name;
  return Value(Kind::kUndefined, undefined);
}

Value Runtime::UndefinedMember(const Value& object, const Value& name) {
  auto* undefined = Make<UndefinedObject>(0, Held().Add(name));
  undefined->owner = TypeName(object);
  undefined->name = name;
  return Value(Kind::kUndefined, undefined);
}

Value Runtime::UndefinedUnsafe(const Value& object, std::string_view attribute) {
  Value undefined =
      UndefinedHint(StrCat("access to attribute '", attribute, "' of '", TypeName(object), "' object is unsafe."));
  undefined.as<UndefinedObject>()->security = true;
  return undefined;
}

Value Runtime::FromJson(const nlohmann::ordered_json& json, int depth) {
  using Type = nlohmann::ordered_json::value_t;
  if (depth > kMaxValueDepth) Fail("the variables nest lists or mappings deeper than ", kMaxValueDepth, " levels");
  switch (json.type()) {
    case Type::null:
    case Type::discarded:
      return Value::None();
    case Type::boolean:
      return Value::Bool(json.get<bool>());
    case Type::number_integer:
      return Value::Int(json.get<int64_t>());
    case Type::number_unsigned: {
      const auto number = json.get<uint64_t>();
      if (number > static_cast<uint64_t>(INT64_MAX)) return BigInt(StrCat(number));
      return Value::Int(static_cast<int64_t>(number));
    }
    case Type::number_float:
      return Value::Float(json.get<double>());
    case Type::string: {
      const auto& text = json.get_ref<const std::string&>();
      if (!IsUtf8(text)) Fail("a string in the variables is not UTF-8");
      return String(text);
    }
    case Type::array: {
      Values items;
      items.reserve(json.size());
      for (const auto& item : json) items.push_back(FromJson(item, depth + 1));
      return List(std::move(items));
    }
    case Type::object: {
      Value dict = NewDict();
      auto& items = dict.as<DictObject>()->items;
      items.reserve(json.size());
      for (const auto& [key, value] : json.items()) {
        if (!IsUtf8(key)) Fail("a key in the variables is not UTF-8");
        items.emplace_back(String(key), FromJson(value, depth + 1));
      }
      Seal(dict);
      return dict;
    }
    case Type::binary:
      break;
  }
  Fail("the variables hold binary data, which a template cannot print");
}

std::string UndefinedMessage(const Value& undefined) {
  const auto& object = *undefined.as<UndefinedObject>();
  if (!object.hint.empty()) return object.hint;
  const std::string name = Repr(object.name);
  if (object.owner == nullptr) return StrCat(name, " is undefined");
  const std::string owner = object.owner == std::string_view("NoneType") ? "None" : StrCat(object.owner, " object");
  if (!object.name.is(Kind::kString)) return StrCat(owner, " has no element ", name);
  return StrCat("'", owner, "' has no attribute ", name);
}

void FailUndefined(const Value& undefined) { Fail(UndefinedMessage(undefined)); }

}  // namespace tercet::chat
