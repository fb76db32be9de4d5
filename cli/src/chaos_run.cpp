#include "chaos_run.h"

#include <poll.h>
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>

#include "acan/core/error.h"
#include "fmt/format.h"

namespace acan::cli {
namespace {

using std::chrono::milliseconds;

constexpr int kLookEveryMs = 5;
constexpr milliseconds kThrottleTurn{20};  // stopped as long as running: half the speed
constexpr int kMostOwnFailures = 5;

double Seconds(std::chrono::steady_clock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

}  // namespace

std::string FaultText(Harm harm, Victim victim) {
  const char* const harms[] = {"kill", "stop", "throttle"};
  const char* const victims[] = {"handlers", "broker", "manager"};
  return fmt::format("{} {}", harms[static_cast<int>(harm)], victims[static_cast<int>(victim)]);
}

ChaosRun::ChaosRun(ChaosOptions options, LocalCluster& cluster, Log& log)
    : options_(std::move(options)), cluster_(cluster), log_(log), random_(options_.seed) {}

std::optional<ChaosReport> ChaosRun::Run(const std::function<bool()>& stopped) {
  const Clock::time_point begin = Clock::now();
  StartManager(false);
  Clock::time_point next_fault = begin + Pause();
  for (;;) {
    if (stopped()) {
      for (const Slowed& slowed : slowed_) Send(slowed, SIGCONT);
      return std::nullopt;
    }
    if (const auto failure = cluster_.failure()) throw FailureError(*failure);
    pollfd fds[] = {{manager_->out_fd(), POLLIN, 0}, {manager_->err_fd(), POLLIN, 0}};
    ::poll(fds, 2, kLookEveryMs);
    Watch();
    if (ManagerEnded()) break;
    TendSlowed();
    if (Clock::now() >= next_fault) {
      DoFault();
      next_fault = Clock::now() + Pause();
    }
  }
  for (const Slowed& slowed : slowed_) Send(slowed, SIGCONT);
  report_.seconds = Seconds(Clock::now() - begin);
  report_.receipt = nlohmann::json::parse(last_line_, nullptr, /*allow_exceptions=*/false);
  if (!report_.receipt.is_object()) {
    throw FailureError("the manager ended without a receipt");
  }
  return std::move(report_);
}

ChaosRun::Clock::duration ChaosRun::Pause() {
  std::uniform_real_distribution<double> factor(0.5, 1.5);
  return std::chrono::duration_cast<Clock::duration>(options_.every * factor(random_));
}

void ChaosRun::StartManager(bool resume) {
  std::vector<std::string> words = options_.manager_words;
  if (resume) words.emplace_back("--resume");
  manager_.emplace(words);
}

// Reads what the manager says; starts it again if it died. True when the job is done.
bool ChaosRun::ManagerEnded() {
  for (std::string& line : manager_->ReadOut()) last_line_ = std::move(line);
  for (const std::string& line : manager_->ReadErr()) log_.Raw(line);
  if (manager_->out_fd() >= 0) return false;
  const pid_t pid = manager_->pid();
  std::erase_if(slowed_, [pid](const Slowed& slowed) { return slowed.pid == pid; });
  const Exit exit = manager_->Wait();
  if (exit.signal == 0 && exit.code == 0) return true;
  own_failures_ = exit.signal == SIGKILL ? 0 : own_failures_ + 1;
  if ((exit.signal == 0 && exit.code == 2) || own_failures_ >= kMostOwnFailures) {
    throw FailureError(fmt::format("the manager (pid {}) {}", pid, exit.Text()));
  }
  log_.Warning(fmt::format("the manager (pid {}) {}; starting it again", pid, exit.Text()));
  manager_.reset();
  StartManager(true);
  return false;
}

// New lines of finished steps in the metrics end the recovery of the faults before them.
void ChaosRun::Watch() {
  std::error_code error;
  const std::uintmax_t bytes = std::filesystem::file_size(options_.metrics_path, error);
  if (error || bytes <= metrics_bytes_) {
    if (!error) metrics_bytes_ = bytes;  // cut by a manager that resumes
    return;
  }
  std::ifstream file(options_.metrics_path, std::ios::binary);
  file.seekg(static_cast<std::streamoff>(metrics_bytes_));
  std::int64_t steps = 0;
  for (std::string line; std::getline(file, line) && !file.eof();) {
    metrics_bytes_ += line.size() + 1;
    steps += line.find("\"loss\"") != std::string::npos;
  }
  if (steps == 0) return;
  report_.steps_done += steps;
  const Clock::time_point now = Clock::now();
  for (const auto& [fault, since] : unrecovered_) {
    report_.recovery_s[fault].push_back(Seconds(now - since));
  }
  unrecovered_.clear();
}

void ChaosRun::DoFault() {
  const auto pick = [this](std::size_t count) {
    return std::uniform_int_distribution<std::size_t>(0, count - 1)(random_);
  };
  const auto& [harm, victim] = options_.faults[pick(options_.faults.size())];
  Slowed slowed;
  slowed.is_manager = victim == Victim::kManager;
  if (slowed.is_manager) {
    slowed.pid = manager_->pid();
  } else {
    const std::vector<pid_t> pids = cluster_.Pids(
        victim == Victim::kBroker ? LocalCluster::Part::kBroker : LocalCluster::Part::kHandler);
    if (pids.empty()) return;  // it is being started again
    slowed.pid = pids[pick(pids.size())];
  }
  if (!Send(slowed, harm == Harm::kKill ? SIGKILL : SIGSTOP)) return;
  const std::string fault = FaultText(harm, victim);
  log_.Warning(fmt::format("chaos: {} (pid {})", fault, slowed.pid));
  ++report_.faults[fault];
  unrecovered_.emplace_back(fault, Clock::now());
  if (harm == Harm::kKill) {
    std::erase_if(slowed_, [&slowed](const Slowed& s) { return s.pid == slowed.pid; });
    return;
  }
  slowed.throttled = harm == Harm::kThrottle;
  slowed.until = Clock::now() + options_.pause;
  slowed.toggle_at = Clock::now() + kThrottleTurn;
  slowed_.push_back(slowed);
}

void ChaosRun::TendSlowed() {
  const Clock::time_point now = Clock::now();
  for (Slowed& slowed : slowed_) {
    if (now >= slowed.until) {
      Send(slowed, SIGCONT);
    } else if (slowed.throttled && now >= slowed.toggle_at) {
      Send(slowed, slowed.running ? SIGSTOP : SIGCONT);
      slowed.running = !slowed.running;
      slowed.toggle_at = now + kThrottleTurn;
    }
  }
  std::erase_if(slowed_, [now](const Slowed& slowed) { return now >= slowed.until; });
}

bool ChaosRun::Send(const Slowed& slowed, int signal) {
  if (!slowed.is_manager) return cluster_.Signal(slowed.pid, signal);
  if (!manager_ || manager_->pid() != slowed.pid) return false;
  manager_->Signal(signal);
  return true;
}

}  // namespace acan::cli
