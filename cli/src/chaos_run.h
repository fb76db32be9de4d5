// ChaosRun: trains a job while it kills, stops and slows down the processes that do it.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "child.h"
#include "local_cluster.h"
#include "log.h"
#include "nlohmann/json.hpp"

namespace acan::cli {

enum class Harm : std::uint8_t { kKill, kStop, kThrottle };
enum class Victim : std::uint8_t { kHandlers, kBroker, kManager };
// "kill handlers".
std::string FaultText(Harm harm, Victim victim);

struct ChaosOptions {
  std::vector<std::pair<Harm, Victim>> faults;  // drawn from evenly
  std::chrono::milliseconds every{2000};        // on average; from half to one and a half of it
  std::chrono::milliseconds pause{3000};        // how long something is stopped or slow
  std::uint64_t seed = 1;
  std::vector<std::string> manager_words;  // without --resume
  std::string metrics_path;                // of the manager's output
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
  struct Slowed {  // stopped or throttled
    pid_t pid = 0;
    bool is_manager = false;
    bool throttled = false;
    bool running = false;  // for now
    Clock::time_point until{};
    Clock::time_point toggle_at{};
  };

  void StartManager(bool resume);
  bool ManagerEnded();
  void Watch();
  void DoFault();
  void TendSlowed();
  bool Send(const Slowed& slowed, int signal);
  Clock::duration Pause();

  const ChaosOptions options_;
  LocalCluster& cluster_;
  Log& log_;
  std::mt19937_64 random_;
  std::optional<Child> manager_;
  std::string last_line_;
  int own_failures_ = 0;  // in a row
  std::deque<Slowed> slowed_;
  std::vector<std::pair<std::string, Clock::time_point>> unrecovered_;
  std::uintmax_t metrics_bytes_ = 0;
  ChaosReport report_;
};

}  // namespace acan::cli
