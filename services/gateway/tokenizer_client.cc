#include "services/gateway/tokenizer_client.h"

#include <absl/strings/str_cat.h>
#include <absl/time/clock.h>
#include <grpcpp/client_context.h>

#include <algorithm>
#include <functional>
#include <mutex>
#include <utility>

#include "common/rpc/status.h"
#include "services/gateway/http/api_error.h"
#include "tercet/v1/tokenizer.grpc.pb.h"

namespace tercet::gateway {
namespace {

// How long a request waits for a tokenizer that cannot be reached. A restart takes longer, a lost connection does not.
constexpr absl::Duration kRetryWindow = absl::Milliseconds(700);
constexpr absl::Duration kRetryPause = absl::Milliseconds(50);
// Between attempts to get the vocabulary of a tokenizer that is still starting.
constexpr absl::Duration kVocabularyPause = absl::Milliseconds(100);
constexpr absl::Duration kCallDeadline = absl::Seconds(60);

// The tokenizer's refusals in the words of HTTP.
absl::Status Explain(const grpc::Status& status) {
  absl::Status error = rpc::FromGrpc(status);
  switch (error.code()) {
    case absl::StatusCode::kUnavailable:
      return WithCode(absl::UnavailableError("the tokenizer service cannot be reached; try again later"),
                      "tokenizer_unavailable");
    case absl::StatusCode::kResourceExhausted:
      return WithHttpStatus(absl::ResourceExhaustedError("the text is longer than the tokenizer accepts"), 413);
    default:
      return error;
  }
}

// One unary call, tried again while the service is out of reach.
template <typename Request, typename Reply>
class RetriedCall final : public Call, public std::enable_shared_from_this<RetriedCall<Request, Reply>> {
 public:
  using Start = std::function<void(grpc::ClientContext*, const Request*, Reply*, std::function<void(grpc::Status)>)>;
  using Done = absl::AnyInvocable<void(absl::StatusOr<Reply>)>;

  RetriedCall(CallContext context, std::shared_ptr<Strand> strand, Request request, Start start, Done done)
      : context_(std::move(context)),
        strand_(std::move(strand)),
        request_(std::move(request)),
        start_(std::move(start)),
        done_(std::move(done)),
        give_up_(absl::Now() + kRetryWindow) {}

  void Try() {
    auto client = std::make_shared<grpc::ClientContext>();
    client->set_deadline(absl::ToChronoTime(std::min(context_.deadline, absl::Now() + kCallDeadline)));
    client->AddMetadata("x-request-id", context_.request_id);
    if (!context_.traceparent.empty()) client->AddMetadata("traceparent", context_.traceparent);
    {
      std::lock_guard lock(mutex_);
      if (cancelled_) return;
      client_ = client;
    }
    auto reply = std::make_shared<Reply>();
    start_(client.get(), &request_, reply.get(), [self = this->shared_from_this(), client, reply](grpc::Status status) {
      self->strand_->Post([self, reply, status] { self->Finish(status, std::move(*reply)); });
    });
  }

  void Cancel() override {
    std::lock_guard lock(mutex_);
    cancelled_ = true;
    if (client_ != nullptr) client_->TryCancel();
  }

 private:
  void Finish(const grpc::Status& status, Reply reply) {
    if (status.error_code() == grpc::StatusCode::UNAVAILABLE && absl::Now() + kRetryPause < give_up_) {
      strand_->PostAfter(kRetryPause, [self = this->shared_from_this()] { self->Try(); });
      return;
    }
    auto done = std::exchange(done_, nullptr);
    if (status.ok()) {
      done(std::move(reply));
    } else {
      done(Explain(status));
    }
  }

  CallContext context_;
  std::shared_ptr<Strand> strand_;
  Request request_;
  Start start_;
  Done done_;
  absl::Time give_up_;

  std::mutex mutex_;  // guards the two below
  std::shared_ptr<grpc::ClientContext> client_;
  bool cancelled_ = false;
};

using VocabularyOr = absl::StatusOr<std::shared_ptr<const Vocabulary>>;

// Reads the stream of DescribeVocabulary; deletes itself at the end.
class VocabularyReader final : public grpc::ClientReadReactor<v1::DescribeVocabularyReply> {
 public:
  VocabularyReader(v1::Tokenizer::Stub* stub, absl::AnyInvocable<void(VocabularyOr)> done) : done_(std::move(done)) {
    context_.set_deadline(absl::ToChronoTime(absl::Now() + kCallDeadline));
    stub->async()->DescribeVocabulary(&context_, &request_, this);
    StartRead(&reply_);
    StartCall();
  }

  void OnReadDone(bool ok) override {
    if (!ok) return;
    if (status_.ok()) status_ = Take();
    if (!status_.ok()) context_.TryCancel();
    StartRead(&reply_);
  }

  void OnDone(const grpc::Status& status) override {
    if (status_.ok() && !status.ok()) status_ = Explain(status);
    if (status_.ok() && builder_ == nullptr) status_ = absl::InternalError("the tokenizer sent no vocabulary");
    done_(status_.ok() ? builder_->Build() : VocabularyOr(status_));
    delete this;
  }

 private:
  absl::Status Take() {
    if (reply_.has_header()) {
      const v1::VocabularyHeader& header = reply_.header();
      builder_ = std::make_unique<Vocabulary::Builder>(Vocabulary::Header{
          .fingerprint = header.fingerprint(),
          .size = header.size(),
          .has_chat_template = header.has_chat_template(),
          .model_name = header.model_name(),
          .context_length = header.context_length(),
          .strip_leading_space = header.strip_leading_space(),
          .end_of_generation_ids = {header.end_of_generation_ids().begin(), header.end_of_generation_ids().end()}});
      return absl::OkStatus();
    }
    if (builder_ == nullptr) return absl::InternalError("the tokenizer sent pieces of a vocabulary before its header");
    uint32_t id = reply_.pieces().first_id();
    for (const v1::VocabularyPiece& piece : reply_.pieces().pieces()) {
      if (absl::Status added = builder_->Add(id++, piece.bytes(), piece.control()); !added.ok()) return added;
    }
    return absl::OkStatus();
  }

  grpc::ClientContext context_;
  v1::DescribeVocabularyRequest request_;
  v1::DescribeVocabularyReply reply_;
  std::unique_ptr<Vocabulary::Builder> builder_;
  absl::Status status_;
  absl::AnyInvocable<void(VocabularyOr)> done_;
};

class Implementation final : public TokenizerClient, public std::enable_shared_from_this<Implementation> {
 public:
  explicit Implementation(std::shared_ptr<grpc::Channel> channel)
      : channel_(std::move(channel)), stub_(v1::Tokenizer::NewStub(channel_)) {}

  std::shared_ptr<Call> Encode(const CallContext& context, std::shared_ptr<Strand> strand, std::string text,
                               bool add_special, bool parse_special, OnEncoded done) override {
    v1::EncodeRequest request;
    request.set_text(std::move(text));
    request.set_add_special(add_special);
    request.set_parse_special(parse_special);
    return Ask<v1::EncodeRequest, v1::EncodeReply>(
        context, std::move(strand), std::move(request),
        [self = shared_from_this()](auto* client, auto* request, auto* reply, auto callback) {
          self->stub_->async()->Encode(client, request, reply, std::move(callback));
        },
        std::move(done));
  }

  std::shared_ptr<Call> RenderChat(const CallContext& context, std::shared_ptr<Strand> strand, std::string messages_json,
                                   bool add_generation_prompt, OnEncoded done) override {
    v1::RenderChatRequest request;
    request.set_messages_json(std::move(messages_json));
    request.set_add_generation_prompt(add_generation_prompt);
    return Ask<v1::RenderChatRequest, v1::RenderChatReply>(
        context, std::move(strand), std::move(request),
        [self = shared_from_this()](auto* client, auto* request, auto* reply, auto callback) {
          self->stub_->async()->RenderChat(client, request, reply, std::move(callback));
        },
        std::move(done));
  }

  void GetVocabulary(std::shared_ptr<Strand> strand, OnVocabulary done) override {
    GetVocabularyOf("", std::move(strand), std::move(done));
  }

  std::shared_ptr<const Vocabulary> CurrentVocabulary() const override {
    std::lock_guard lock(mutex_);
    return vocabulary_;
  }

  void KeepVocabulary(std::shared_ptr<Strand> strand) override {
    GetVocabulary(strand, [self = shared_from_this(), strand](const VocabularyOr& vocabulary) {
      if (!vocabulary.ok()) strand->PostAfter(kVocabularyPause, [self, strand] { self->KeepVocabulary(strand); });
    });
  }

  bool Ready() override {
    grpc_connectivity_state state = channel_->GetState(/*try_to_connect=*/true);
    // A channel without calls falls asleep and wakes with the next one.
    return CurrentVocabulary() != nullptr && (state == GRPC_CHANNEL_READY || state == GRPC_CHANNEL_IDLE);
  }

 private:
  template <typename Request, typename Reply, typename Start>
  std::shared_ptr<Call> Ask(const CallContext& context, std::shared_ptr<Strand> strand, Request request, Start start,
                            OnEncoded done) {
    auto finish = [self = shared_from_this(), strand, done = std::move(done)](absl::StatusOr<Reply> reply) mutable {
      if (!reply.ok()) return done(reply.status());
      EncodedText encoded{{reply->token_ids().begin(), reply->token_ids().end()}, nullptr};
      self->GetVocabularyOf(reply->vocabulary_fingerprint(), strand,
                            [encoded = std::move(encoded), done = std::move(done)](VocabularyOr vocabulary) mutable {
                              if (!vocabulary.ok()) return done(vocabulary.status());
                              encoded.vocabulary = *std::move(vocabulary);
                              done(std::move(encoded));
                            });
    };
    auto call = std::make_shared<RetriedCall<Request, Reply>>(context, std::move(strand), std::move(request),
                                                              std::move(start), std::move(finish));
    call->Try();
    return call;
  }

  // `fingerprint` "" asks for whichever there is. A fingerprint that is not ours means that the tokenizer has another model
  // now: its vocabulary is fetched anew, once for all who wait.
  void GetVocabularyOf(const std::string& fingerprint, std::shared_ptr<Strand> strand, OnVocabulary done) {
    bool fetch = false;
    {
      std::lock_guard lock(mutex_);
      bool fits = vocabulary_ != nullptr && (fingerprint.empty() || vocabulary_->header().fingerprint == fingerprint);
      if (fits) {
        strand->Post([vocabulary = vocabulary_, done = std::move(done)]() mutable { done(std::move(vocabulary)); });
        return;
      }
      fetch = waiting_.empty();
      waiting_.push_back({fingerprint, std::move(strand), std::move(done)});
    }
    if (fetch) {
      new VocabularyReader(stub_.get(),
                           [self = shared_from_this()](VocabularyOr result) { self->OnFetched(std::move(result)); });
    }
  }

  void OnFetched(VocabularyOr result) {
    std::vector<Waiter> waiting;
    {
      std::lock_guard lock(mutex_);
      if (result.ok()) vocabulary_ = *result;
      waiting.swap(waiting_);
    }
    for (Waiter& waiter : waiting) {
      VocabularyOr answer = result;
      if (answer.ok() && !waiter.fingerprint.empty() && (*answer)->header().fingerprint != waiter.fingerprint) {
        answer = absl::UnavailableError("the tokenizer's model changed while this request was being read; try again");
      }
      waiter.strand->Post(
          [answer = std::move(answer), done = std::move(waiter.done)]() mutable { done(std::move(answer)); });
    }
  }

  struct Waiter {
    std::string fingerprint;
    std::shared_ptr<Strand> strand;
    OnVocabulary done;
  };

  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::Tokenizer::Stub> stub_;

  mutable std::mutex mutex_;  // guards the two below
  std::shared_ptr<const Vocabulary> vocabulary_;
  std::vector<Waiter> waiting_;  // not empty: a fetch is running
};

}  // namespace

std::shared_ptr<TokenizerClient> TokenizerClient::Create(std::shared_ptr<grpc::Channel> channel) {
  return std::make_shared<Implementation>(std::move(channel));
}

}  // namespace tercet::gateway
