// A hostile client has a key or none and sends well-formed requests that no honest program would
// send. An attack is what it does in one round. It repeats rounds as long as the job that it
// attacks runs.
//
// It never completes a task that it holds with all declared results, wrong bytes in them and the
// hashes of these bytes. Without audits this cannot be detected (docs/reliability.md, "What is not
// covered").
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>
#include <zmq.hpp>

#include "tuplespace/client.h"

namespace acan::testing {

// Counts the progress of one hostile client, or of all clients that share this object. Thread-safe.
class Progress {
 public:
  struct Counts {
    std::uint64_t rounds = 0, refusals = 0;  // refusals: rounds that the broker refused
    std::uint64_t taken = 0;                 // tasks
    std::uint64_t answered = 0;              // requests, other than with an error
    std::uint64_t stored = 0;                // capacities, and results that it computed
    std::uint64_t open_reads = 0;            // in the space, the most at any time
  };

  void Add(const Counts& more) {
    const std::lock_guard lock(mutex_);
    counts_.rounds += more.rounds;
    counts_.refusals += more.refusals;
    counts_.taken += more.taken;
    counts_.answered += more.answered;
    counts_.stored += more.stored;
    counts_.open_reads = std::max(counts_.open_reads, more.open_reads);
    changed_.notify_all();
  }
  Counts counts() const {
    const std::lock_guard lock(mutex_);
    return counts_;
  }
  // Waits until `fulfilled(counts)`; returns false if that does not happen before `deadline`.
  template <typename Condition>
  bool WaitUntil(std::chrono::steady_clock::time_point deadline, Condition fulfilled) const {
    std::unique_lock lock(mutex_);
    return changed_.wait_until(lock, deadline, [&] { return fulfilled(counts_); });
  }

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  Counts counts_;
};

class HostileClient {
 public:
  HostileClient(std::vector<std::string> endpoints, tuplespace::ClientAccess access,
                std::uint64_t seed, std::shared_ptr<Progress> progress)
      : endpoints_(std::move(endpoints)),
        access_(std::move(access)),
        random_(seed),
        progress_(std::move(progress)) {}

  static constexpr tuplespace::Client::Duration kWait = std::chrono::milliseconds(100);

  tuplespace::Client& client();  // connects first if necessary
  void Leave();                  // says goodbye and forgets the leases that it holds
  void Vanish();                 // drops the connection without a goodbye
  void UseSockets();             // shares no memory with the broker any more
  const tuplespace::ClientAccess& access() const { return access_; }
  std::unique_ptr<tuplespace::Client> MakeClient(const tuplespace::ClientAccess& access,
                                                 zmq::context_t* context = nullptr);

  std::uint64_t Below(std::uint64_t bound) { return random_() % bound; }
  bool OneIn(std::uint64_t count) { return Below(count) == 0; }

  // Takes at most `count` tasks and remembers their keys.
  std::vector<tuplespace::Grant> Take(std::uint32_t count);
  void Took(const std::vector<tuplespace::Grant>& grants);
  // Queues a request. Of its reply, only whether it is an error counts.
  void Send(tuplespace::RequestBody body);
  // Waits until all requests are answered, or for kWait.
  void Settle();

  // The newest keys of tasks, inputs and results that it has seen.
  const std::deque<tuplespace::Key>& seen() const { return seen_; }
  void See(const tuplespace::Key& key);
  tuplespace::Key AnyKey();  // a seen, changed or invented key
  std::vector<tuplespace::Grant>& held() { return held_; }
  const std::shared_ptr<Progress>& progress() const { return progress_; }

 private:
  std::vector<std::string> endpoints_;
  tuplespace::ClientAccess access_;
  std::mt19937_64 random_;
  std::unique_ptr<zmq::context_t> context_;
  std::unique_ptr<tuplespace::Client> client_;
  bool sockets_only_ = false;
  std::deque<tuplespace::Key> seen_;
  std::vector<tuplespace::Grant> held_;
  std::shared_ptr<Progress> progress_;
};

// Runs one round. Throws tuplespace::SpaceError if the broker refuses a request.
using Attack = void (*)(HostileClient&);

// ---- attacks that need a handler's key ----------------------------------------------------------

void CompleteInventedTasks(HostileClient& hostile);  // with weights 1, 2 and 59 steps ahead
void CompleteWithoutResults(HostileClient& hostile);
void CompleteWithOtherResults(HostileClient& hostile);
void CompleteWithWrongBytes(HostileClient& hostile);  // with the hashes of the right ones
void TakeResultsAlong(HostileClient& hostile);        // right ones, which must stay when it leaves
void FailTasks(HostileClient& hostile);
void ExtendLeases(HostileClient& hostile);
void TakeAndSayNothing(HostileClient& hostile);  // only keeps its connection alive
void TakeAndHang(HostileClient& hostile);        // silent until another handler has done its task
void TakeAndGiveBack(HostileClient& hostile);    // each task at once, repeatedly
void FillWithAMadeUpRun(HostileClient& hostile);
void OpenReads(HostileClient& hostile);
void BeAbsurdlyLarge(HostileClient& hostile);
void BeAbsurd(HostileClient& hostile);  // with random capacities
void SayMuchAboutItself(HostileClient& hostile);
void JoinAndVanish(HostileClient& hostile);
void TakeUnderManyIds(HostileClient& hostile);

// ---- attacks that any key allows ----------------------------------------------------------------

void ListAndCount(HostileClient& hostile);
void FloodWithCheapRequests(HostileClient& hostile);
void AskForWhatTheRoleForbids(HostileClient& hostile);  // for an observer's key
void SendAnything(HostileClient& hostile);              // any request with any field

// ---- attacks that need no key -------------------------------------------------------------------

void ComeWithAnUnknownKey(HostileClient& hostile);

// ---- all attacks that a seed may draw -----------------------------------------------------------

// For clients with a handler's key. TakeAndHang is not among them because it ignores requests to
// stop.
std::vector<Attack> AttacksOfAHandler();
// For clients with an observer's key.
std::vector<Attack> AttacksOfAnObserver();

// A client that attacks, on its own thread, until it is stopped or destroyed.
class Attacker {
 public:
  Attacker(HostileClient client, std::vector<Attack> attacks);
  ~Attacker() { Stop(); }
  void Stop();

 private:
  void Run(HostileClient client, const std::vector<Attack>& attacks);

  std::atomic<bool> over_ = false;
  std::thread thread_;
};

}  // namespace acan::testing
