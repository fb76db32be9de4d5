#include "local_cluster.h"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <exception>
#include <future>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "acan/core/error.h"
#include "acan/core/long_wait.h"
#include "acan/core/text/system_error_text.h"
#include "child.h"
#include "fmt/format.h"
#include "machine.h"
#include "own_processors.h"
#include "poll_timeout.h"
#include "process_setup.h"
#include "role.h"
#include "scratch_folder.h"

namespace acan::cli {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kShortLife{5000};  // a handler that dies younger is restarted after a delay
constexpr milliseconds kFirstBackoff{50};
constexpr milliseconds kMaxBackoff{2000};
constexpr int kMaxFailedStarts = 5;              // consecutive, by its own fault; then no more
constexpr int kYoungKillsSaid = 3;               // consecutive, of handlers: memory may be short
constexpr milliseconds kStopPatience{8000};      // then SIGKILL
constexpr milliseconds kBrokerPatience{60'000};  // until it listens
constexpr int kLookAgainMs = 1'000;
constexpr std::size_t kDescriptorsOfHandler = 4;  // pipes, two of them only during a start
// A control group counts the threads of all its processes: of this one, of the broker, and of one
// handler, which is the minimum for a useful cluster.
constexpr std::size_t kMinThreadsOfCluster =
    kMinThreads + (1 + kMinThreadsOfBroker) + (1 + kMinThreads);

// When a process that died is restarted: immediately, or after growing delays if it dies young.
struct Restart {
  int short_lives = 0;    // in a row
  int failed_starts = 0;  // in a row
  bool give_up = false;

  milliseconds AfterLife(milliseconds life, const Exit& exit);
};

// The place of a handler, whose process may change.
struct Slot {
  DeviceSpec spec;
  std::optional<Child> child;
  Clock::time_point started{};
  Clock::time_point start_at{};  // if there is no child
  Restart restart;
};

// The number of threads of each handler. Empty if one of them has another kind of device, whose
// driver may need any processor.
std::vector<int> ThreadsOf(const std::vector<DeviceSpec>& handlers) {
  std::vector<int> threads;
  for (const DeviceSpec& handler : handlers) {
    if (handler.backend != "cpu") return {};
    threads.push_back(handler.threads);
  }
  return threads;
}

bool BlamesItself(const Exit& exit) {
  return exit.signal != SIGKILL && exit.signal != SIGTERM && (exit.signal != 0 || exit.code != 0) &&
         exit.code < 128;
}

milliseconds Restart::AfterLife(milliseconds life, const Exit& exit) {
  const bool young = life < kShortLife;
  short_lives = young ? short_lives + 1 : 0;
  failed_starts = young && BlamesItself(exit) ? failed_starts + 1 : 0;
  // A usage error recurs at every start.
  give_up = (exit.signal == 0 && exit.code == 2) || failed_starts >= kMaxFailedStarts;
  const int doublings = std::clamp(short_lives - 2, 0, 10);
  return short_lives < 2 ? milliseconds(0)
                         : std::min(kFirstBackoff * (1 << doublings), kMaxBackoff);
}

}  // namespace

struct LocalCluster::Impl {
  LocalClusterOptions options;
  Log& log;
  std::optional<ScratchFolder> folder;  // of the broker's socket, which tcp does without
  std::string endpoint;
  std::string handlers_endpoint;
  std::optional<Child> broker;
  Clock::time_point broker_started{};
  Clock::time_point broker_start_at{};  // if there is no broker
  Restart broker_restart;
  std::vector<Slot> slots;
  OwnProcessors own_processors;
  Clock::time_point look_at{};  // when to look at the use of the processors
  int wake_fd = -1;
  std::atomic<bool> stopping{false};
  std::atomic<std::uint64_t> restarts{0};
  int young_kills = 0;       // handlers killed soon after their start, in a row
  mutable std::mutex mutex;  // guards what follows
  struct Process {
    Part part;
    bool is_killed = false;  // by Signal
  };
  std::map<pid_t, Process> pids;
  std::vector<DeviceSpec> coming;  // the handlers that are not given up
  std::optional<std::string> failure;
  std::function<void()> on_failure;
  std::thread thread;  // starts all children and outlives them

  Impl(LocalClusterOptions given, Log& given_log)
      : options(std::move(given)),
        log(given_log),
        own_processors(ThisMachine().cpus, ThreadsOf(options.handlers)),
        coming(options.handlers) {
    for (const DeviceSpec& spec : options.handlers) slots.emplace_back().spec = spec;
    // If this process is killed, the broker removes the folder, which it finds by its endpoint.
    if (options.transport == Transport::kIpc) folder.emplace();
  }

  std::vector<std::string> LogFlags() const {
    return {"--log-format", log.format() == LogFormat::kJson ? "json" : "text"};
  }

  Child Start(Part part, std::vector<std::string> words) {
    for (std::string& word : LogFlags()) words.push_back(std::move(word));
    const std::lock_guard lock(mutex);
    Child child(words);
    pids.emplace(child.pid(), Process{part});
    return child;
  }

  Exit Reap(Child& child) {
    {
      const std::lock_guard lock(mutex);
      pids.erase(child.pid());  // before the system can reuse its number
    }
    return child.Wait();
  }

  // Starts the first broker; returns when it listens.
  void AwaitBroker() {
    const std::string listen = folder ? "ipc://" + folder->path() + "/space" : "tcp://127.0.0.1:*";
    StartBroker(listen);
    const Clock::time_point deadline = broker_started + kBrokerPatience;
    LongWait wait(MicrosecondsOf(broker_started));
    while (endpoint.empty()) {
      if (options.stopped && options.stopped()) throw Stopped{};
      PollChildren(kLookAgainMs);
      if (broker->out_fd() < 0) {
        throw FailureError("the broker on " + listen + " " + Reap(*broker).Text() +
                           " before it listened");
      }
      const std::string who = fmt::format("the broker (pid {})", broker->pid());
      if (const auto seconds = wait.Due(MicrosecondsOf(Clock::now()))) {
        log.Warning(fmt::format("{} does not listen on {} yet after {} s; waiting for it", who,
                                listen, *seconds));
      }
      if (Clock::now() >= deadline && endpoint.empty()) {
        throw FailureError(fmt::format("{} does not listen on {} after {} s", who, listen,
                                       kBrokerPatience.count() / 1000));
      }
    }
  }

  void StartBroker(const std::string& listen) {
    broker_started = Clock::now();
    broker.emplace(Start(Part::kBroker, {"broker", "--listen", listen}));
  }

  // The broker's tuples are gone; the manager starts again from its last snapshot.
  void BrokerDied() {
    const pid_t pid = broker->pid();
    const Exit exit = Reap(*broker);
    Relay(*broker);
    broker.reset();
    if (stopping) return;
    const Clock::time_point now = Clock::now();
    const milliseconds delay = broker_restart.AfterLife(
        std::chrono::duration_cast<milliseconds>(now - broker_started), exit);
    const std::string what = fmt::format("the broker (pid {}) {}", pid, exit.Text());
    if (broker_restart.give_up) return Fail(what + "; it will not be restarted");
    broker_start_at = now + delay;
    ++restarts;
    log.Warning(fmt::format("{}; restarting it in {} ms", what, delay.count()));
  }

  void StartHandler(Slot& slot) {
    slot.started = Clock::now();
    slot.child.emplace(Start(
        Part::kHandler, {"handler", "--connect", handlers_endpoint, "--device", slot.spec.Name(),
                         "--memory", std::to_string(slot.spec.memory_bytes.value())}));
  }

  // Runs `start`, which restarts `who`. If the system refuses it, sets `start_at`, because the lack
  // of processes or descriptors may be temporary, and a training must survive that.
  void TryRestart(const std::string& who, Clock::time_point& start_at,
                  const std::function<void()>& start) {
    try {
      start();
    } catch (const Error& error) {
      start_at = Clock::now() + kMaxBackoff;
      log.Warning(fmt::format("{} cannot be restarted: {}; trying again in {} ms", who,
                              error.what(), kMaxBackoff.count()));
    }
  }

  void Fail(const std::string& text) {
    const std::lock_guard lock(mutex);
    if (failure) return;
    failure = text;
    if (on_failure) std::exchange(on_failure, nullptr)();
  }

  // Waits at most `timeout_ms` (-1: forever) for output of children, and reads it.
  void PollChildren(int timeout_ms) {
    std::vector<pollfd> fds = {{wake_fd, POLLIN, 0}};
    const auto add = [&fds](const std::optional<Child>& child) {
      if (!child) return;
      for (const int fd : {child->out_fd(), child->err_fd()}) {
        if (fd >= 0) fds.push_back({fd, POLLIN, 0});
      }
    };
    add(broker);
    for (const Slot& slot : slots) add(slot.child);
    ::poll(fds.data(), fds.size(), timeout_ms);
    if (fds[0].revents != 0) {
      std::uint64_t count = 0;
      [[maybe_unused]] const auto got = ::read(wake_fd, &count, sizeof(count));
    }
    if (broker) {
      for (std::string& line : broker->ReadOut()) {
        if (endpoint.empty()) endpoint = std::move(line);
      }
      Relay(*broker);
    }
    for (Slot& slot : slots) {
      if (!slot.child) continue;
      slot.child->ReadOut();
      Relay(*slot.child);
    }
  }

  void Relay(Child& child) {
    for (const std::string& line : child.ReadErr()) log.Raw(line);
  }

  bool IsKilledBySignal(pid_t pid) const {
    const std::lock_guard lock(mutex);
    const auto at = pids.find(pid);
    return at != pids.end() && at->second.is_killed;
  }

  // The supervisor cannot see why the system kills a handler, and neither can the handler say so.
  void NoteKill(milliseconds life, const Exit& exit, bool by_signal) {
    if (by_signal) return;
    young_kills = exit.signal == SIGKILL && life < kShortLife ? young_kills + 1 : 0;
    if (young_kills != kYoungKillsSaid) return;
    log.Warning(fmt::format(
        "{} handlers in a row were killed within {} s of their start: probably the system lacks "
        "memory for them (its log says so: dmesg); give each less with --memory, or start fewer "
        "with --handlers",
        young_kills, kShortLife.count() / 1000));
  }

  void WillNotCome(const DeviceSpec& handler) {
    const std::lock_guard lock(mutex);
    const auto at = std::find(coming.begin(), coming.end(), handler);
    if (at != coming.end()) coming.erase(at);
  }

  void HandlerDied(Slot& slot) {
    const pid_t pid = slot.child->pid();
    const bool by_signal = IsKilledBySignal(pid);
    const Exit exit = Reap(*slot.child);
    Relay(*slot.child);
    slot.child.reset();
    const Clock::time_point now = Clock::now();
    const auto life = std::chrono::duration_cast<milliseconds>(now - slot.started);
    const milliseconds delay = slot.restart.AfterLife(life, exit);
    const std::string who =
        fmt::format("handler {} (pid {}) {}", slot.spec.Name(), pid, exit.Text());
    if (slot.restart.give_up) {
      log.Error(who + "; it will not be restarted");
      WillNotCome(slot.spec);
      if (std::all_of(slots.begin(), slots.end(),
                      [](const Slot& s) { return s.restart.give_up; })) {
        Fail("no handler can start; the last one, " + who);
      }
      return;
    }
    slot.start_at = now + delay;
    ++restarts;
    log.Warning(fmt::format("{}; restarting it in {} ms (restart {})", who, delay.count(),
                            restarts.load()));
    NoteKill(life, exit, by_signal);
  }

  // The time until the next delayed start; -1 if there is none.
  int TimeoutMs() const {
    Clock::time_point next = Clock::time_point::max();
    if (!broker && !broker_restart.give_up) next = broker_start_at;
    for (const Slot& slot : slots) {
      if (!slot.child && !slot.restart.give_up) next = std::min(next, slot.start_at);
    }
    if (own_processors.CanKeep()) next = std::min(next, look_at);
    if (next == Clock::time_point::max()) return -1;
    return PollTimeoutMs(next, Clock::now());
  }

  void Supervise() {
    while (!stopping) {
      PollChildren(TimeoutMs());
      if (broker && broker->out_fd() < 0) BrokerDied();
      const bool broker_due = !broker && !broker_restart.give_up;
      if (broker_due && broker_start_at <= Clock::now() && !stopping) {
        TryRestart("the broker", broker_start_at, [this] { StartBroker(endpoint); });
      }
      for (Slot& slot : slots) {
        if (slot.child && slot.child->out_fd() < 0) HandlerDied(slot);
        const bool due = !slot.child && !slot.restart.give_up && slot.start_at <= Clock::now();
        if (!due || stopping) continue;
        TryRestart("handler " + slot.spec.Name(), slot.start_at, [&] { StartHandler(slot); });
      }
      if (own_processors.CanKeep() && look_at <= Clock::now()) LookAtProcessors();
    }
  }

  void LookAtProcessors() {
    look_at = Clock::now() + milliseconds(OwnProcessors::kLookEveryMs);
    std::vector<pid_t> handlers;
    for (const Slot& slot : slots) handlers.push_back(slot.child ? slot.child->pid() : 0);
    own_processors.Look(handlers, {broker ? broker->pid() : 0});
  }

  // Ends `children`: asks them, waits, kills.
  void End(const std::vector<Child*>& children, const std::string& what) {
    for (Child* child : children) child->Signal(EndChildSignal());
    const Clock::time_point deadline = Clock::now() + kStopPatience;
    const auto alive = [&children] {
      return std::any_of(children.begin(), children.end(),
                         [](Child* c) { return c->out_fd() >= 0; });
    };
    for (auto now = Clock::now(); alive() && now < deadline; now = Clock::now()) {
      PollChildren(PollTimeoutMs(deadline, now));
    }
    for (Child* child : children) {
      if (child->out_fd() >= 0) {
        log.Warning(fmt::format("{} (pid {}) did not end within {} s; killing it", what,
                                child->pid(), kStopPatience.count() / 1000));
        child->Signal(SIGKILL);
      }
      Reap(*child);
      Relay(*child);
    }
  }

  void EndAll() {
    std::vector<Child*> handlers;
    for (Slot& slot : slots) {
      if (slot.child) handlers.push_back(&*slot.child);
    }
    if (!broker) {  // nobody can take tasks back
      for (Child* handler : handlers) handler->Signal(SIGKILL);
    }
    End(handlers, "a handler");
    for (Slot& slot : slots) slot.child.reset();
    if (broker) End({&*broker}, "the broker");
    broker.reset();
    if (folder) folder->Remove();
  }

  // The body of the thread.
  void Live(std::promise<void> listening) {
    try {
      AwaitBroker();
      handlers_endpoint =
          options.handlers_connect_to ? options.handlers_connect_to(endpoint) : endpoint;
      for (Slot& slot : slots) StartHandler(slot);
      listening.set_value();
    } catch (...) {
      if (broker && endpoint.empty()) broker->Signal(SIGKILL);  // it holds nothing yet
      EndAll();
      listening.set_exception(std::current_exception());
      return;
    }
    try {
      Supervise();
    } catch (const std::exception& error) {
      Fail(error.what());
    }
    EndAll();
  }
};

LocalCluster::LocalCluster(LocalClusterOptions options, Log& log)
    : impl_(std::make_unique<Impl>(std::move(options), log)) {
  RequireVariablesOfChildren(
      std::any_of(impl_->slots.begin(), impl_->slots.end(),
                  [](const Slot& slot) { return slot.spec.backend == "cpu"; }));
  const std::size_t handlers = impl_->slots.size();
  RequireLimits(fmt::format("a cluster of {} handler{}", handlers, handlers == 1 ? "" : "s"),
                kMinDescriptors + handlers * kDescriptorsOfHandler, kMinThreadsOfCluster);
  impl_->wake_fd = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (impl_->wake_fd < 0) {
    throw FailureError(std::string("cannot make an event counter: ") + SystemErrorText(errno));
  }
  std::promise<void> listening;
  std::future<void> started = listening.get_future();
  impl_->thread = std::thread(&Impl::Live, impl_.get(), std::move(listening));
  try {
    started.get();
  } catch (...) {
    impl_->thread.join();
    ::close(impl_->wake_fd);
    throw;
  }
}

LocalCluster::~LocalCluster() {
  Stop();
  ::close(impl_->wake_fd);
}

const std::string& LocalCluster::endpoint() const {
  return impl_->endpoint;
}

void LocalCluster::OnFailure(std::function<void()> function) {
  const std::lock_guard lock(impl_->mutex);
  if (impl_->failure && function) {
    function();
    return;
  }
  impl_->on_failure = std::move(function);
}

std::optional<std::string> LocalCluster::failure() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->failure;
}

std::uint64_t LocalCluster::restarts() const {
  return impl_->restarts.load();
}

std::vector<DeviceSpec> LocalCluster::ComingHandlers() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->coming;
}

std::vector<pid_t> LocalCluster::Pids(Part part) const {
  const std::lock_guard lock(impl_->mutex);
  std::vector<pid_t> found;
  for (const auto& [pid, process] : impl_->pids) {
    if (process.part == part) found.push_back(pid);
  }
  return found;
}

bool LocalCluster::Signal(pid_t pid, int signal) {
  const std::lock_guard lock(impl_->mutex);  // so that it is not reaped meanwhile
  const auto at = impl_->pids.find(pid);
  if (at == impl_->pids.end()) return false;
  at->second.is_killed |= signal == SIGKILL;
  return ::kill(pid, signal) == 0;
}

void LocalCluster::Stop() {
  impl_->stopping = true;
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(impl_->wake_fd, &one, sizeof(one));
  if (impl_->thread.joinable()) impl_->thread.join();
}

void LocalCluster::Kill() {
  impl_->stopping = true;  // so that nothing is restarted
  const std::lock_guard lock(impl_->mutex);
  for (const auto& [pid, process] : impl_->pids) ::kill(pid, SIGKILL);
  if (impl_->folder) impl_->folder->Remove();
}

}  // namespace acan::cli
