// A hostile client: it has a key, or none, and sends well-formed requests that no honest program
// would send. What it does in one round is an attack; rounds follow each other as long as the job
// that it attacks runs.
//
// One thing it does not do: complete a task that it holds with all declared results and wrong bytes
// in them. Without audits nobody can know that (docs/reliability.md, "What is not covered").
#pragma once

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

// How far hostile clients got, all together where they share one. Any thread may use it.
class Progress {
 public:
  struct Counts {
    std::uint64_t rounds = 0, refusals = 0;  // of the rounds: those that the broker refused
    std::uint64_t taken = 0;                 // tasks
  };

  void Add(const Counts& more) {
    const std::lock_guard lock(mutex_);
    counts_.rounds += more.rounds;
    counts_.refusals += more.refusals;
    counts_.taken += more.taken;
    changed_.notify_all();
  }
  Counts counts() const {
    const std::lock_guard lock(mutex_);
    return counts_;
  }
  // Waits until `fulfilled(counts)`; false if it is not before `deadline`.
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

  tuplespace::Client& client();  // connects if it is not
  void Leave();                  // says goodbye, and forgets what it holds
  void Vanish();                 // its connection ends without a goodbye
  const tuplespace::ClientAccess& access() const { return access_; }
  std::unique_ptr<tuplespace::Client> MakeClient(const tuplespace::ClientAccess& access,
                                                 zmq::context_t* context = nullptr);

  std::uint64_t Below(std::uint64_t bound) { return random_() % bound; }
  bool OneIn(std::uint64_t count) { return Below(count) == 0; }

  // Takes at most so many tasks and learns from their keys.
  std::vector<tuplespace::Grant> Take(std::uint32_t count);
  void Took(const std::vector<tuplespace::Grant>& grants);
  // Queues a request, whatever becomes of it.
  void Send(tuplespace::RequestBody body);
  // Until all that was sent is answered, or kWait is over.
  void Settle();

  // What it has seen of the run: the newest keys of tasks and of their inputs.
  const std::deque<tuplespace::Key>& seen() const { return seen_; }
  void See(const tuplespace::Key& key);
  tuplespace::Key AnyKey();  // one that it has seen or invents
  std::vector<tuplespace::Grant>& held() { return held_; }
  const std::shared_ptr<Progress>& progress() const { return progress_; }

 private:
  std::vector<std::string> endpoints_;
  tuplespace::ClientAccess access_;
  std::mt19937_64 random_;
  std::unique_ptr<zmq::context_t> context_;
  std::unique_ptr<tuplespace::Client> client_;
  std::deque<tuplespace::Key> seen_;
  std::vector<tuplespace::Grant> held_;
  std::shared_ptr<Progress> progress_;
};

// One round. May throw tuplespace::SpaceError: what was asked is refused.
using Attack = void (*)(HostileClient&);

// ---- what needs the key of a handler -----------------------------------------------------------

void CompleteInventedTasks(HostileClient& hostile);  // with weights of 1 and 59 steps ahead
void CompleteWithoutResults(HostileClient& hostile);
void CompleteWithOtherResults(HostileClient& hostile);
void FailTasks(HostileClient& hostile);
void ExtendLeases(HostileClient& hostile);
void TakeAndSayNothing(HostileClient& hostile);  // but that it is there
void TakeAndHang(HostileClient& hostile);        // says nothing until another has done its task
void TakeAndGiveBack(HostileClient& hostile);    // each task at once, again and again
void FillWithAMadeUpRun(HostileClient& hostile);
void OpenReads(HostileClient& hostile);
void BeAbsurdlyLarge(HostileClient& hostile);
void BeAbsurd(HostileClient& hostile);  // in any way
void JoinAndVanish(HostileClient& hostile);
void TakeUnderManyIds(HostileClient& hostile);

// ---- what any key can do -----------------------------------------------------------------------

void ListAndCount(HostileClient& hostile);
void FloodWithCheapRequests(HostileClient& hostile);
void AskForWhatTheRoleForbids(HostileClient& hostile);  // an observer's
void SendAnything(HostileClient& hostile);              // any request with any field

// ---- what needs none ---------------------------------------------------------------------------

void ComeWithAnUnknownKey(HostileClient& hostile);

// ---- all that a seed may draw -------------------------------------------------------------------

// Of who has a handler's key. TakeAndHang is not among them: it does not end when it is told to.
std::vector<Attack> AttacksOfAHandler();
// Of who has an observer's key.
std::vector<Attack> AttacksOfAnObserver();

// A client on a thread of its own that attacks until its end.
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
