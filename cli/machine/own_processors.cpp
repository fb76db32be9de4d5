#include "own_processors.h"

#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <sstream>
#include <system_error>
#include <utility>

#include "fmt/format.h"

namespace acan::cli {
namespace {

// Other programs need little if they use at most this much of one processor, and this much of each.
// Some use is always there, and times are known only in clock ticks.
constexpr double kLittle = 0.25;
constexpr double kLittleOfEach = 0.01;
// A program that came once will probably come again.
constexpr int kQuietAfterOthers = 10;

double SecondsOf(const timeval& time) {
  return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
}

// The time of this process and of its children that have ended.
double ComputedSecondsHere() {
  double seconds = 0;
  for (const auto who : {RUSAGE_SELF, RUSAGE_CHILDREN}) {
    rusage usage{};
    if (::getrusage(who, &usage) != 0) continue;
    seconds += SecondsOf(usage.ru_utime) + SecondsOf(usage.ru_stime);
  }
  return seconds;
}

double TicksPerSecond() {
  return static_cast<double>(::sysconf(_SC_CLK_TCK));
}

}  // namespace

std::vector<Processors> ShareOut(const Processors& usable, const std::vector<int>& threads) {
  const auto all =
      std::accumulate(threads.begin(), threads.end(), std::size_t{0},
                      [](std::size_t sum, int n) { return sum + static_cast<std::size_t>(n); });
  std::vector<Processors> shares;
  if (threads.size() < 2 || all != usable.size()) return shares;
  auto next = usable.begin();
  for (const int n : threads) {
    shares.emplace_back(next, next + n);
    next += n;
  }
  return shares;
}

// A line is "cpu1 user nice system idle iowait irq softirq steal guest guest_nice", in ticks;
// "user" and "nice" include the times of guests.
std::optional<double> BusySeconds(const Processors& processors, const std::string& root) {
  constexpr int kFields = 8, kIdle = 3, kWaitsForDisk = 4;
  std::ifstream file(root + "/proc/stat");
  double ticks = 0;
  std::size_t found = 0;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string name;
    words >> name;
    if (!name.starts_with("cpu")) break;  // the processors' lines come first
    int processor = -1;
    std::from_chars(name.data() + 3, name.data() + name.size(), processor);
    if (!std::binary_search(processors.begin(), processors.end(), processor)) continue;
    ++found;
    double value = 0;
    for (int field = 0; field < kFields && words >> value; ++field) {
      if (field != kIdle && field != kWaitsForDisk) ticks += value;
    }
  }
  if (found != processors.size()) return std::nullopt;
  return ticks / TicksPerSecond();
}

// The name of the program, in brackets, may contain any character. After it come the state and ten
// numbers, then the ticks in user and in system mode.
std::optional<double> ComputedSeconds(pid_t process, const std::string& root) {
  constexpr int kBefore = 11;
  std::ifstream file(fmt::format("{}/proc/{}/stat", root, process));
  std::string text;
  std::getline(file, text);
  const std::size_t end_of_name = text.rfind(')');
  if (end_of_name == std::string::npos) return std::nullopt;
  std::istringstream words(text.substr(end_of_name + 1));
  std::string skipped;
  for (int i = 0; i < kBefore; ++i) words >> skipped;
  double user = 0, system = 0;
  if (!(words >> user >> system)) return std::nullopt;
  return (user + system) / TicksPerSecond();
}

void KeepOn(pid_t process, const Processors& processors) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int processor : processors) CPU_SET(static_cast<std::size_t>(processor), &set);
  std::error_code gone;  // the process or a thread has ended
  const std::filesystem::directory_iterator threads(fmt::format("/proc/{}/task", process), gone);
  for (auto thread = begin(threads); !gone && thread != end(threads); thread.increment(gone)) {
    const std::string name = thread->path().filename();
    pid_t id = 0;
    std::from_chars(name.data(), name.data() + name.size(), id);
    if (id > 0) ::sched_setaffinity(id, sizeof(set), &set);
  }
}

bool KeepPolicy::Look(double now_s, double busy_s, double own_s) {
  if (last_ && now_s <= last_->now_s) return keeps_;
  const std::optional<Seen> last = std::exchange(last_, Seen{now_s, busy_s, own_s});
  if (!last) return keeps_;
  const double others = (busy_s - last->busy_s - (own_s - last->own_s)) / (now_s - last->now_s);
  if (others > kLittle + kLittleOfEach * static_cast<double>(processors_)) {
    quiet_ = 0;
    wants_quiet_ = kQuietAfterOthers;
    keeps_ = false;
  } else if (++quiet_ >= wants_quiet_) {
    keeps_ = true;
  }
  return keeps_;
}

OwnProcessors::OwnProcessors(const Processors& usable, const std::vector<int>& threads,
                             std::string root)
    : usable_(usable),
      shares_(ShareOut(usable, threads)),
      root_(std::move(root)),
      policy_(usable.size()) {}

void OwnProcessors::Look(const std::vector<pid_t>& handlers, const std::vector<pid_t>& others) {
  if (!CanKeep()) return;
  const std::optional<double> busy_s = BusySeconds(usable_, root_);
  if (!busy_s) return;
  double own_s = ComputedSecondsHere();
  for (const std::vector<pid_t>* some : {&handlers, &others}) {
    for (const pid_t process : *some) {
      if (process > 0) own_s += ComputedSeconds(process, root_).value_or(0);
    }
  }
  const std::chrono::duration<double> now = std::chrono::steady_clock::now().time_since_epoch();
  const bool kept = policy_.keeps();
  const bool keeps = policy_.Look(now.count(), *busy_s, own_s);
  if (!keeps && !kept) return;
  for (std::size_t i = 0; i < handlers.size(); ++i) {
    if (handlers[i] > 0) KeepOn(handlers[i], keeps ? shares_.at(i) : usable_);
  }
}

}  // namespace acan::cli
