// A tokenizer and a scheduler that live in the test's process and do what the test says.
//
// The vocabulary: ids 0 … 255 are the bytes; kBos and kEnd are control tokens, kEnd ends a generation; further pieces are
// words in kWords. Text is encoded byte by byte. A generation is a function of the request alone (prompt, seed, position),
// as the real system promises, so a resumed stream goes on as the broken one would have.
#pragma once

#include <absl/time/time.h>

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "common/rpc/server.h"
#include "services/gateway/backends.h"
#include "services/gateway/http/server.h"
#include "services/gateway/service.h"
#include "services/gateway/vocabulary.h"
#include "tercet/v1/scheduler.grpc.pb.h"
#include "tercet/v1/tokenizer.grpc.pb.h"

namespace tercet::gateway {

inline constexpr uint32_t kBos = 256;
inline constexpr uint32_t kEnd = 257;
inline constexpr uint32_t kFirstWord = 258;
extern const std::vector<std::string> kWords;
uint32_t WordId(const std::string& word);
std::vector<uint32_t> Bytes(const std::string& text);

// The same vocabulary without a service.
std::shared_ptr<const Vocabulary> TestVocabulary(bool strip_leading_space = false, uint32_t context_length = 4096);

class FakeTokenizer final : public v1::Tokenizer::Service {
 public:
  grpc::Status Encode(grpc::ServerContext*, const v1::EncodeRequest* request, v1::EncodeReply* reply) override;
  grpc::Status RenderChat(grpc::ServerContext*, const v1::RenderChatRequest* request, v1::RenderChatReply* reply) override;
  grpc::Status DescribeVocabulary(grpc::ServerContext*, const v1::DescribeVocabularyRequest*,
                                  grpc::ServerWriter<v1::DescribeVocabularyReply>* writer) override;

  std::atomic<bool> has_template{true};
  std::atomic<bool> adds_bos{true};
  std::atomic<int> vocabulary_calls{0};
  // The tokenizer got another model, whose pieces are the same.
  void ChangeFingerprint() { generation.fetch_add(1); }
  std::string fingerprint() const;
  std::string last_messages() const;

 private:
  std::atomic<int> generation{0};
  mutable std::mutex mutex_;
  std::string last_messages_;
};

class FakeScheduler final : public v1::Scheduler::Service {
 public:
  struct Script {
    // All ids of a sequence that is not cut short by max_new_tokens or by its end.
    std::function<std::vector<uint32_t>(const v1::GenerateRequest&)> ids;
    int tokens_per_message = 1;
    absl::Duration pause;              // before each message
    // Called before Started (sent = -1) and before each message with the number of tokens sent in this call; a status that
    // is not OK breaks the stream. `call` counts calls of the whole test.
    std::function<grpc::Status(int call, int sent)> fault;
    bool wait_before_start = false;    // do nothing until cancelled
    bool wait_before_tokens = false;   // begin, then do nothing until cancelled
    int retry_after_ms = -1;           // trailer of a fault
    uint32_t cached_tokens = 0;
  };

  grpc::Status Generate(grpc::ServerContext* context, const v1::GenerateRequest* request,
                        grpc::ServerWriter<v1::GenerateEvent>* writer) override;
  grpc::Status Watch(grpc::ServerContext* context, const v1::WatchRequest* request,
                     grpc::ServerWriter<v1::SchedulerState>* writer) override;

  void SetScript(Script script);
  // Every sequence produces this.
  void Say(std::vector<uint32_t> ids, int tokens_per_message = 1);

  std::vector<v1::GenerateRequest> requests() const;
  int running() const { return running_.load(); }
  int cancelled() const { return cancelled_.load(); }
  std::atomic<bool> admitted{true};
  std::atomic<bool> draining{false};
  std::atomic<bool> stop{false};

  static float LogprobOf(uint32_t position, uint32_t id);

 private:
  grpc::Status Run(grpc::ServerContext* context, const v1::GenerateRequest& request,
                   grpc::ServerWriter<v1::GenerateEvent>* writer, const Script& script, int call);
  bool WaitForCancel(grpc::ServerContext* context);

  mutable std::mutex mutex_;
  Script script_;
  std::vector<v1::GenerateRequest> requests_;
  std::atomic<int> running_{0};
  std::atomic<int> cancelled_{0};
};

// A whole gateway in front of the fakes.
class TestGateway {
 public:
  explicit TestGateway(Limits limits = {}, absl::Duration resume_window = absl::Seconds(5));
  ~TestGateway();

  const std::string& address() const { return http->address(); }
  // Stops and starts the scheduler's server, as a crash and a restart would.
  void StopScheduler();
  void StartScheduler();
  void StopTokenizer();

  FakeTokenizer tokenizer;
  FakeScheduler scheduler;
  std::shared_ptr<Backends> backends;
  std::unique_ptr<Service> service;
  std::unique_ptr<HttpServer> http;

 private:
  std::unique_ptr<rpc::Server> tokenizer_server_;
  std::unique_ptr<rpc::Server> scheduler_server_;
  std::string scheduler_address_;
};

// Waits until `condition` holds; false after ten seconds.
bool Eventually(const std::function<bool()>& condition);

}  // namespace tercet::gateway
