#include "chaos_run.h"

#include <poll.h>
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>

#include "acan/core/error.h"
#include "acan/core/text/json_text.h"
#include "fmt/format.h"
#include "fmt/ranges.h"

namespace acan::cli {
namespace {

using std::chrono::milliseconds;

constexpr int kLookEveryMs = 5;
constexpr milliseconds kThrottleTurn{20};  // stopped as long as running: half the speed
constexpr int kMaxOwnFailures = 5;

double Seconds(std::chrono::steady_clock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

bool IsReceipt(const std::string& line) {
  const nlohmann::json json = ParseJsonOrDiscard(line);
  return json.is_object() && json.contains("weights_sha256");
}

}  // namespace

std::string FaultText(Harm harm, Victim victim) {
  const char* const harms[] = {"kill", "stop", "throttle", "cut"};
  const char* const victims[] = {"handlers", "broker", "manager", "everything"};
  return fmt::format("{} {}", harms[static_cast<int>(harm)], victims[static_cast<int>(victim)]);
}

ChaosRun::ChaosRun(ChaosOptions options, LocalCluster& cluster, Log& log)
    : options_(std::move(options)), cluster_(cluster), log_(log), random_(options_.seed) {}

std::optional<ChaosReport> ChaosRun::Run(const std::function<bool()>& stopped) {
  const Clock::time_point begin = Clock::now();
  next_step_.Begin(MicrosecondsOf(begin));
  for (int i = 0; i < (options_.standby ? 2 : 1); ++i) {
    StartManager(options_.standby ? "--standby" : nullptr);
  }
  Clock::time_point next_fault = begin + Pause();
  while (!managers_.empty()) {
    if (stopped()) {
      for (const Slowed& slowed : slowed_) Send(slowed.pid, SIGCONT);
      return std::nullopt;
    }
    if (const auto failure = cluster_.failure()) throw FailureError(*failure);
    std::vector<pollfd> fds;
    for (const Manager& manager : managers_) {
      fds.push_back({manager.child.out_fd(), POLLIN, 0});
      fds.push_back({manager.child.err_fd(), POLLIN, 0});
    }
    ::poll(fds.data(), fds.size(), kLookEveryMs);
    Watch();
    TendManagers();
    TendSlowed();
    SayIfNothingMoves();
    if (!receipt_line_ && Clock::now() >= next_fault) {
      DoFault();
      next_fault = Clock::now() + Pause();
    }
  }
  for (const Slowed& slowed : slowed_) Send(slowed.pid, SIGCONT);
  report_.seconds = Seconds(Clock::now() - begin);
  report_.receipt = ParseJsonOrDiscard(*receipt_line_);
  if (!report_.receipt.is_object()) {
    throw FailureError("the manager ended without a receipt");
  }
  return std::move(report_);
}

std::size_t ChaosRun::Draw(std::size_t count) {
  return std::uniform_int_distribution<std::size_t>(0, count - 1)(random_);
}

ChaosRun::Clock::duration ChaosRun::Pause() {
  std::uniform_real_distribution<double> factor(0.5, 1.5);
  return std::chrono::duration_cast<Clock::duration>(options_.every * factor(random_));
}

void ChaosRun::StartManager(const char* flag) {
  std::vector<std::string> words = options_.manager_words;
  if (flag != nullptr) words.emplace_back(flag);
  managers_.push_back({Child(words), {}});
}

// Reads the managers' output, and restarts managers that died before the job was done.
void ChaosRun::TendManagers() {
  const std::size_t count = managers_.size();  // those started here have to wait
  auto manager = managers_.begin();
  for (std::size_t i = 0; i < count; ++i) {
    for (std::string& line : manager->child.ReadOut()) manager->last_line = std::move(line);
    for (const std::string& line : manager->child.ReadErr()) log_.Raw(line);
    if (manager->child.out_fd() >= 0) {
      ++manager;
      continue;
    }
    ManagerDied(*manager);
    manager = managers_.erase(manager);
  }
}

void ChaosRun::ManagerDied(Manager& manager) {
  const pid_t pid = manager.child.pid();
  std::erase_if(slowed_, [pid](const Slowed& slowed) { return slowed.pid == pid; });
  const Exit exit = manager.child.Wait();
  // A manager whose run diverged, or whose weights are in doubt, prints a receipt and fails.
  const bool failed_at_end = exit.code == 1 && IsReceipt(manager.last_line);
  if (exit.signal == 0 && (exit.code == 0 || failed_at_end)) {
    if (!receipt_line_) receipt_line_ = std::move(manager.last_line);
    return;
  }
  if (receipt_line_) return;  // a standby that was killed after the job was done
  own_failures_ = exit.signal == SIGKILL ? 0 : own_failures_ + 1;
  if ((exit.signal == 0 && exit.code == 2) || own_failures_ >= kMaxOwnFailures) {
    throw FailureError(fmt::format("the manager (pid {}) {}", pid, exit.Text()));
  }
  log_.Warning(fmt::format("the manager (pid {}) {}; restarting it", pid, exit.Text()));
  StartManager(options_.standby ? "--standby" : "--resume");
}

// A new line of a finished step in the metrics ends the recovery of the faults before it.
void ChaosRun::Watch() {
  std::error_code error;
  const std::uintmax_t bytes = std::filesystem::file_size(options_.metrics_path, error);
  if (error || bytes <= metrics_bytes_) {
    if (!error) metrics_bytes_ = bytes;  // a manager that resumed has truncated it
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
  own_failures_ = 0;
  const Clock::time_point now = Clock::now();
  next_step_.Begin(MicrosecondsOf(now));
  for (const auto& [fault, since] : unrecovered_) {
    report_.recovery_s[fault].push_back(Seconds(now - since));
  }
  unrecovered_.clear();
}

// The managers themselves report what they wait for, if they can.
void ChaosRun::SayIfNothingMoves() {
  const auto seconds = next_step_.Due(MicrosecondsOf(Clock::now()));
  if (!seconds) return;
  std::string waits = receipt_line_ ? "the job is done, but its managers have not ended"
                                    : "no new line in " + options_.metrics_path;
  if (!receipt_line_ && !unrecovered_.empty()) {
    waits += fmt::format("; the last fault was: {}", unrecovered_.back().first);
  }
  log_.Warning(fmt::format("{} ({} s)", waits, *seconds));
}

void ChaosRun::DoFault() {
  const auto& [harm, victim] = options_.faults[Draw(options_.faults.size())];
  std::string done_to;
  if (harm == Harm::kCut) {
    if (!Cut(victim)) return;
  } else {
    std::vector<pid_t> hit;
    for (const pid_t pid : Pids(victim)) {
      if (Send(pid, harm == Harm::kKill ? SIGKILL : SIGSTOP)) hit.push_back(pid);
    }
    if (hit.empty()) return;  // it is being restarted
    for (const pid_t pid : hit) {
      std::erase_if(slowed_, [pid](const Slowed& slowed) { return slowed.pid == pid; });
      if (harm != Harm::kKill) Slow(pid, harm == Harm::kThrottle);
    }
    done_to = fmt::format(" (pid {})", fmt::join(hit, ", "));
  }
  const std::string fault = FaultText(harm, victim);
  log_.Warning(fault + done_to);
  ++report_.faults[fault];
  unrecovered_.emplace_back(fault, Clock::now());
}

bool ChaosRun::Cut(Victim victim) {
  const auto afterwards =
      Draw(2) == 0 ? LinkRelay::Afterwards::kGoOn : LinkRelay::Afterwards::kReset;
  switch (victim) {
    case Victim::kHandlers:
      return options_.handler_links->Cut(options_.pause, afterwards, random_);
    case Victim::kManager:
      return options_.manager_links->Cut(options_.pause, afterwards, random_);
    case Victim::kBroker:
    case Victim::kEverything:
      options_.handler_links->CutAll(options_.pause, afterwards);
      options_.manager_links->CutAll(options_.pause, afterwards);
      return true;
  }
  return false;
}

// The processes to harm; empty while they are being restarted.
std::vector<pid_t> ChaosRun::Pids(Victim victim) {
  std::vector<pid_t> managers;
  for (const Manager& manager : managers_) managers.push_back(manager.child.pid());
  const std::vector<pid_t> handlers = cluster_.Pids(LocalCluster::Part::kHandler);
  std::vector<pid_t> broker = cluster_.Pids(LocalCluster::Part::kBroker);
  const auto one_of = [this](const std::vector<pid_t>& pids) {
    return pids.empty() ? pids : std::vector<pid_t>{pids[Draw(pids.size())]};
  };
  switch (victim) {
    case Victim::kHandlers:
      return one_of(handlers);
    case Victim::kBroker:
      return broker;
    case Victim::kManager:
      return one_of(managers);
    case Victim::kEverything:
      break;
  }
  std::vector<pid_t> all = handlers;
  all.insert(all.end(), broker.begin(), broker.end());
  all.insert(all.end(), managers.begin(), managers.end());
  return all;
}

void ChaosRun::Slow(pid_t pid, bool throttle) {
  Slowed slowed;
  slowed.pid = pid;
  slowed.throttled = throttle;
  slowed.until = Clock::now() + options_.pause;
  slowed.toggle_at = Clock::now() + kThrottleTurn;
  slowed_.push_back(slowed);
}

void ChaosRun::TendSlowed() {
  const Clock::time_point now = Clock::now();
  for (Slowed& slowed : slowed_) {
    if (now >= slowed.until) {
      Send(slowed.pid, SIGCONT);
    } else if (slowed.throttled && now >= slowed.toggle_at) {
      Send(slowed.pid, slowed.running ? SIGSTOP : SIGCONT);
      slowed.running = !slowed.running;
      slowed.toggle_at = now + kThrottleTurn;
    }
  }
  std::erase_if(slowed_, [now](const Slowed& slowed) { return now >= slowed.until; });
}

bool ChaosRun::Send(pid_t pid, int signal) {
  for (Manager& manager : managers_) {
    if (manager.child.pid() != pid) continue;
    manager.child.Signal(signal);
    return true;
  }
  return cluster_.Signal(pid, signal);
}

}  // namespace acan::cli
