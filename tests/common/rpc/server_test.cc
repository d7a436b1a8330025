#include "common/rpc/server.h"

#include <gmock/gmock.h>
#include <grpcpp/client_context.h>
#include <grpcpp/impl/codegen/client_unary_call.h>
#include <grpcpp/support/byte_buffer.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <fstream>

#include "common/rpc/channel.h"
#include "common/rpc/status.h"
#include "tercet/v1/executor.grpc.pb.h"
#include "tests/temporary_directory.h"

namespace tercet::rpc {
namespace {

using ::testing::HasSubstr;

class Echo : public v1::Executor::CallbackService {
  grpc::ServerUnaryReactor* Describe(grpc::CallbackServerContext* context, const v1::DescribeExecutorRequest*,
                                     v1::ExecutorDescription* reply) override {
    reply->set_model_name("echo");
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }
};

grpc::Status Call(const std::string& address, size_t max_receive_bytes = kMaxMessageBytes) {
  auto stub = v1::Executor::NewStub(MakeChannel(address, max_receive_bytes));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(5));
  v1::ExecutorDescription reply;
  grpc::Status status = stub->Describe(&context, {}, &reply);
  EXPECT_EQ(reply.model_name(), status.ok() ? "echo" : "");
  return status;
}

// grpc.health.v1.Health/Check on the wire: field 1 of the request is the service's name, field 1 of the reply the status.
// Returns 1 (SERVING), 2 (NOT_SERVING), or -code.
int Health(const std::string& address, const std::string& service) {
  auto channel = MakeChannel(address);
  std::string bytes = service.empty() ? "" : std::string("\x0a") + static_cast<char>(service.size()) + service;
  grpc::Slice slice(bytes);
  grpc::ByteBuffer request(&slice, 1), reply;
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(5));
  grpc::internal::RpcMethod method("/grpc.health.v1.Health/Check", grpc::internal::RpcMethod::NORMAL_RPC, channel);
  grpc::Status status = grpc::internal::BlockingUnaryCall(channel.get(), method, &context, request, &reply);
  if (!status.ok()) return -status.error_code();
  grpc::Slice answer;
  EXPECT_TRUE(reply.DumpToSingleSlice(&answer).ok());
  return answer.size() == 2 ? answer.begin()[1] : 0;
}

class ServerTest : public ::testing::Test {
 protected:
  absl::StatusOr<std::unique_ptr<Server>> Start(const std::string& address) {
    return Server::Start({.address = address, .services = {&service}});
  }
  Echo service;
  TemporaryDirectory directory;
};

TEST_F(ServerTest, ReportsTheTcpPortItChose) {
  auto server = Start("127.0.0.1:0");
  ASSERT_TRUE(server.ok()) << server.status();
  EXPECT_THAT((*server)->address(), ::testing::MatchesRegex("127\\.0\\.0\\.1:[1-9][0-9]*"));
  EXPECT_TRUE(Call((*server)->address()).ok());
}

TEST_F(ServerTest, ServesOnAUnixSocket) {
  std::string address = "unix:" + directory.file("s");
  auto server = Start(address);
  ASSERT_TRUE(server.ok()) << server.status();
  EXPECT_EQ((*server)->address(), address);
  EXPECT_TRUE(Call(address).ok());
}

TEST_F(ServerTest, ASecondInstanceIsRefusedOnTheSameAddress) {
  for (std::string address : {std::string("127.0.0.1:0"), "unix:" + directory.file("s")}) {
    auto first = Start(address);
    ASSERT_TRUE(first.ok());
    auto second = Start((*first)->address());
    ASSERT_FALSE(second.ok());
    EXPECT_THAT(second.status().message(), HasSubstr((*first)->address()));
    EXPECT_TRUE(Call((*first)->address()).ok()) << "the first one goes on";
  }
}

TEST_F(ServerTest, AStaleSocketFileIsReplaced) {
  std::string path = directory.file("s");
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  strncpy(address.sun_path, path.c_str(), sizeof(address.sun_path) - 1);
  int dead = socket(AF_UNIX, SOCK_STREAM, 0);
  ASSERT_EQ(bind(dead, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  close(dead);  // the file stays behind, as after kill -9
  auto server = Start("unix:" + path);
  ASSERT_TRUE(server.ok()) << server.status();
  EXPECT_TRUE(Call("unix:" + path).ok());
}

TEST_F(ServerTest, AFileThatIsNoSocketIsLeftAlone) {
  std::ofstream(directory.file("precious")) << "data";
  auto server = Start("unix:" + directory.file("precious"));
  ASSERT_FALSE(server.ok());
  EXPECT_THAT(server.status().message(), HasSubstr("is not a socket"));
  std::string text;
  std::ifstream(directory.file("precious")) >> text;
  EXPECT_EQ(text, "data");
}

TEST_F(ServerTest, AnAddressThatCannotBeIsASentence) {
  for (std::string address : {std::string("nonsense"), std::string(""), std::string("127.0.0.1:"),
                              std::string("127.0.0.1:99999"), std::string("127.0.0.1:-1"), std::string("192.0.2.1:80"),
                              "unix:/" + std::string(200, 'x'), std::string("unix:/nonexistent-folder/s")}) {
    auto server = Start(address);
    EXPECT_FALSE(server.ok()) << address;
    EXPECT_THAT(server.status().message(), HasSubstr(address.substr(address.find('/') + 1)));
  }
}

TEST_F(ServerTest, HealthCoversTheProcessAndEachService) {
  auto server = Start("127.0.0.1:0");
  ASSERT_TRUE(server.ok());
  std::string address = (*server)->address();
  for (std::string name : {"", "tercet.v1.Executor"}) {
    EXPECT_EQ(Health(address, name), 2) << name << " before it can work";
    (*server)->SetServing(true);
    EXPECT_EQ(Health(address, name), 1) << name;
    (*server)->SetServing(false);
    EXPECT_EQ(Health(address, name), 2) << name;
  }
  EXPECT_EQ(Health(address, "tercet.v1.Nobody"), -grpc::StatusCode::NOT_FOUND);
}

TEST_F(ServerTest, AfterShutdownNobodyAnswers) {
  auto server = Start("127.0.0.1:0");
  ASSERT_TRUE(server.ok());
  (*server)->Shutdown(absl::ZeroDuration());
  EXPECT_EQ(Call((*server)->address()).error_code(), grpc::StatusCode::UNAVAILABLE);
}

TEST(Status, KeepsCodeAndSentenceBothWays) {
  for (absl::Status status : {absl::OkStatus(), absl::InvalidArgumentError("a"), absl::UnavailableError("b"),
                              absl::ResourceExhaustedError("c"), absl::AbortedError("d")}) {
    EXPECT_EQ(FromGrpc(ToGrpc(status)), status);
  }
}

}  // namespace
}  // namespace tercet::rpc
