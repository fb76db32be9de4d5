// Leadership: a job has one manager that leads. It holds a tuple under a lease; who else wants the
// job waits for that tuple.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "acan/manager/folder_claim.h"
#include "acan/manager/run_context.h"
#include "acan/manager/stop_request.h"
#include "tuplespace/client.h"

namespace acan {

class Leadership {
 public:
  // At most so long a leader waits for the broker at once.
  static constexpr std::int64_t kPollUs = 50'000;

  // The references must outlive it.
  Leadership(RunContext& context, StopRequest& stop, FolderClaim& folder)
      : context_(context), stop_(stop), folder_(folder) {}

  // Waits for the broker, for as long as it takes. From here on the client's waits throw Stopped.
  void Connect();
  // Has the lead, or waits for it as long as the settings say. Throws Error (failure) if another
  // manager has the job.
  void Take();
  // For whatever may wait longer than the lease: extends it now and then. Throws Stopped, RunLost.
  void Keep();
  // Asks for the last time whether this manager leads, and waits for the answer: files have no
  // leases, so whoever begins to change them has to know.
  void Confirm();
  // For a while: the connection has ended, and nobody knows who leads.
  void Await();
  // The job is done: what was left of it in the space goes, and then the lead. False: the lead had
  // ended before, so what the client retired under it may still be there.
  bool GiveUp();
  void PollOnce();  // for a little while at most, and keeps the lead

  // False while the broker is asked again: after a reconnection, and by Confirm.
  bool leads() const { return state_ == State::kLeads; }
  // Whether another manager waits for the lead; he goes on from what this run has in the space.
  // Throws nothing, and interrupts nothing any more: for the end of a life.
  bool SomebodyStandsBy();

  // Whether a manager that began to wait at `begin_us` may wait on for what another one has.
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
  std::uint64_t extends_ = 0;  // sent; only the answer to the newest says who leads
  std::int64_t next_extend_us_ = 0;
  std::int64_t disconnected_us_ = 0;  // since when, if it is
};

}  // namespace acan
