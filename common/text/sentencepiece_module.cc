// The SentencePiece library as a module with a C interface, loaded by sentencepiece.cc.
//
// Debian's libsentencepiece carries an older Protocol Buffers of its own and exports it. Linked into a process that also uses
// libprotobuf, the two would be mixed up at load time. As a module that is loaded with its symbols bound to itself first
// (RTLD_DEEPBIND) and hidden from all others (RTLD_LOCAL), it keeps to its own.
#include <sentencepiece_processor.h>

#include <cstring>
#include <string>
#include <vector>

namespace {

char* CopyOf(const std::string& text) { return strdup(text.c_str()); }

}  // namespace

extern "C" {

// A processor, or null with *problem set (to be freed with free).
void* TercetSentencePieceLoad(const char* model, size_t bytes, char** problem) {
  auto* processor = new sentencepiece::SentencePieceProcessor;
  auto status = processor->LoadFromSerializedProto(absl::string_view(model, bytes));
  if (status.ok()) return processor;
  *problem = CopyOf(status.ToString());
  delete processor;
  return nullptr;
}

void TercetSentencePieceFree(void* processor) { delete static_cast<sentencepiece::SentencePieceProcessor*>(processor); }

// Calls take(context, ids, count) with the ids of the text. Returns null, or what went wrong (to be freed with free).
char* TercetSentencePieceEncode(const void* processor, const char* text, size_t bytes,
                                void (*take)(void* context, const int* ids, size_t count), void* context) {
  std::vector<int> ids;
  auto status = static_cast<const sentencepiece::SentencePieceProcessor*>(processor)->Encode(
      absl::string_view(text, bytes), &ids);
  if (!status.ok()) return CopyOf(status.ToString());
  take(context, ids.data(), ids.size());
  return nullptr;
}

}  // extern "C"
