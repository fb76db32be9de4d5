// ChaosRun: trains a job while it kills, stops and slows down the job's processes and cuts their
// links.
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
// The handlers (one of them), the broker (all its links), a manager, or all of these at once.
enum class Victim : std::uint8_t { kHandlers, kBroker, kManager, kEverything };
// "kill handlers".
std::string FaultText(Harm harm, Victim victim);

struct ChaosOptions {
  std::vector<std::pair<Harm, Victim>> faults;  // each fault is equally likely
  std::chrono::milliseconds every{2000};        // on average; from half to one and a half of it
  std::chrono::milliseconds pause{3000};        // how long something is stopped, slowed or cut off
  std::uint64_t seed = 1;
  std::vector<std::string> manager_words;  // without --resume
  bool standby = false;                    // a second manager stands by
  std::string metrics_path;                // the metrics file that the manager writes
  // The links that kCut cuts; they must outlive the run. Null if there is no kCut.
  LinkRelay* handler_links = nullptr;
  LinkRelay* manager_links = nullptr;
};

struct ChaosReport {
  nlohmann::json receipt;                                 // of the run
  std::map<std::string, std::vector<double>> recovery_s;  // by FaultText: until the next step ends
  std::map<std::string, int> faults;
  std::int64_t steps_done = 0;  // counts repeated steps again
  double seconds = 0;
};

// Used on the thread that made it. Its managers end with it.
class ChaosRun {
 public:
  ChaosRun(ChaosOptions options, LocalCluster& cluster, Log& log);

  // Returns when the job is done; nullopt if `stopped` returns true before that. Throws Error
  // (failure) if the manager repeatedly fails by itself.
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
    bool running = false;  // at the moment, while throttled
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
  std::optional<std::string> receipt_line_;  // set when the job is done
  int own_failures_ = 0;                     // of managers, consecutive, not caused by a fault
  std::deque<Slowed> slowed_;
  std::vector<std::pair<std::string, Clock::time_point>> unrecovered_;
  std::uintmax_t metrics_bytes_ = 0;
  LongWait next_step_{0};
  ChaosReport report_;
};

}  // namespace acan::cli
