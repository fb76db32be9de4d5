// BrokerHost: a simulated host on which brokers run, one after the other: the real BrokerCore and
// the real wire format over the simulated network, watched by an Observer.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "broker_core.h"
#include "checkers/observer.h"
#include "cluster/hostile_handler.h"
#include "wire.h"
#include "world/network.h"

namespace acan::simulation {

struct BrokerTotals {
  std::uint64_t requests = 0;
  std::uint64_t conflicts_made = 0;  // by the liar
  std::uint64_t hostile = 0;         // messages of a hostile handler
  std::uint64_t most_payload_bytes = 0;
};

class BrokerHost final : public Listener {
 public:
  BrokerHost(World& world, Network& network, Results& results);
  ~BrokerHost() override;

  void Start();
  void Kill();
  void Stop() { stopped_ = true; }  // as SIGSTOP
  void Continue();
  void JumpClock(std::int64_t forward_us);
  bool running() const { return core_ != nullptr; }
  bool stopped() const { return stopped_; }

  // Now and then somebody puts a result again, with other bytes.
  void SetLiesOneIn(std::uint64_t results) { lies_one_in_ = results; }
  // From the next broker on it is there, too.
  // `key_is_shared`: honest handlers come with the same key as it.
  void SetHostile(std::unique_ptr<HostileHandler> hostile, bool key_is_shared) {
    hostile_ = std::move(hostile);
    key_is_shared_ = key_is_shared;
  }
  // Each message to and from clients becomes a line of the trace.
  void TraceMessages() { traces_messages_ = true; }
  // All that must be there.
  void CheckAll();
  // Every key that is there.
  std::vector<tuplespace::Key> Keys();
  bool Knows(const tuplespace::ClientId& client) const { return core_ && core_->Knows(client); }
  const BrokerTotals& totals() const { return totals_; }
  const Observer* observer() const { return observer_.get(); }

  bool listening() const override { return running() && !stopped_; }
  std::uint64_t life() const override { return life_; }
  void OnFrames(const std::shared_ptr<Connection>& from, Frames&& frames) override;
  void OnConnectionEnded(const std::shared_ptr<Connection>& connection) override;

 private:
  std::int64_t NowUs() const { return world_.now_us() + clock_us_; }
  void Handle(const std::shared_ptr<Connection>& from, Frames&& frames);
  void Lose(const tuplespace::ClientId& client);
  void Tick();
  void Flush(const tuplespace::ClientId& active);
  void Deliver(const tuplespace::BrokerCore::Delivery& delivery);
  void SetTimer();
  void Trace(const tuplespace::ClientId& client, const tuplespace::ToBroker& envelope) const;
  void Trace(const tuplespace::ClientId& client, const tuplespace::ToClient& envelope) const;
  void Lie();
  void Probe();
  void CheckSpace();
  const tuplespace::AccessList::Entry* KeyOf(const tuplespace::ClientId& client) const;
  void LetHostileAct();
  void ActHostile();
  void CheckNothingIsLeftOf(const tuplespace::ClientId& client);
  tuplespace::ReplyBody Ask(tuplespace::RequestBody body);
  std::optional<tuplespace::ReplyBody> TakeAnswer(tuplespace::RequestId id);
  void OnLost(const tuplespace::ClientId& client);
  void Join(const tuplespace::ClientId& client);
  std::vector<tuplespace::BrokerCore::Delivery> TakeWatched(const tuplespace::ClientId& active);

  World& world_;
  Network& network_;
  Results& results_;
  std::unique_ptr<tuplespace::BrokerCore> core_;
  std::unique_ptr<Observer> observer_;
  tuplespace::Encoder encoder_;
  std::uint64_t life_ = 0;
  std::int64_t clock_us_ = 0;
  bool stopped_ = false;
  std::uint64_t timer_ = 0;
  std::int64_t timer_at_us_ = kNever;
  std::unordered_map<tuplespace::ClientId, std::shared_ptr<Connection>> routes_;
  std::vector<std::function<void()>> waiting_;  // what came while it was stopped
  std::uint64_t lies_one_in_ = 0;
  std::vector<tuplespace::Tuple> to_lie_about_;
  std::map<tuplespace::ClientId, std::uint64_t> own_sessions_;  // of the observer and the liar
  tuplespace::RequestId next_request_ = 1;
  std::unique_ptr<HostileHandler> hostile_;  // may be null
  bool key_is_shared_ = false;
  bool traces_messages_ = false;
  BrokerTotals totals_;
};

}  // namespace acan::simulation
