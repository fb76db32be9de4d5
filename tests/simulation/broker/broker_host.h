// BrokerHost: a simulated host that runs one broker after the other. It uses the real BrokerCore
// and the real wire format over the simulated network, and an Observer checks what they do.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "broker/client_routes.h"
#include "broker/host_clock.h"
#include "broker/liar.h"
#include "broker/own_clients.h"
#include "broker/suspension.h"
#include "broker_core.h"
#include "checkers/observer.h"
#include "cluster/hostile_handler.h"
#include "cluster/hostile_manager.h"
#include "world/network.h"

namespace acan::simulation {

struct BrokerTotals {
  std::uint64_t requests = 0;
  std::uint64_t conflicts_made = 0;   // by the liar
  std::uint64_t hostile = 0;          // messages of the hostile handler
  std::uint64_t hostile_manager = 0;  // and of the hostile manager
  std::uint64_t most_payload_bytes = 0;
};

class BrokerHost final : public Listener {
 public:
  BrokerHost(World& world, Network& network, Results& results);
  ~BrokerHost() override;

  void Start();
  void Kill();
  void Stop() { suspension_.Begin(); }  // like SIGSTOP
  void Continue();
  void JumpClock(std::int64_t forward_us);
  bool running() const { return core_ != nullptr; }
  bool stopped() const { return suspension_.on(); }

  // From now on the liar puts about one in `results` results again with other bytes.
  void SetLiesOneIn(std::uint64_t results) { liar_.SetOneIn(results); }
  // Adds a hostile handler to the next broker and to those after it. `key_is_shared`: honest
  // handlers have the same key.
  void SetHostile(std::unique_ptr<HostileHandler> hostile, bool key_is_shared) {
    hostile_.handler = std::move(hostile);
    hostile_.key_is_shared = key_is_shared;
  }
  // Adds a hostile manager in the same way.
  void SetHostileManager(std::unique_ptr<HostileManager> manager) {
    hostile_.manager = std::move(manager);
  }
  // Writes each message to and from clients into the trace.
  void TraceMessages() { traces_messages_ = true; }
  // Checks that all tuples that must be in the space are there.
  void CheckAll();
  // Returns the keys of all tuples in the space.
  std::vector<tuplespace::Key> Keys();
  bool Knows(const tuplespace::ClientId& client) const { return core_ && core_->Knows(client); }
  const BrokerTotals& totals() const { return totals_; }
  const Observer* observer() const { return observer_.get(); }

  bool listening() const override { return running() && !stopped(); }
  std::uint64_t life() const override { return life_; }
  void OnFrames(const std::shared_ptr<Connection>& from, Frames&& frames) override;
  void OnConnectionEnded(const std::shared_ptr<Connection>& connection) override;

 private:
  std::int64_t NowUs() const { return clock_.NowUs(); }
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
  template <class Actor>
  void LetAct(Actor& actor, void (BrokerHost::*act)());
  void ActHostileHandler();
  void ActHostileManager();
  // Returns whether the client has left by that.
  bool ReceiveHostile(HostileHandler::Said& said, const tuplespace::AccessList::Entry& who);
  void CheckNothingIsLeftOf(const tuplespace::ClientId& client);
  void CheckReportsOf(const tuplespace::ClientId& client);
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
  std::uint64_t life_ = 0;
  HostClock clock_;
  Suspension suspension_;
  ClientRoutes routes_;
  OwnClients own_clients_;
  Liar liar_;
  struct Hostile {
    std::unique_ptr<HostileHandler> handler;  // may be null
    bool key_is_shared = false;               // honest handlers have its key
    std::unique_ptr<HostileManager> manager;  // may be null
  };
  Hostile hostile_;
  bool traces_messages_ = false;
  BrokerTotals totals_;
};

}  // namespace acan::simulation
