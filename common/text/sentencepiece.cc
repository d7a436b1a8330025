#include "common/text/sentencepiece.h"

#include <absl/status/statusor.h>
#include <absl/strings/str_cat.h>
#include <dlfcn.h>
#include <unistd.h>

#include <climits>
#include <cstdlib>

namespace tercet::text {
namespace {

struct Module {
  void* (*load)(const char* model, size_t bytes, char** problem);
  void (*free)(void* processor);
  char* (*encode)(const void* processor, const char* text, size_t bytes,
                  void (*take)(void* context, const int* ids, size_t count), void* context);
};

std::string FolderOfProgram() {
  char path[PATH_MAX];
  ssize_t length = readlink("/proc/self/exe", path, sizeof(path));
  std::string program(path, length > 0 ? static_cast<size_t>(length) : 0);
  return program.substr(0, program.rfind('/'));
}

absl::StatusOr<Module> OpenModule() {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return absl::FailedPreconditionError("SentencePiece vocabularies do not load in sanitizer builds: they cannot bind a module to itself");
#endif
  std::string folder = FolderOfProgram(), problem;
  // Beside the program, or where an installation or a build tree keeps it.
  for (const char* place : {"", "/../bin", "/../lib/tercet"}) {
    std::string path = absl::StrCat(folder, place, "/tercet_sentencepiece.so");
    if (access(path.c_str(), R_OK) != 0) continue;
    void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
    if (handle == nullptr) {
      problem = dlerror();
      continue;
    }
    Module module;
    module.load = reinterpret_cast<decltype(module.load)>(dlsym(handle, "TercetSentencePieceLoad"));
    module.free = reinterpret_cast<decltype(module.free)>(dlsym(handle, "TercetSentencePieceFree"));
    module.encode = reinterpret_cast<decltype(module.encode)>(dlsym(handle, "TercetSentencePieceEncode"));
    if (module.load != nullptr && module.free != nullptr && module.encode != nullptr) return module;
    problem = absl::StrCat(path, " is of another version");
  }
  return absl::FailedPreconditionError(
      absl::StrCat("cannot load tercet_sentencepiece.so, which belongs beside the program in ", folder,
                   problem.empty() ? "" : ": ", problem));
}

const absl::StatusOr<Module>& TheModule() {
  static const auto* module = new absl::StatusOr<Module>(OpenModule());
  return *module;
}

std::string Take(char* text) {
  std::string copy = text;
  std::free(text);
  return copy;
}

}  // namespace

SentencePieceEncoder::~SentencePieceEncoder() {
  if (processor_ != nullptr) TheModule()->free(processor_);
}

absl::Status SentencePieceEncoder::Load(const std::string& model) {
  const absl::StatusOr<Module>& module = TheModule();
  if (!module.ok()) return module.status();
  char* problem = nullptr;
  processor_ = module->load(model.data(), model.size(), &problem);
  if (processor_ != nullptr) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("the SentencePiece vocabulary is not usable: ", Take(problem)));
}

absl::Status SentencePieceEncoder::Encode(std::string_view text, std::vector<uint32_t>* ids) const {
  auto append = [](void* context, const int* encoded, size_t count) {
    auto* target = static_cast<std::vector<uint32_t>*>(context);
    target->insert(target->end(), encoded, encoded + count);
  };
  char* problem = TheModule()->encode(processor_, text.data(), text.size(), append, ids);
  return problem == nullptr ? absl::OkStatus() : absl::InternalError(absl::StrCat("SentencePiece: ", Take(problem)));
}

}  // namespace tercet::text
