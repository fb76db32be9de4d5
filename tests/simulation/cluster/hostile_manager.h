// HostileManager: a client that wants to do harm with a manager's key for its own jobs only
// (--jobs). It puts tasks that every handler must fail: some have no description, and others have
// those of honest tasks, whose results belong to another run. A handler that fails them gets fewer
// of them, but all tasks of the honest run.
//
// It also takes some of its tasks and completes them. So the space knows a client that does them.
// It does not keep handlers busy with tasks that they can do, as its key allows that.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "access_list.h"
#include "cluster/hostile_handler.h"
#include "envelope.h"
#include "world/random.h"

namespace acan::simulation {

class HostileManager {
 public:
  using Said = HostileHandler::Said;

  explicit HostileManager(std::uint64_t seed);

  // The entry of its key.
  const tuplespace::AccessList::Entry& who() const { return *who_; }
  static bool Is(const tuplespace::ClientId& client);
  // Whether the tuple belongs to one of its jobs.
  static bool Owns(const tuplespace::Key& key);
  std::string Describe() const;  // when it acts, and whether it takes tasks

  // The time until it acts next.
  std::int64_t NextDelayUs() { return random_.Magnitude(pause_us_ / 8 + 1, pause_us_ * 2); }

  // A new broker starts, which knows no session of it.
  void OnBroker();
  // Remembers the descriptions of honest tasks, and who takes tasks.
  void Overhear(const tuplespace::ClientId& client, const tuplespace::Request& request);
  void OnAnswer(const tuplespace::ToClient& envelope);
  Said Say();

 private:
  void Ask(Said* said, tuplespace::RequestBody body);
  void CompleteAll(Said* said);
  void PutTasks(Said* said);
  void Join(Said* said);
  tuplespace::Tuple AnyTask(std::int64_t number);

  Random random_;
  tuplespace::AccessList access_;
  const tuplespace::AccessList::Entry* who_;
  std::int64_t pause_us_ = 0;
  bool takes_ = false;  // some of its own tasks
  std::uint64_t session_ = 0;
  std::uint64_t nonce_ = 0;
  tuplespace::RequestId next_request_ = 1;
  std::int64_t next_task_ = 0;
  std::vector<tuplespace::LeaseRef> leases_;
  std::vector<tuplespace::Payload> descriptions_;
  std::vector<tuplespace::ClientId> takers_;
};

}  // namespace acan::simulation
