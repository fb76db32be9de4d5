#include "authenticator.h"

#include <fmt/format.h>

#include <array>
#include <stdexcept>
#include <utility>

#include "frames.h"

namespace tuplespace {

namespace {

constexpr const char* kAddress = "inproc://zeromq.zap.01";
constexpr const char* kDomain = "tuplespace";
constexpr const char* kVersion = "1.0";
constexpr std::size_t kPublicKeyBytes = 32;

// The indexes of the frames of a request.
constexpr std::size_t kVersionFrame = 0;
constexpr std::size_t kRequestFrame = 1;
constexpr std::size_t kPeerAddressFrame = 3;
constexpr std::size_t kMechanismFrame = 5;
constexpr std::size_t kKeyFrame = 6;

void AnswerWith(zmq::socket_t& socket, std::string_view request, std::string_view status,
                std::string_view text, std::string_view user) {
  const std::array<std::string_view, 6> frames = {kVersion, request, status, text, user, ""};
  for (std::size_t i = 0; i < frames.size(); ++i) {
    zmq::message_t frame(frames[i].data(), frames[i].size());
    SendFrame(socket, frame, /*more=*/i + 1 < frames.size());
  }
}

}  // namespace

Authenticator::Authenticator(zmq::context_t& context) : socket_(context, zmq::socket_type::rep) {
  socket_.set(zmq::sockopt::linger, 0);
  try {
    socket_.bind(kAddress);
  } catch (const zmq::error_t& error) {
    throw std::runtime_error(fmt::format(
        "a broker with keys needs a ZeroMQ context of its own: {}: {}", kAddress, error.what()));
  }
}

void Authenticator::Guard(zmq::socket_t& router, const KeyPair& keys) {
  router.set(zmq::sockopt::curve_server, true);
  router.set(zmq::sockopt::curve_secretkey, keys.secret_key);
  router.set(zmq::sockopt::zap_domain, std::string_view(kDomain));
}

void Authenticator::Answer(const AccessList& list, std::int64_t now_us) {
  AnswerAll(&list, now_us);
}

void Authenticator::LetAllIn(std::int64_t now_us) {
  AnswerAll(nullptr, now_us);
}

void Authenticator::AnswerAll(const AccessList* list, std::int64_t now_us) {
  for (zmq::message_t first; ReceiveFrame(socket_, first, ZMQ_DONTWAIT);) {
    std::vector<zmq::message_t> question;
    question.push_back(std::move(first));
    while (question.back().more()) {
      ReceiveFrame(socket_, question.emplace_back(), 0);
    }
    AnswerOne(question, list, now_us);
  }
}

void Authenticator::AnswerOne(const std::vector<zmq::message_t>& question, const AccessList* list,
                              std::int64_t now_us) {
  if (question.size() <= kRequestFrame || question[kVersionFrame].to_string_view() != kVersion) {
    return AnswerWith(socket_, "", "500", "not a ZAP 1.0 request", "");
  }
  const std::string_view request = question[kRequestFrame].to_string_view();
  if (question.size() != kKeyFrame + 1 || question[kMechanismFrame].to_string_view() != "CURVE" ||
      question[kKeyFrame].size() != kPublicKeyBytes) {
    return AnswerWith(socket_, request, "400", "CURVE keys are required", "");
  }
  std::array<char, 41> key{};
  zmq_z85_encode(key.data(), question[kKeyFrame].data<std::uint8_t>(), kPublicKeyBytes);
  if (list == nullptr || list->Find(key.data()) != nullptr)
    return AnswerWith(socket_, request, "200", "OK", key.data());
  ++refused_;
  const std::string peer = question[kPeerAddressFrame].to_string();
  if (pause_.IsOver(peer, now_us)) {
    log_.push_back(fmt::format("a connection from {} is refused: {} ({} refused so far)",
                               peer.empty() ? "this host" : peer, list->WhyNot(key.data()),
                               refused_));
  }
  AnswerWith(socket_, request, "400", "the key is not on the list, or has expired", "");
}

std::vector<std::string> Authenticator::TakeLog() {
  return std::exchange(log_, {});
}

}  // namespace tuplespace
