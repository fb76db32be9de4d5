// Authenticator: answers ZeroMQ's questions who may connect (ZAP, RFC 27), by public key.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <zmq.hpp>

#include "access_list.h"
#include "log_pause.h"

namespace tuplespace {

class Authenticator {
 public:
  // Every CURVE server of the context asks it from here on. REQUIRES: it is there before any of
  // them binds and outlives them: without an authenticator ZeroMQ lets anybody in. Throws
  // std::runtime_error if the context has one already.
  explicit Authenticator(zmq::context_t& context);

  // Makes `router` a CURVE server that asks. Before it binds.
  static void Guard(zmq::socket_t& router, const KeyPair& keys);

  // Answers what is asked by now. Messages of who is let in carry the public key as User-Id.
  void Answer(const AccessList& list, std::int64_t now_us);
  // As above, but whoever proves to have a key is let in: what it may do is decided otherwise.
  void LetAllIn(std::int64_t now_us);
  std::vector<std::string> TakeLog();
  void* handle() { return socket_.handle(); }

 private:
  void AnswerAll(const AccessList* list, std::int64_t now_us);
  // `list` is null: everybody is on it.
  void AnswerOne(const std::vector<zmq::message_t>& question, const AccessList* list,
                 std::int64_t now_us);

  zmq::socket_t socket_;
  LogPause pause_;
  std::uint64_t refused_ = 0;
  std::vector<std::string> log_;
};

}  // namespace tuplespace
