// The functions that every template sees.
#include <array>
#include <utility>

#include "common/template/arguments.h"
#include "common/template/callable.h"
#include "common/template/repr.h"
#include "common/template/strcat.h"
#include "common/template/strftime.h"

namespace tercet::chat {
namespace {

Value RangeFunction(Runtime& runtime, Arguments& arguments) {
  NoKeywords(arguments, "range");
  const Values& given = arguments.positional;
  if (given.empty() || given.size() > 3) Fail("range expected 1 to 3 arguments, got ", given.size());
  const int64_t first = RequireInt(given[0], "range");
  if (given.size() == 1) return runtime.Range(0, first, 1);
  return runtime.Range(first, RequireInt(given[1], "range"), given.size() == 3 ? RequireInt(given[2], "range") : 1);
}

// dict(mapping or pairs, name=value, …)
Value DictFunction(Runtime& runtime, Arguments& arguments) {
  if (arguments.positional.size() > 1) Fail("dict expected at most 1 argument, got ", arguments.positional.size());
  const Value result = runtime.NewDict();
  auto* dict = result.as<DictObject>();
  if (!arguments.positional.empty()) {
    const Value& source = arguments.positional[0];
    if (source.is(Kind::kDict)) {
      dict->items = source.as<DictObject>()->items;
    } else {
      for (const Value& item : Collect(runtime, source)) {
        const Values pair = Collect(runtime, item);
        if (pair.size() != 2) Fail("dictionary update sequence element has length ", pair.size(), "; 2 is required");
        RequireHashable(pair[0]);
        dict->Set(pair[0], pair[1]);
      }
    }
  }
  for (auto& [name, value] : arguments.keywords) dict->Set(runtime.String(name), value);
  runtime.Seal(result);
  return result;
}

Value NamespaceFunction(Runtime& runtime, Arguments& arguments) {
  const Value attributes = DictFunction(runtime, arguments);
  auto* space = runtime.Make<NamespaceObject>();
  const Value result(Kind::kNamespace, space);
  runtime.Register(result);
  for (const auto& [name, value] : attributes.as<DictObject>()->items) {
    // Attributes are reached by name only.
    if (name.is(Kind::kString)) space->attributes.emplace_back(name.text(), value);
  }
  return result;
}

Value CyclerFunction(Runtime& runtime, Arguments& arguments) {
  NoKeywords(arguments, "cycler");
  if (arguments.positional.empty()) Fail("at least one item has to be provided");
  const Value items = runtime.Tuple(arguments.positional);
  auto* cycler = runtime.Make<CyclerObject>(0, Runtime::Held().Add(items));
  cycler->items = arguments.positional;
  return Value(Kind::kCycler, cycler);
}

Value JoinerFunction(Runtime& runtime, Arguments& arguments) {
  auto [separator] = Bind<1>(arguments, "joiner", {"sep"}, 0);
  const Value text = separator.missing() ? runtime.String(", ") : separator;
  auto* joiner = runtime.Make<JoinerObject>(0, Runtime::Held().Add(text));
  joiner->separator = text;
  return Value(Kind::kJoiner, joiner);
}

Value RaiseException(Runtime&, Arguments& arguments) {
  auto [message] = Bind<1>(arguments, "raise_exception", {"message"}, 1);
  Fail("the template refuses: ", Str(message));
}

Value StrftimeNow(Runtime& runtime, Arguments& arguments) {
  auto [format] = Bind<1>(arguments, "strftime_now", {"format"}, 1);
  return runtime.String(FormatTime(runtime.Now(), RequireString(format, "strftime_now: the format")));
}

}  // namespace

Value FindGlobal(std::string_view name) {
  using Functions = std::array<FunctionObject, 7>;
  static auto& functions = *new Functions{{
      {"range", RangeFunction},
      {"dict", DictFunction},
      {"namespace", NamespaceFunction},
      {"cycler", CyclerFunction},
      {"joiner", JoinerFunction},
      {"raise_exception", RaiseException},
      {"strftime_now", StrftimeNow},
  }};
  for (FunctionObject& function : functions) {
    if (function.name == name) return Value(Kind::kFunction, &function);
  }
  return Value();
}

}  // namespace tercet::chat
