#include <algorithm>
#include <memory>
#include <utility>

#include "cluster/cluster.h"
#include "fmt/format.h"

namespace acan::simulation {
namespace {

// ZeroMQ's heartbeats end a connection after this time of silence.
constexpr std::int64_t kHeartbeatEndUs = 5 * kSecondUs;
constexpr std::uint64_t kHostileOneIn = 3;         // seeds
constexpr std::uint64_t kHostileManagerOneIn = 6;  // likewise

}  // namespace

// Uses its own random numbers, so that the rest of each seed's history does not depend on it.
void Cluster::DrawHostile() {
  Random random(drawn_.seed ^ 0xe711);
  const bool is_drawn = random.OneIn(kHostileOneIn);
  if (!disturbed_ || (!is_drawn && !drawn_.adds_hostile)) return;
  auto handler = std::make_unique<HostileHandler>(random.Next(), Audited());
  drawn_.hostile = handler->Describe();
  drawn_.key_is_shared = random.OneIn(3);
  world_.Note("a hostile handler, " + drawn_.hostile +
              (drawn_.key_is_shared ? " with the key of all handlers" : ""));
  broker_.SetHostile(std::move(handler), drawn_.key_is_shared);
}

// As DrawHostile. Does not happen if the faults are given.
void Cluster::DrawHostileManager() {
  Random random(drawn_.seed ^ 0x3a13);
  if (!random.OneIn(kHostileManagerOneIn) || !disturbed_ || drawn_.faults_are_given) return;
  auto manager = std::make_unique<HostileManager>(random.Next());
  drawn_.hostile_manager = manager->Describe();
  world_.Note(drawn_.hostile_manager);
  broker_.SetHostileManager(std::move(manager));
}

// A seed has only some of the faults: some defects show only while other faults do not happen.
void Cluster::DrawFaults() {
  if (!disturbed_) return;
  std::vector<Fault> faults;
  while (faults.empty()) {
    for (std::size_t i = 0; i < kFaults; ++i) {
      if (random().OneIn(3)) faults.push_back(static_cast<Fault>(i));
    }
  }
  if (!drawn_.faults_are_given) drawn_.faults = std::move(faults);
  drawn_.mean_gap_us = random().Magnitude(30'000, 4 * kSecondUs);
  // A third failure of one task would rightly end the job.
  drawn_.device_failures = faults_.failures_left = 2;
  if (random().OneIn(3)) network_.conditions.one_late_in = 20 << random().Below(5);
  if (random().OneIn(2)) drawn_.lies_one_in = 8;
  broker_.SetLiesOneIn(drawn_.lies_one_in);
  faults_.go_on = true;
  drawn_.heals_at_us = world_.now_us() + random().Magnitude(4 * kSecondUs, 120 * kSecondUs);
  world_.At(drawn_.heals_at_us, [this] { Heal(); });
  NextFault();
}

void Cluster::NextFault() {
  world_.After(random().Magnitude(drawn_.mean_gap_us / 8 + 1, drawn_.mean_gap_us * 2), [this] {
    if (!faults_.go_on || finished_) return;
    const Fault fault = drawn_.faults[random().Below(drawn_.faults.size())];
    if (Do(fault)) ++faults_.counts[static_cast<std::size_t>(fault)];
    NextFault();
  });
}

Cluster::HandlerSlot* Cluster::AnyHandler() {
  return handlers_.empty() ? nullptr : &handlers_[random().Below(handlers_.size())];
}

bool Cluster::Do(Fault fault) {
  switch (fault) {
    case Fault::kKillHandler:
      return KillHandler(*AnyHandler());
    case Fault::kHandlerLeaves:
      return SendHandlerAway(*AnyHandler());
    case Fault::kKillManager:
      return KillManager(managers_[random().Below(managers_.size())]);
    case Fault::kManagerLeaves:
      return SendManagerAway(managers_[random().Below(managers_.size())]);
    case Fault::kKillBroker:
      return KillBroker();
    case Fault::kKillAll:
      return KillAll();
    case Fault::kStopHandler:
      return StopProcess(AnyHandler()->process);
    case Fault::kStopManager:
      return StopProcess(managers_[random().Below(managers_.size())].process);
    case Fault::kStopBroker:
      return StopBroker();
    case Fault::kBreak:
      return BreakOne();
    case Fault::kStall:
      return StallOne();
    case Fault::kClockJump:
      return JumpOne();
    case Fault::kDamageSnapshot:
      return DamageSnapshot();
    case Fault::kDeviceFailure: {
      HandlerSlot& handler = *AnyHandler();
      if (handler.process == nullptr || faults_.failures_left == 0) return false;
      --faults_.failures_left;
      ++handler.process->device_failures;
      return true;
    }
    case Fault::kDeviceLost: {
      HandlerSlot& handler = *AnyHandler();
      if (handler.process == nullptr) return false;
      handler.process->device_lost = true;
      return true;
    }
    case Fault::kHandlerJoins:
      if (handlers_.size() >= kMaxHandlers) return false;
      AddHandler(DrawHandler(Audited()));
      return true;
    case Fault::kSecondManager:
      if (managers_[1].process != nullptr) return false;
      managers_[1].resume = true;
      StartManager(1, /*standby=*/random().OneIn(2));
      return true;
  }
  return false;
}

void Cluster::RestartHandlers() {
  for (std::size_t i = 0; i < handlers_.size(); ++i) StartHandler(i);
}

void Cluster::RestartManager() {
  managers_[0].resume = true;
  StartManager(0, false);
}

bool Cluster::KillHandler(HandlerSlot& handler) {
  if (handler.process == nullptr) return false;
  if (random().OneIn(3)) KeepAway(handler);
  KillProcess(handler.process);
  world_.After(RestartDelayUs(), [this] { RestartHandlers(); });
  return true;
}

// Keeps it away longer than a manager waits before it cuts the steps for the remaining handlers.
void Cluster::KeepAway(HandlerSlot& handler) {
  const std::int64_t away_us = random().Between(3 * kSecondUs, 15 * kSecondUs);
  handler.away_until_us = world_.now_us() + away_us;
  world_.At(handler.away_until_us, [this] { RestartHandlers(); });
}

// A handler that cannot get the request to leave is killed.
bool Cluster::SendHandlerAway(HandlerSlot& handler) {
  if (handler.process == nullptr || handler.running == nullptr || handler.process->stopped()) {
    return KillHandler(handler);
  }
  if (random().OneIn(3)) KeepAway(handler);
  world_.Note("leaves: " + handler.process->name());
  handler.running->Stop();  // it comes back later
  return true;
}

bool Cluster::KillManager(ManagerSlot& manager) {
  if (manager.process == nullptr) return false;
  KillProcess(manager.process);
  world_.After(RestartDelayUs(), [this] { RestartManager(); });
  return true;
}

// Decides whether a manager that commits a step is killed between two writes to its files. A seed
// that draws its faults may do so whichever it draws. If the faults are given, kKillManager must be
// one of them. The random number is drawn in any case, so that only the kills differ.
bool Cluster::KillsBetweenWrites() {
  if (!faults_.go_on || !random().OneIn(64)) return false;
  return !drawn_.faults_are_given ||
         std::ranges::find(drawn_.faults, Fault::kKillManager) != drawn_.faults.end();
}

// Like a signal to stop. The manager is started again later, and resumes.
bool Cluster::SendManagerAway(ManagerSlot& manager) {
  if (manager.process == nullptr || manager.running == nullptr || manager.process->stopped()) {
    return KillManager(manager);
  }
  world_.Note("is asked to stop: " + manager.process->name());
  manager.running->Stop(std::chrono::microseconds(random().Magnitude(1, 20 * kSecondUs)));
  return true;
}

bool Cluster::KillBroker() {
  if (!broker_.running()) return false;
  world_.Note("killed: the broker");
  broker_.Kill();
  world_.After(RestartDelayUs(), [this] { StartBroker(); });
  return true;
}

bool Cluster::KillAll() {
  world_.Note("everything is killed at once");
  broker_.Kill();
  for (HandlerSlot& handler : handlers_) KillProcess(handler.process);
  for (ManagerSlot& manager : managers_) KillProcess(manager.process);
  world_.After(RestartDelayUs(), [this] { StartBroker(); });
  world_.After(RestartDelayUs(), [this] { RestartManager(); });
  world_.After(RestartDelayUs(), [this] { RestartHandlers(); });
  return true;
}

bool Cluster::StopProcess(Process* process) {
  if (process == nullptr || !process->alive() || process->stopped()) return false;
  const std::int64_t duration_us = random().Magnitude(10'000, 40 * kSecondUs);
  world_.Note(fmt::format("stopped for {} us: {}", duration_us, process->name()));
  process->Stop();
  world_.After(duration_us, [process] { process->Continue(); });
  if (duration_us < kHeartbeatEndUs) return true;
  for (const auto& connection : network_.Up()) {
    if (connection->process() != process) continue;
    network_.Break(connection, duration_us, kHeartbeatEndUs + random().Magnitude(1, kSecondUs));
  }
  return true;
}

bool Cluster::StopBroker() {
  if (!broker_.running() || broker_.stopped()) return false;
  const std::int64_t duration_us = random().Magnitude(10'000, 30 * kSecondUs);
  world_.Note(fmt::format("stopped for {} us: the broker", duration_us));
  broker_.Stop();
  world_.After(duration_us, [this, life = broker_.life()] {
    if (broker_.life() == life) broker_.Continue();
  });
  if (duration_us < kHeartbeatEndUs) return true;
  for (const auto& connection : network_.Up()) {
    network_.Break(connection, kHeartbeatEndUs + random().Magnitude(1, kSecondUs), duration_us);
  }
  return true;
}

bool Cluster::BreakOne() {
  const auto up = network_.Up();
  if (up.empty()) return false;
  const auto& connection = up[random().Below(up.size())];
  world_.Note("a connection ends: " + connection->process()->name());
  network_.Break(connection, random().Magnitude(100, 6 * kSecondUs),
                 random().Magnitude(100, 6 * kSecondUs));
  return true;
}

bool Cluster::StallOne() {
  const auto up = network_.Up();
  if (up.empty()) return false;
  const auto connection = up[random().Below(up.size())];
  const Network::Way way = random().OneIn(2) ? Network::Way::kToBroker : Network::Way::kToClient;
  const std::int64_t duration_us = random().Magnitude(10'000, 20 * kSecondUs);
  world_.Note(fmt::format("nothing gets {} for {} us: {}",
                          way == Network::Way::kToBroker ? "out" : "in", duration_us,
                          connection->process()->name()));
  network_.Stall(connection, way, duration_us);
  if (duration_us < kHeartbeatEndUs) return true;
  world_.After(kHeartbeatEndUs, [this, connection] {
    network_.Break(connection, random().Magnitude(100, kSecondUs),
                   random().Magnitude(100, kSecondUs));
  });
  return true;
}

bool Cluster::JumpOne() {
  const std::int64_t forward_us = random().Magnitude(1'000, 60 * kSecondUs);
  if (random().OneIn(4)) {
    if (!broker_.running()) return false;
    world_.Note(fmt::format("the broker's clock jumps by {} us", forward_us));
    broker_.JumpClock(forward_us);
    return true;
  }
  std::vector<Process*> alive;
  for (const auto& process : processes_) {
    if (process->alive() && !process->ended()) alive.push_back(process.get());
  }
  if (alive.empty()) return false;
  Process* const process = alive[random().Below(alive.size())];
  world_.Note(fmt::format("the clock jumps by {} us: {}", forward_us, process->name()));
  process->JumpClock(forward_us);
  return true;
}

// Like a power failure: managers die, and their last writes are damaged.
bool Cluster::DamageSnapshot() {
  for (ManagerSlot& manager : managers_) KillProcess(manager.process);
  world_.After(RestartDelayUs(), [this] { RestartManager(); });
  const std::size_t slot = drawn_.own_folders ? random().Below(folders_.size()) : 0;
  if (!FolderOf(slot).DamageSnapshot(random())) return true;
  world_.Note("a snapshot is damaged");
  return true;
}

void Cluster::Heal() {
  if (!faults_.go_on) return;
  world_.Note("no more faults");
  faults_.go_on = false;
  broker_.SetLiesOneIn(0);
  network_.conditions.one_late_in = 0;
  for (const auto& process : processes_) process->Continue();
  broker_.Continue();
  StartBroker();
  for (HandlerSlot& handler : handlers_) handler.away_until_us = 0;
  RestartHandlers();
  RestartManager();
}

}  // namespace acan::simulation
