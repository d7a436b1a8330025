#include "services/executor/service.h"

#include <gmock/gmock.h>
#include <grpcpp/client_context.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <functional>
#include <future>
#include <thread>

#include "common/rpc/channel.h"
#include "common/rpc/server.h"
#include "services/executor/engine.h"
#include "tests/services/executor/tiny_parts.h"

namespace tercet::executor {
namespace {

using testing::HasSubstr;

constexpr char kFingerprint[] = "0123456789abcdef";

v1::OpenSequence Request(uint64_t handle, int prompt = 20, int new_tokens = 12) {
  v1::OpenSequence open;
  open.set_handle(handle);
  for (int i = 0; i < prompt; ++i) open.add_token_ids((i * 7 + 3) % 90);
  open.set_prompt_length(prompt);
  open.mutable_sampling()->set_temperature(.9f);
  open.mutable_sampling()->set_seed(5);
  open.mutable_stop()->set_max_new_tokens(new_tokens);
  return open;
}

v1::Plan PlanFor(uint64_t id, const v1::OpenSequence& open, uint32_t free_steps) {
  v1::Plan plan;
  plan.set_plan_id(id);
  *plan.add_open() = open;
  plan.add_rows()->set_handle(open.handle());
  plan.mutable_rows(0)->set_prefill_tokens(64);
  plan.set_free_steps(free_steps);
  return plan;
}

// A client of Attach.
class Owner {
 public:
  Owner(v1::Executor::Stub& stub, uint64_t epoch, const std::string& fingerprint = kFingerprint) {
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
    stream = stub.Attach(&context);
    v1::AttachRequest request;
    request.mutable_hello()->set_lease_epoch(epoch);
    request.mutable_hello()->set_owner("test");
    request.mutable_hello()->set_vocabulary_fingerprint(fingerprint);
    stream->Write(request);
    v1::AttachReply reply;
    if (stream->Read(&reply) && reply.has_welcome()) welcome = reply.welcome();
  }

  bool welcomed() const { return welcome.has_value(); }
  bool Send(const v1::Plan& plan) {
    v1::AttachRequest request;
    *request.mutable_plan() = plan;
    return stream->Write(request);
  }
  // Reads until a plan is used up; all tokens that came.
  std::vector<uint32_t> ReadUntilIdle() {
    std::vector<uint32_t> ids;
    v1::AttachReply reply;
    while (stream->Read(&reply)) {
      for (const v1::RowResult& row : reply.results().rows()) {
        ids.insert(ids.end(), row.token_ids().begin(), row.token_ids().end());
        if (row.finish_reason() != v1::FINISH_REASON_UNSPECIFIED) finish = row.finish_reason();
        if (row.error_code() != 0) error_code = row.error_code();
      }
      last = reply.results();
      if (reply.results().idle()) return ids;
    }
    ADD_FAILURE() << "the stream ended";
    return ids;
  }
  grpc::Status End() {
    v1::AttachReply reply;
    while (stream->Read(&reply)) {
    }
    return stream->Finish();
  }

  grpc::ClientContext context;
  std::unique_ptr<grpc::ClientReaderWriter<v1::AttachRequest, v1::AttachReply>> stream;
  std::optional<v1::Welcome> welcome;
  v1::StepResults last;
  v1::FinishReason finish = v1::FINISH_REASON_UNSPECIFIED;
  int error_code = 0;
};

class ServiceTest : public testing::Test {
 protected:
  ServiceTest() : parts_({.pages = 64}), service_({.drain_ms = 200, .on_drain = [this] { drained_ = true; }}) {
    char directory[] = "/tmp/tercet-executor-test-XXXXXX";
    directory_ = mkdtemp(directory);
    auto server = rpc::Server::Start({.address = "unix:" + directory_ + "/s", .services = {&service_}});
    EXPECT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    stub_ = v1::Executor::NewStub(rpc::MakeChannel(server_->address()));
  }
  ~ServiceTest() override {
    server_->Shutdown(absl::ZeroDuration());
    unlink((directory_ + "/s").c_str());
    rmdir(directory_.c_str());
  }

  void BecomeReady() {
    const PlanLimits limits{.vocabulary_size = parts_.vocabulary(), .context_length = 512, .max_rows = 64, .max_sequences = 8};
    engine_ = std::make_unique<Engine>(EngineOptions{.limits = limits}, parts_.forward(), parts_.pool(), parts_.team(),
                                       nullptr);
    v1::ExecutorDescription description;
    description.set_vocabulary_fingerprint(kFingerprint);
    description.set_context_length(512);
    service_.SetReady(engine_.get(), description, limits);
  }

  grpc::Status Describe(v1::ExecutorDescription* description) {
    grpc::ClientContext context;
    return stub_->Describe(&context, {}, description);
  }
  grpc::Status Drain(uint32_t timeout_ms) {
    grpc::ClientContext context;
    v1::DrainExecutorRequest request;
    request.set_timeout_ms(timeout_ms);
    v1::DrainExecutorReply reply;
    return stub_->Drain(&context, request, &reply);
  }
  static bool Eventually(const std::function<bool()>& condition) {
    for (int i = 0; i < 5000; ++i) {
      if (condition()) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return false;
  }
  // Every page is free or cached, and nobody owns the executor.
  void ExpectNothingHeld() {
    EXPECT_TRUE(Eventually([&] {
      v1::ExecutorDescription description;
      return engine_->open_sequences() == 0 && engine_->free_pages() + engine_->cached_pages() == 64 &&
             Describe(&description).ok() && description.lease_epoch() == 0;
    }));
  }

  TinyParts parts_;
  std::unique_ptr<Engine> engine_;
  std::atomic<bool> drained_{false};
  ExecutorService service_;
  std::string directory_;
  std::unique_ptr<rpc::Server> server_;
  std::unique_ptr<v1::Executor::Stub> stub_;
};

TEST_F(ServiceTest, BeforeTheModelIsLoadedCallsAreUnavailableAndSayHowFarItIs) {
  service_.SetLoadProgress(42);
  v1::ExecutorDescription description;
  grpc::Status status = Describe(&description);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_THAT(status.error_message(), HasSubstr("42 %"));
  Owner owner(*stub_, 1);
  EXPECT_FALSE(owner.welcomed());
  EXPECT_EQ(owner.End().error_code(), grpc::StatusCode::UNAVAILABLE);
}

TEST_F(ServiceTest, AnOwnerIsWelcomedAndItsPlansAreComputed) {
  BecomeReady();
  Owner owner(*stub_, 7);
  ASSERT_TRUE(owner.welcomed());
  EXPECT_EQ(owner.welcome->lease_epoch(), 7u);
  EXPECT_EQ(owner.welcome->description().context_length(), 512u);
  EXPECT_EQ(owner.welcome->description().lease_epoch(), 7u);
  owner.Send(PlanFor(1, Request(1), 100));
  EXPECT_EQ(owner.ReadUntilIdle().size(), 12u);
  EXPECT_EQ(owner.finish, v1::FINISH_REASON_LENGTH);
  EXPECT_EQ(owner.last.lease_epoch(), 7u);
  EXPECT_EQ(owner.last.plan_id(), 1u);
  owner.stream->WritesDone();
  EXPECT_TRUE(owner.End().ok());
  ExpectNothingHeld();
}

TEST_F(ServiceTest, AnotherVocabularyIsRefused) {
  BecomeReady();
  Owner owner(*stub_, 1, "another vocabula");
  EXPECT_FALSE(owner.welcomed());
  const grpc::Status status = owner.End();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_THAT(status.error_message(), HasSubstr("fingerprint"));
  ExpectNothingHeld();
}

TEST_F(ServiceTest, AHigherEpochFencesAndALowerOneIsRefused) {
  BecomeReady();
  Owner first(*stub_, 5);
  ASSERT_TRUE(first.welcomed());
  first.Send(PlanFor(1, Request(1, 20, 400), 4096));
  for (uint64_t epoch : {uint64_t{5}, uint64_t{4}, uint64_t{0}}) {
    Owner late(*stub_, epoch);
    EXPECT_FALSE(late.welcomed());
    const grpc::Status status = late.End();
    EXPECT_EQ(status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
    EXPECT_THAT(status.error_message(), HasSubstr("present owner's, 5"));
  }
  Owner second(*stub_, 6);
  ASSERT_TRUE(second.welcomed());
  const grpc::Status status = first.End();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::ABORTED);
  EXPECT_THAT(status.error_message(), HasSubstr("epoch 6"));
  // The older owner's sequence is gone, its handle is free, and the new owner's answer is the usual one.
  second.Send(PlanFor(1, Request(1), 100));
  EXPECT_EQ(second.ReadUntilIdle().size(), 12u);
  second.stream->WritesDone();
  EXPECT_TRUE(second.End().ok());
  ExpectNothingHeld();
}

TEST_F(ServiceTest, AVanishedOwnerFreesItsPages) {
  BecomeReady();
  for (uint64_t epoch = 1; epoch <= 20; ++epoch) {
    Owner owner(*stub_, epoch);
    ASSERT_TRUE(owner.welcomed());
    owner.Send(PlanFor(1, Request(1, 100, 300), 4096));
    if (epoch % 2 == 0) {
      v1::AttachReply reply;
      owner.stream->Read(&reply);
    }
    owner.context.TryCancel();
    EXPECT_EQ(owner.End().error_code(), grpc::StatusCode::CANCELLED);
    ExpectNothingHeld();
  }
}

TEST_F(ServiceTest, MalformedMessagesEndTheStreamWithASentence) {
  BecomeReady();
  uint64_t epoch = 0;
  const auto fault = [&](const v1::AttachRequest& request) {
    Owner owner(*stub_, ++epoch);
    EXPECT_TRUE(owner.welcomed());
    owner.stream->Write(request);
    const grpc::Status status = owner.End();
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << status.error_message();
    ExpectNothingHeld();
    return status.error_message();
  };
  v1::AttachRequest request;
  EXPECT_THAT(fault(request), HasSubstr("hello or a plan"));
  request.mutable_hello()->set_lease_epoch(100);
  EXPECT_THAT(fault(request), HasSubstr("hello was sent twice"));
  request.mutable_plan();
  EXPECT_THAT(fault(request), HasSubstr("plan_id is 0"));
  *request.mutable_plan() = PlanFor(1, Request(0), 0);
  EXPECT_THAT(fault(request), HasSubstr("handle"));
  *request.mutable_plan() = PlanFor(1, Request(1, 513), 0);
  EXPECT_THAT(fault(request), HasSubstr("between 1 and 512"));
  *request.mutable_plan() = PlanFor(1, Request(1), 0);
  request.mutable_plan()->mutable_open(0)->add_token_ids(300);
  EXPECT_THAT(fault(request), HasSubstr("300"));
}

TEST_F(ServiceTest, APlanBeforeHelloIsRefused) {
  BecomeReady();
  grpc::ClientContext context;
  auto stream = stub_->Attach(&context);
  v1::AttachRequest request;
  *request.mutable_plan() = PlanFor(1, Request(1), 0);
  stream->Write(request);
  v1::AttachReply reply;
  EXPECT_FALSE(stream->Read(&reply));
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::INVALID_ARGUMENT);
}

TEST_F(ServiceTest, ManyPlansInFlightAreAllAnswered) {
  BecomeReady();
  Owner owner(*stub_, 1);
  ASSERT_TRUE(owner.welcomed());
  // More than may wait: reading pauses and goes on.
  for (uint64_t id = 1; id <= 200; ++id) {
    v1::Plan plan;
    plan.set_plan_id(id);
    if (id == 1) *plan.add_open() = Request(1, 20, 300);
    plan.add_rows()->set_handle(1);
    plan.mutable_rows(0)->set_prefill_tokens(1);
    ASSERT_TRUE(owner.Send(plan));
  }
  v1::AttachReply reply;
  while (reply.results().plan_id() != 200 || !reply.results().idle()) ASSERT_TRUE(owner.stream->Read(&reply));
}

TEST_F(ServiceTest, DrainingWaitsForOpenSequencesAndRefusesNewOwners) {
  BecomeReady();
  Owner owner(*stub_, 1);
  ASSERT_TRUE(owner.welcomed());
  owner.Send(PlanFor(1, Request(1), 0));
  owner.ReadUntilIdle();
  EXPECT_EQ(Drain(50).error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  EXPECT_TRUE(drained_);

  std::future<grpc::Status> drain = std::async(std::launch::async, [&] { return Drain(10000); });
  // A sequence that begins now is refused, the open one goes on to its end.
  v1::Plan plan = PlanFor(2, Request(2), 100);
  plan.add_rows()->set_handle(1);
  owner.Send(plan);
  owner.ReadUntilIdle();
  EXPECT_EQ(owner.error_code, grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(owner.finish, v1::FINISH_REASON_LENGTH);
  EXPECT_TRUE(drain.get().ok());

  Owner late(*stub_, 2);
  EXPECT_FALSE(late.welcomed());
  EXPECT_EQ(late.End().error_code(), grpc::StatusCode::UNAVAILABLE);
}

TEST_F(ServiceTest, AnOwnerThatDoesNotReadIsCutAndLeavesNothing) {
  BecomeReady();
  Owner owner(*stub_, 1);
  ASSERT_TRUE(owner.welcomed());
  // Scores of whole prompts with alternatives, about 0.3 MB a plan, until they no longer fit anywhere.
  const auto owned = [&] {
    v1::ExecutorDescription description;
    return Describe(&description).ok() && description.lease_epoch() == 1;
  };
  uint64_t id = 0;
  while (owned() && id < 300) {
    v1::Plan plan;
    plan.set_plan_id(++id);
    for (uint64_t handle = 1; handle <= 8; ++handle) {
      v1::OpenSequence open = Request(handle, 100, 0);
      open.mutable_logprobs()->set_prompt(true);
      open.mutable_logprobs()->set_top(20);
      *plan.add_open() = open;
      plan.add_rows()->set_handle(handle);
      plan.mutable_rows(plan.rows_size() - 1)->set_prefill_tokens(64);
    }
    plan.set_free_steps(1000);
    if (!owner.Send(plan)) break;
    // Until the plan has been computed, or the stream is cut.
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    EXPECT_TRUE(Eventually([&] { return engine_->open_sequences() == 0; }));
  }
  EXPECT_FALSE(owned()) << "after " << id << " plans";
  EXPECT_EQ(owner.End().error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  ExpectNothingHeld();
}

}  // namespace
}  // namespace tercet::executor
