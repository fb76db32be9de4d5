// Leadership: ensures that only one manager leads a job. The leader holds a tuple under a lease;
// other managers of the job wait for that tuple.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "acan/manager/folder_claim.h"
#include "acan/manager/run_context.h"
#include "acan/manager/stop_request.h"
#include "tuplespace/client.h"

namespace acan {

class Leadership {
 public:
  // The maximum time that a leader waits for the broker at once.
  static constexpr std::int64_t kPollUs = 50'000;

  // The references must outlive it.
  Leadership(RunContext& context, StopRequest& stop, FolderClaim& folder)
      : context_(context), stop_(stop), folder_(folder) {}

  // Waits for the broker without limit. From now on, the client's waits throw Stopped.
  void Connect();
  // Takes the lead, and waits for it as long as the settings allow. Throws Error (failure) if
  // another manager has the job.
  void Take();
  // Extends the lead from time to time. Anything that may wait longer than the lease calls this.
  // Throws Stopped, RunLost.
  void Keep();
  // Asks again whether this manager leads, and waits for the answer: files have no leases, so a
  // manager must be sure before it changes them.
  void Confirm();
  // Waits for a while after the connection has ended, when it is unknown who leads.
  void Await();
  // The job is done: removes its tuples from the space, and then the lead. False: the lead had
  // ended before, so tuples that the client retired under it may still be there.
  bool GiveUp();
  void PollOnce();  // waits briefly, and keeps the lead
  // As acan::WorkBeside: does `work` on another thread and keeps the lead meanwhile. From time to
  // time it logs that this still goes on: `what`, as in "the file is still being read".
  void WorkBeside(const std::string& what,
                  const std::function<void(const std::function<void()>& go_on)>& work);

  // False while the broker has not confirmed the lead: after a reconnection, and during Confirm.
  bool leads() const { return state_ == State::kLeads; }
  // Whether another manager waits for the lead; it continues from this run's tuples. For the end of
  // a life: throws nothing, and removes the client's interrupt.
  bool SomebodyStandsBy();

  // Whether a manager that began to wait at `begin_us` may continue to wait for another manager.
  static bool MayWait(const RunSettings& settings, std::int64_t begin_us);

 private:
  enum class State : std::uint8_t { kDoesNotLead, kAsks, kLeads };

  void Extend();
  void OnConnection(bool connected, const std::string& why);

  RunContext& context_;
  StopRequest& stop_;
  FolderClaim& folder_;
  State state_ = State::kDoesNotLead;
  std::optional<tuplespace::LeaseRef> lease_;
  std::uint64_t extends_ = 0;  // number sent; only the answer to the last one counts
  std::int64_t next_extend_us_ = 0;
  std::int64_t disconnected_us_ = 0;  // since when, if disconnected
};

}  // namespace acan
