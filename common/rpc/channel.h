// Channels between Tercet's processes. Thread-safe.
#pragma once

#include <grpcpp/channel.h>

#include <cstddef>
#include <memory>
#include <string>

namespace tercet::rpc {

// Largest message that one process sends another: a 32 MiB text and room for its frame.
inline constexpr size_t kMaxMessageBytes = 33 << 20;

// A channel to `address` ("host:port", "unix:/path" or "dns:///name:port"), with a connection of its own (never shared
// with another channel), keepalive that finds a frozen peer within about 25 s, quick reconnects, and no ambient HTTP proxy.
std::shared_ptr<grpc::Channel> MakeChannel(const std::string& address, size_t max_receive_bytes = kMaxMessageBytes);

}  // namespace tercet::rpc
