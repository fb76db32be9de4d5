// Cluster: a simulated broker, managers and handlers that train a job, and the faults that hit
// them.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "acan/handler/handler.h"
#include "acan/manager/manager.h"
#include "broker/broker_host.h"
#include "cluster/drawn.h"
#include "cluster/jobs.h"
#include "cluster/out_folder.h"
#include "seed.h"
#include "world/network.h"
#include "world/world.h"

namespace acan::simulation {

inline constexpr std::int64_t kSecondUs = 1'000'000;
inline constexpr int kMaxHandlers = 5;

// One run. Only one may exist at a time because the simulated sockets find its network through a
// global.
class Cluster {
 public:
  Cluster(const SeedOptions& options, std::size_t job, bool disturbed);
  ~Cluster();

  SeedResult Run(const Outcome* expected);
  Outcome outcome() const { return FolderOf(0).Read(); }

 private:
  struct HandlerSlot {
    HandlerTraits traits;
    Process* process = nullptr;
    Handler* running = nullptr;
    std::int64_t away_until_us = 0;  // not started before this time
  };
  struct ManagerSlot {
    Process* process = nullptr;
    Manager* running = nullptr;
    bool resume = false;
  };

  struct Faults {
    bool go_on = false;              // until the cluster heals
    std::int64_t failures_left = 0;  // failures of devices
    std::array<std::uint64_t, kFaults> counts{};
    std::uint64_t went_back = 0, cut_anew = 0;  // of runs, as a consequence of faults
  };

  Random& random() { return world_.random(); }
  Process& NewProcess(const std::string& name);
  void KillProcess(Process*& process);
  void Begin();
  void DrawCuts();
  HandlerTraits DrawHandler(bool large);
  void AddHandler(const HandlerTraits& traits);
  void StartHandler(std::size_t slot);
  void HandlerBody(std::size_t slot);
  void StartManager(std::size_t slot, bool standby);
  bool AnyManager() const;
  const OutFolder& FolderOf(std::size_t slot) const {
    return folders_[drawn_.own_folders ? slot : 0];
  }
  bool Audited() const { return disturbed_ && job_.job.tasks.audit > 0; }
  void ManagerBody(std::size_t slot, bool standby);
  void StartBroker();
  std::string Reproducible(std::string text) const;

  void DrawHostile();
  void DrawHostileManager();
  void DrawFaults();
  void NextFault();
  bool Do(Fault fault);
  bool KillHandler(HandlerSlot& handler);
  void KeepAway(HandlerSlot& handler);
  bool SendHandlerAway(HandlerSlot& handler);
  bool KillManager(ManagerSlot& manager);
  bool KillsBetweenWrites();
  bool SendManagerAway(ManagerSlot& manager);
  bool KillBroker();
  bool KillAll();
  bool StopProcess(Process* process);
  bool StopBroker();
  bool BreakOne();
  bool StallOne();
  bool JumpOne();
  bool DamageSnapshot();
  void RestartHandlers();
  void RestartManager();
  bool hostile() const { return !drawn_.hostile.empty(); }
  void CheckOutcome(const Outcome& outcome, const Outcome& expected, SeedResult* result);
  HandlerSlot* AnyHandler();
  std::int64_t RestartDelayUs() { return random().Magnitude(1'000, 20 * kSecondUs); }
  void Heal();
  std::string DescribeDrawn();
  void CheckNothingIsLeft();
  void CheckEnd(const Outcome* expected, SeedResult* result);

  World world_;
  Network network_;
  Results results_;
  SimulatedJob job_;
  const std::size_t job_index_;
  const bool disturbed_;
  // One per manager. If all are on one host (or share a file system), only the first is used.
  std::array<OutFolder, 2> folders_;
  Drawn drawn_;
  BrokerHost broker_;
  std::vector<std::unique_ptr<Process>> processes_;
  std::vector<HandlerSlot> handlers_;
  std::vector<ManagerSlot> managers_;
  Faults faults_;
  bool finished_ = false;   // a manager has ended with a receipt
  bool tidied_up_ = false;  // and no process was killed since
};

}  // namespace acan::simulation
