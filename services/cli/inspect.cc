// tercet inspect: what is in a model file, and what it takes to serve it.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "absl/strings/escaping.h"
#include "common/gguf/file.h"
#include "services/cli/command.h"
#include "services/cli/terminal.h"

namespace tercet::cli {
namespace {

using gguf::File;
using gguf::InfoOf;
using gguf::Value;
using gguf::ValueType;
using nlohmann::ordered_json;

struct InspectFlags {
  std::string model;
  bool json = false;
  bool all = false;
};

// Bytes to hold the weights, and the keys and values of one token (16-bit floats, all layers).
struct MemoryNeed {
  uint64_t weights = 0;
  std::optional<uint64_t> kv_per_token;
  std::optional<uint64_t> context_length;
};

// A number that may be given per layer: then the sum over layers, else the number times `layers`.
std::optional<uint64_t> SumOverLayers(const File& file, const std::string& key, uint64_t layers) {
  if (auto one = file.Uint(key); one.ok()) return *one * layers;
  auto each = file.Ints(key);
  if (!each.ok()) return std::nullopt;
  uint64_t sum = 0;
  for (int64_t value : *each) sum += value > 0 ? static_cast<uint64_t>(value) : 0;
  return sum;
}

MemoryNeed NeedOf(const File& file) {
  MemoryNeed need;
  for (const gguf::Tensor& tensor : file.tensors()) need.weights += tensor.data.size();
  const std::string arch = file.String("general.architecture").value_or("");
  const auto number = [&](const char* name) { return file.Uint(arch + "." + name); };
  if (auto context = number("context_length"); context.ok()) need.context_length = *context;
  const auto layers = number("block_count");
  const auto heads = number("attention.head_count");
  const auto width = number("embedding_length");
  if (!layers.ok() || !heads.ok() || !width.ok() || *heads == 0 || *layers > 100000) return need;
  const uint64_t key_length = number("attention.key_length").value_or(*width / *heads);
  const uint64_t value_length = number("attention.value_length").value_or(*width / *heads);
  const auto kv_heads = SumOverLayers(file, arch + ".attention.head_count_kv", *layers);
  need.kv_per_token = kv_heads.value_or(*heads * *layers) * (key_length + value_length) * 2;
  return need;
}

ordered_json Scalar(const Value& value, uint64_t index) {
  const ValueType type = value.element_type();
  if (type == ValueType::kBool) return value.AsBool(index);
  if (type == ValueType::kUint64) return value.AsUnsigned(index);
  if (gguf::IsInteger(type)) return value.AsSigned(index);
  const double number = value.AsDouble(index);
  if (std::isfinite(number)) return number;
  return fmt::format("{}", number);
}

// A value as JSON; arrays longer than `most` are told by type and length.
ordered_json ToJson(const Value& value, uint64_t most) {
  if (value.element_type() == ValueType::kString && !value.is_array()) return std::string(value.AsString());
  if (!value.is_array()) return Scalar(value, 0);
  if (value.count() > most) return value.TypeName();
  ordered_json list = ordered_json::array();
  if (value.element_type() == ValueType::kString) {
    for (std::string_view text : value.AsStrings()) list.push_back(std::string(text));
  } else {
    for (uint64_t i = 0; i < value.count(); ++i) list.push_back(Scalar(value, i));
  }
  return list;
}

std::string Dump(const ordered_json& value, int indent) {
  return value.dump(indent, ' ', false, ordered_json::error_handler_t::replace);
}

struct FormatUse {
  uint64_t tensors = 0;
  uint64_t bytes = 0;
};

std::map<std::string, FormatUse> FormatsOf(const File& file) {
  std::map<std::string, FormatUse> formats;
  for (const gguf::Tensor& tensor : file.tensors()) {
    FormatUse& use = formats[std::string(InfoOf(tensor.type).name)];
    ++use.tensors;
    use.bytes += tensor.data.size();
  }
  return formats;
}

uint64_t Parameters(const File& file) {
  uint64_t sum = 0;
  for (const gguf::Tensor& tensor : file.tensors()) sum += tensor.elements();
  return sum;
}

void PrintJson(const InspectFlags& flags, const File& file, const MemoryNeed& need) {
  ordered_json out = {{"file", flags.model},
                      {"file_bytes", file.size_bytes()},
                      {"gguf_version", file.version()},
                      {"parameters", Parameters(file)}};
  for (const auto& [name, use] : FormatsOf(file))
    out["formats"][name] = {{"tensors", use.tensors}, {"bytes", use.bytes}};
  out["memory"]["weights_bytes"] = need.weights;
  if (need.kv_per_token) out["memory"]["kv_bytes_per_token"] = *need.kv_per_token;
  if (need.context_length) out["memory"]["context_length"] = *need.context_length;
  out["metadata"] = ordered_json::object();
  for (const auto& [key, value] : file.metadata()) out["metadata"][key] = ToJson(value, flags.all ? ~uint64_t{0} : 64);
  out["tensors"] = ordered_json::array();
  for (const gguf::Tensor& tensor : file.tensors()) {
    out["tensors"].push_back({{"name", tensor.name},
                              {"type", InfoOf(tensor.type).name},
                              {"dimensions", tensor.dimensions},
                              {"bytes", tensor.data.size()}});
  }
  Result("{}\n", Dump(out, 2));
}

void PrintText(const InspectFlags& flags, const File& file, const MemoryNeed& need) {
  Result("{}\n  GGUF version {}, {}, {:.1f} million parameters in {} tensors\n\n", flags.model, file.version(),
         Bytes(file.size_bytes()), static_cast<double>(Parameters(file)) / 1e6, file.tensors().size());
  Result("Memory\n  weights            {}\n", Bytes(need.weights));
  if (need.kv_per_token) {
    Result("  keys and values    {} a token", Bytes(*need.kv_per_token));
    if (need.context_length) {
      Result("; {} for the full context of {} tokens", Bytes(*need.kv_per_token * *need.context_length),
             *need.context_length);
    }
    Result("\n");
  }
  Result("\nFormats\n");
  for (const auto& [name, use] : FormatsOf(file))
    Result("  {:<8} {:>5} tensors  {:>10}\n", name, use.tensors, Bytes(use.bytes));
  Result("\nMetadata\n");
  for (const auto& [key, value] : file.metadata()) {
    std::string shown = Dump(ToJson(value, flags.all ? ~uint64_t{0} : 8), -1);
    constexpr size_t kLongest = 100;
    if (!flags.all && shown.size() > kLongest) {
      size_t cut = kLongest;
      while (cut > 0 && (static_cast<unsigned char>(shown[cut]) & 0xC0) == 0x80) --cut;  // not inside a character
      shown = fmt::format("{}… ({} bytes)", shown.substr(0, cut), shown.size());
    }
    Result("  {:<44} {}\n", absl::CHexEscape(key), shown);
  }
  Result("\nTensors\n");
  for (const gguf::Tensor& tensor : file.tensors()) {
    std::string shape;
    for (uint64_t dimension : tensor.dimensions) shape += (shape.empty() ? "" : " × ") + std::to_string(dimension);
    Result("  {:<44} {:<6} {:>10}  {}\n", absl::CHexEscape(tensor.name), InfoOf(tensor.type).name,
           Bytes(tensor.data.size()), shape);
  }
}

int Inspect(const InspectFlags& flags) {
  auto file = File::Open(flags.model);
  if (!file.ok()) return Fail(file.status());
  const MemoryNeed need = NeedOf(**file);
  flags.json ? PrintJson(flags, **file, need) : PrintText(flags, **file, need);
  return kSuccess;
}

}  // namespace

Action DefineInspect(CLI::App& app) {
  auto flags = std::make_shared<InspectFlags>();
  app.add_option("model", flags->model, "GGUF model file")->required();
  app.add_flag("--json", flags->json, "One JSON object");
  app.add_flag("--all", flags->all, "Show long values in full");
  return [flags] { return Inspect(*flags); };
}

}  // namespace tercet::cli
