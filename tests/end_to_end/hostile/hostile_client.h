// A hostile client: it has a key, or none, and sends well-formed requests that no honest program
// would send. What it does in one round is an attack; rounds follow each other as long as the job
// that it attacks runs.
//
// One thing it does not do: complete a task that it holds with all declared results and wrong bytes
// in them. Without audits nobody can know that (docs/reliability.md, "What is not covered").
#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>
#include <zmq.hpp>

#include "tuplespace/client.h"

namespace acan::testing {

class HostileClient {
 public:
  HostileClient(std::vector<std::string> endpoints, tuplespace::ClientAccess access,
                std::uint64_t seed)
      : endpoints_(std::move(endpoints)), access_(std::move(access)), random_(seed) {}

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
  // How many tasks it has had so far; may be asked on any thread.
  std::shared_ptr<const std::atomic<std::uint64_t>> taken() const { return taken_; }

 private:
  std::vector<std::string> endpoints_;
  tuplespace::ClientAccess access_;
  std::mt19937_64 random_;
  std::unique_ptr<zmq::context_t> context_;
  std::unique_ptr<tuplespace::Client> client_;
  std::deque<tuplespace::Key> seen_;
  std::vector<tuplespace::Grant> held_;
  std::shared_ptr<std::atomic<std::uint64_t>> taken_ =
      std::make_shared<std::atomic<std::uint64_t>>(0);
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
void TakeAndHang(HostileClient& hostile);        // it does not even say that
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
  std::uint64_t taken() const { return *taken_; }
  std::uint64_t rounds() const { return rounds_; }
  std::uint64_t refusals() const { return refusals_; }  // rounds that the broker refused

 private:
  void Run(HostileClient client, const std::vector<Attack>& attacks);

  std::atomic<bool> over_ = false;
  std::atomic<std::uint64_t> rounds_ = 0, refusals_ = 0;
  std::shared_ptr<const std::atomic<std::uint64_t>> taken_;
  std::thread thread_;
};

}  // namespace acan::testing
