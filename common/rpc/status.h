// absl::Status and grpc::Status are the same thing to us: a code and a sentence.
#pragma once

#include <absl/status/status.h>
#include <grpcpp/support/status.h>

namespace tercet::rpc {

grpc::Status ToGrpc(const absl::Status& status);
absl::Status FromGrpc(const grpc::Status& status);

}  // namespace tercet::rpc
