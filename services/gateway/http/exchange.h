// One HTTP request and its answer, as the handlers see them. Knows nothing of sockets.
//
// All members of Exchange are called on its strand. Exactly one answer is given: either Reply, or BeginEvents, any number
// of Send and EndEvents. An exchange that is dropped without an answer is answered with 500.
#pragma once

#include <absl/functional/any_invocable.h>

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "services/gateway/http/strand.h"

namespace tercet::gateway {

struct Request {
  std::string method;
  std::string path;   // percent-decoded, without the query
  std::string body;
  std::string peer;   // for the log
  std::string id;     // the client's x-request-id if it is fit for a log and a header, else one of ours
  std::vector<std::pair<std::string, std::string>> headers;  // names in lower case

  // The value of the first header of that name, "" when there is none.
  std::string_view Header(std::string_view lower_case_name) const;
};

struct Response {
  int status = 200;
  std::string content_type = "application/json";
  std::string body;
  std::vector<std::pair<std::string, std::string>> headers;
  // Close the connection afterwards.
  bool close = false;
};

// Why the client can no longer be answered.
enum class Gone { kDisconnected, kTooSlow, kServerStopping };

class Exchange {
 public:
  virtual ~Exchange() = default;

  virtual Request& request() = 0;
  virtual const std::shared_ptr<Strand>& strand() = 0;

  virtual void Reply(Response response) = 0;

  // 200 with content type text/event-stream; events follow as Send writes them.
  virtual void BeginEvents() = 0;
  // Whole events, ready to be written ("data: …\n\n").
  virtual void Send(std::string_view events) = 0;
  // Ends the stream; `close` closes the connection as well.
  virtual void EndEvents(bool close) = 0;

  // Called at most once, on the strand, when the client is gone before the answer is complete. Nothing may be sent then.
  virtual void OnGone(absl::AnyInvocable<void(Gone)> callback) = 0;

  // A field for the access log; never text of a prompt or an answer.
  virtual void Note(std::string_view key, std::string value) = 0;
};

using Handler = std::function<void(std::shared_ptr<Exchange>)>;

}  // namespace tercet::gateway
