// Authenticator: answers ZeroMQ's requests whether a public key may connect (ZAP, RFC 27).
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
  // Answers for every CURVE server of the context from now on. REQUIRES: it exists before any of
  // them binds, and outlives them, because ZeroMQ lets everyone in without an authenticator. Throws
  // std::runtime_error if the context has one already.
  explicit Authenticator(zmq::context_t& context);

  // Makes `router` a CURVE server that asks the authenticator. Call it before binding.
  static void Guard(zmq::socket_t& router, const KeyPair& keys);

  // Answers the pending requests. Messages of accepted clients have the public key as User-Id.
  void Answer(const AccessList& list, std::int64_t now_us);
  // As Answer, but accepts every client that proves to have a key: its rights are decided
  // elsewhere.
  void LetAllIn(std::int64_t now_us);
  std::vector<std::string> TakeLog();
  void* handle() { return socket_.handle(); }

 private:
  void AnswerAll(const AccessList* list, std::int64_t now_us);
  // `list` null: accepts everyone.
  void AnswerOne(const std::vector<zmq::message_t>& question, const AccessList* list,
                 std::int64_t now_us);

  zmq::socket_t socket_;
  LogPause pause_{kLinesAboutStrangers};
  std::uint64_t refused_ = 0;
  std::vector<std::string> log_;
};

}  // namespace tuplespace
