// ChaosRun: trains a job while it kills, stops and slows down the processes that do it, and cuts
// their links.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "acan/core/long_wait.h"
#include "child.h"
#include "link_relay.h"
#include "local_cluster.h"
#include "log.h"
#include "nlohmann/json.hpp"

namespace acan::cli {

enum class Harm : std::uint8_t { kKill, kStop, kThrottle, kCut };
// One of the handlers, the broker (all its links), a manager, or all of them at once.
enum class Victim : std::uint8_t { kHandlers, kBroker, kManager, kEverything };
// "kill handlers".
std::string FaultText(Harm harm, Victim victim);

struct ChaosOptions {
  std::vector<std::pair<Harm, Victim>> faults;  // drawn from evenly
  std::chrono::milliseconds every{2000};        // on average; from half to one and a half of it
  std::chrono::milliseconds pause{3000};        // how long something is stopped, slow or cut off
  std::uint64_t seed = 1;
  std::vector<std::string> manager_words;  // without --resume
  bool standby = false;                    // a second manager stands by
  std::string metrics_path;                // of the manager's output
  // The links that kCut cuts; must outlive the run. Null if there is no kCut.
  LinkRelay* handler_links = nullptr;
  LinkRelay* manager_links = nullptr;
};

struct ChaosReport {
  nlohmann::json receipt;                                 // of the run
  std::map<std::string, std::vector<double>> recovery_s;  // by FaultText: to the next step's end
  std::map<std::string, int> faults;
  std::int64_t steps_done = 0;  // those done again counted again
  double seconds = 0;
};

// Lives on the thread that made it. Its manager ends with it.
class ChaosRun {
 public:
  ChaosRun(ChaosOptions options, LocalCluster& cluster, Log& log);

  // Until the job is done. nullopt if `stopped` says so between. Throws Error (failure) if the
  // manager fails by itself again and again.
  std::optional<ChaosReport> Run(const std::function<bool()>& stopped);

 private:
  using Clock = std::chrono::steady_clock;
  struct Manager {
    Child child;
    std::string last_line;
  };
  struct Slowed {  // stopped or throttled
    pid_t pid = 0;
    bool throttled = false;
    bool running = false;  // for now
    Clock::time_point until{};
    Clock::time_point toggle_at{};
  };

  void StartManager(const char* flag);
  void TendManagers();
  void SayIfNothingMoves();
  void ManagerDied(Manager& manager);
  void Watch();
  void DoFault();
  bool Cut(Victim victim);
  std::vector<pid_t> Pids(Victim victim);
  void Slow(pid_t pid, bool throttle);
  void TendSlowed();
  bool Send(pid_t pid, int signal);
  Clock::duration Pause();
  std::size_t Draw(std::size_t count);  // from 0 to count - 1

  const ChaosOptions options_;
  LocalCluster& cluster_;
  Log& log_;
  std::mt19937_64 random_;
  std::list<Manager> managers_;
  std::optional<std::string> receipt_line_;  // the job is done
  int own_failures_ = 0;                     // of managers, in a row
  std::deque<Slowed> slowed_;
  std::vector<std::pair<std::string, Clock::time_point>> unrecovered_;
  std::uintmax_t metrics_bytes_ = 0;
  LongWait next_step_{0};
  ChaosReport report_;
};

}  // namespace acan::cli
