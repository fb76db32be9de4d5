// HandlerListing: finds the handlers present, and what they report. Anyone with a handler's key may
// put many and large tuples about itself. So this reads only what may be a capacity or a report,
// only what it has not read before, and a limited number of bytes at once, the shortest first.
// Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "acan/core/names.h"
#include "acan/manager/manager_events.h"
#include "tuplespace/messages.h"

namespace acan {

class HandlerListing {
 public:
  static constexpr std::uint64_t kMaxBytesAtOnce = 4 << 20;

  // Sends a request; `answer` gets the answer.
  using Submit = std::function<void(tuplespace::RequestBody,
                                    std::function<void(tuplespace::ReplyBody&&)> answer)>;
  struct Notify {
    // The handlers for the job. A new one may be missing while others' capacities are read.
    std::function<void(HandlersSeen&&)> handlers;
    // A new report of one of these handlers. Called after `handlers`.
    std::function<void(const std::string& id, const Report&)> report;
  };
  // For handlers that may get tasks of the job `job_id`.
  HandlerListing(std::string job_id, Submit submit, Notify notify)
      : job_id_(std::move(job_id)), submit_(std::move(submit)), notify_(std::move(notify)) {}

  // Lists them once. If a listing is under way, does so after its end.
  void Begin();
  bool busy() const { return phase_ != Phase::kIdle; }
  // How long to wait after the last listing so that listings take little of the broker's and of
  // this process's time, whatever the handlers put and however many managers list them.
  std::int64_t pause_us() const { return pause_us_; }

 private:
  // What distinguishes a tuple from an earlier one with the same key.
  struct Version {
    tuplespace::ClientId put_by;
    std::uint64_t bytes = 0;
    std::optional<tuplespace::PayloadHash> hash;
    friend bool operator==(const Version&, const Version&) = default;
  };
  struct KnownCapacity {
    Version version;
    std::optional<Capacity> capacity;  // unset: the tuple has none
  };
  struct KnownReport {
    tuplespace::Key key;
    Version version;
    friend bool operator==(const KnownReport&, const KnownReport&) = default;
  };
  using Tuples = std::vector<tuplespace::FoundTuple>;
  enum class Phase : std::uint8_t { kIdle, kCapacities, kReports, kManagers };

  static Version VersionOf(const tuplespace::FoundTuple& tuple);
  void OnListed(Tuples&& listed);
  void TakeCapacity(const tuplespace::FoundTuple& read);
  void Announce();
  void OnReportsListed(Tuples&& listed);
  void TakeReport(const tuplespace::FoundTuple& read);
  // Reads the payloads of `tuples` that fit into kMaxBytesAtOnce.
  void ReadShortest(Tuples&& tuples);
  void ReadNext();
  void OnRead(Tuples&& asked, tuplespace::ReplyBody&& reply);
  void Take(const tuplespace::FoundTuple& read);
  // The listing ends if the answer is an error.
  void Ask(tuplespace::RequestBody request, void (HandlerListing::*then)(Tuples&&));
  void End();
  void EndWith(std::uint64_t managers);

  const std::string job_id_;
  const Submit submit_;
  const Notify notify_;
  Phase phase_ = Phase::kIdle;
  bool again_ = false;
  std::int64_t pause_us_ = 0;
  std::int64_t cost_us_ = 0;    // of this listing: the next pause
  std::vector<Tuples> unread_;  // what each of the next Reads names, without payloads
  std::map<tuplespace::Key, KnownCapacity> capacities_;  // of the tuples listed last
  std::map<tuplespace::ClientId, KnownReport> reports_;  // last read, of the handlers present
};

}  // namespace acan
