// OwedResults: the results whose bytes are nowhere else, and when to supply them to the space.
// Pure; a part of HandlerCore.
//
// Results are supplied on request. When the handler is idle it supplies them unasked, because the
// task that it waits for may be larger than what they leave. Over a link it first waits longer than
// the supplies take. A failed supply is tried again after a pause.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "acan/handler/link_pace.h"
#include "acan/handler/step_actions.h"
#include "tuplespace/key.h"
#include "tuplespace/messages.h"

namespace acan {

// Between attempts to supply what could not be supplied; doubled each time.
inline constexpr std::int64_t kRetrySupplyUs = 1'000'000;
inline constexpr std::int64_t kMaxRetrySupplyUs = 30'000'000;

class OwedResults {
 public:
  bool empty() const { return results_.empty(); }
  std::uint64_t bytes() const { return bytes_; }

  // Changes nothing if it is owed already.
  void Add(const tuplespace::Key& key, std::uint64_t bytes);
  // The bytes have left or cannot leave, or nobody needs them. False: it was not owed.
  bool End(const tuplespace::Key& key);
  // A new session has begun, so all supplies have ended. Ends all results but these; returns their
  // keys.
  std::vector<tuplespace::Key> EndAllBut(const std::set<tuplespace::Key>& keys);

  // Whether to supply the result now: it is owed, and its supply is not in progress.
  bool BeginSupply(const tuplespace::Key& key);
  void StopSupply(const tuplespace::Key& key);  // it will be tried again
  void FailSupply(const tuplespace::Key& key, std::int64_t now_us);
  // A supply has failed, and it is too early to try again.
  bool SuppliesPause() const { return again_us_ != tuplespace::kForeverUs; }
  // Tries again what failed, too.
  void SupplyAll(StepActions& out);
  // What failed, after the pause, and some when the handler has been idle. To be called at NextUs()
  // or later.
  void SupplyDue(std::int64_t now_us, StepActions& out);
  std::int64_t NextUs() const;
  // To be called after every event.
  void NoteIdle(bool is_idle, const LinkPace& link, std::int64_t now_us);

 private:
  enum class Supply : std::uint8_t { kNone, kUnderWay, kFailed };
  struct Result {
    std::uint64_t bytes = 0;
    Supply supply = Supply::kNone;
  };

  // Not hashed, as managers choose the keys (device_cache.h).
  using Results = std::map<tuplespace::Key, Result>;

  Results::iterator Erase(Results::iterator at);
  void Change(Supply& supply, Supply next);
  void Begin(const tuplespace::Key& key, Supply& supply, StepActions& out);
  void SupplyFailedAgain(StepActions& out);
  void SupplySome(StepActions& out);
  void EndPause();
  std::int64_t NextUnaskedUs() const {
    return under_way_ > 0 ? tuplespace::kForeverUs : idle_until_us_;
  }

  Results results_;
  std::uint64_t bytes_ = 0;                              // of all results
  std::size_t under_way_ = 0, failed_ = 0;               // supplies; needed after every event
  std::int64_t idle_until_us_ = tuplespace::kForeverUs;  // then some are supplied unasked
  std::int64_t again_us_ = tuplespace::kForeverUs;       // then what failed is tried again
  std::int64_t pause_us_ = 0;                            // the latest
};

}  // namespace acan
