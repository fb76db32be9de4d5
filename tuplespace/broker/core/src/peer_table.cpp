#include "peer_table.h"

#include <fmt/format.h>

#include <algorithm>

namespace tuplespace {

namespace {

constexpr std::size_t kUsualMessages = 64;  // maximum room that is kept for a client's next answers
constexpr std::size_t kMaxDone = 4096;      // maximum number of requests in one Done

// Makes ids, which may be any bytes, safe for the log.
std::string Printable(const std::string& bytes) {
  std::string text;
  for (const char c : bytes) {
    if (c >= 0x20 && c < 0x7f) {
      text.push_back(c);
    } else {
      text += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    }
  }
  return text;
}

// Whether the messages contain more than acknowledgements.
bool HasNews(const std::vector<BrokerMessage>& messages) {
  const auto is_acknowledgement = [](const BrokerMessage& message) {
    const auto* reply = std::get_if<Reply>(&message);
    return std::holds_alternative<Done>(message) ||
           (reply != nullptr && (std::holds_alternative<PutReply>(reply->body) ||
                                 std::holds_alternative<CompleteReply>(reply->body) ||
                                 std::holds_alternative<LeaseReply>(reply->body) ||
                                 std::holds_alternative<RetireReply>(reply->body)));
  };
  return !std::all_of(messages.begin(), messages.end(), is_acknowledgement);
}

}  // namespace

std::string PeerTable::Describe(const ClientId& client) const {
  const auto it = peers_.find(client);
  if (it == peers_.end() || it->second.name.empty()) return "client " + Printable(client);
  return fmt::format("client {} ({})", Printable(client), Printable(it->second.name));
}

// Adds the id to the last message if that is a Done, too, otherwise adds a new one.
void PeerTable::SendDone(const ClientId& client, Peer& peer, RequestId id) {
  if (peer.deaf) return;
  const Done* last = peer.output.empty() ? nullptr : std::get_if<Done>(&peer.output.back());
  if (last == nullptr || last->requests.size() >= kMaxDone) Send(client, peer, Done{});
  std::get<Done>(peer.output.back()).requests.push_back(id);
}

void PeerTable::SendStray(const ClientId& client, std::uint64_t session, BrokerMessage&& message) {
  Delivery& stray = strays_.emplace_back();
  stray.client = client;
  stray.envelope.session = session;
  stray.envelope.messages.push_back(std::move(message));
}

void PeerTable::SendGoodbyes() {
  for (auto& [client, peer] : peers_) Send(client, peer, Goodbye{});
}

std::vector<PeerTable::Delivery> PeerTable::TakeOutput() {
  std::vector<Delivery> output = std::exchange(strays_, {});  // errors, which count as news
  output.reserve(output.size() + dirty_.size());
  for (const bool news : {true, false}) {
    for (const ClientId& client : dirty_) {
      const auto it = peers_.find(client);
      if (it == peers_.end() || it->second.output.empty()) continue;
      if (HasNews(it->second.output) != news) continue;
      Delivery& delivery =
          output.emplace_back(Delivery{client, {it->second.session, {}}, it->second.decompresses});
      std::vector<BrokerMessage>& messages = delivery.envelope.messages;
      messages.swap(it->second.output);
      it->second.output.reserve(std::min(messages.size(), kUsualMessages));
    }
  }
  dirty_.clear();
  return output;
}

}  // namespace tuplespace
