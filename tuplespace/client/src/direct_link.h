// DirectLink: a client's part in direct transfers: its courier, what it tells the broker about it,
// and Reads whose payloads come from other clients.
//
// The courier begins to listen when the client first joins a broker that supports direct transfers
// and does not share memory with it. If it cannot listen, or dies later, this is reported once, and
// the client reads through the broker.
//
// For the client's thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "courier.h"
#include "direct_reads.h"
#include "envelope.h"
#include "tuplespace/client.h"
#include "wake_up.h"

namespace tuplespace {

class DirectLink {
 public:
  DirectLink(const ClientOptions& options, WakeUp& wake, DirectReads::Submit submit,
             DirectReads::Submit read_again);

  // `broker_us` was the broker's clock at joining or since; 0: the broker does not take part.
  void NoteClock(std::int64_t broker_us) { broker_us_ = broker_us; }
  // The local address of this client's connection to the broker.
  void NoteAddress(const std::string& address);
  const std::string& address() const { return address_; }
  void ChangeId();  // the options have another one now
  // To be called repeatedly. `session`: the client's current one, 0: none. `shares`: the client
  // shares memory with the broker.
  void Follow(std::uint64_t session, bool shares);
  // Once in a session: what to send to the broker.
  bool HasListening() const { return listening_due_; }
  std::optional<Listening> TakeListening();

  void ReadDirectly(std::vector<FoundTuple> wanted, std::int64_t wait_us,
                    Client::ReplyHandler on_reply);
  void OnAsked(std::function<Payload(const Key&)> handler) { on_asked_ = std::move(handler); }
  void OnProblem(std::function<void(const std::string&)> handler) {
    on_problem_ = std::move(handler);
  }
  bool listens() const { return session_ != 0; }
  void Offer(const Key& key, Payload payload);
  void Withdraw(const Key& key);
  // Returns how many were handled; 0: there were none. Only a few requests for payloads are handled
  // at once. The others, and events after one whose handler throws, remain for the next call.
  int HandleEvents();
  DirectCounts counts() const;

 private:
  bool works() const { return courier_ != nullptr && !failed_; }
  void Open();
  void HandleEvent(Courier::Event&& event);
  void OnDied(const std::string& why);
  void NoteNone(const std::string& why);
  void NoteFailed(const std::string& why);

  const ClientOptions& options_;
  WakeUp& wake_;
  std::string address_;
  std::int64_t broker_us_ = 0;
  std::uint64_t session_ = 0;  // the courier's session
  bool listening_due_ = false;
  bool failed_ = false;  // the courier could not listen, or has died
  std::int64_t say_failed_at_us_ = 0;
  std::set<Key> provided_;  // and not withdrawn since; ordered, as others choose the keys
  std::function<Payload(const Key&)> on_asked_;
  std::function<void(const std::string&)> on_problem_;
  DirectReads reads_;
  std::unique_ptr<Courier> courier_;  // null: not (yet)
  std::vector<Courier::Event> events_;
  std::size_t next_event_ = 0;  // earlier ones were handled
};

}  // namespace tuplespace
