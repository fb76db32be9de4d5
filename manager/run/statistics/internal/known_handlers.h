// KnownHandlers: who has worked for a run, for its receipt. A handler that is started again has a
// new client id each time, so of those that left only the last ones are kept by themselves.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "acan/core/names.h"
#include "acan/manager/receipt.h"

namespace acan {

class KnownHandlers {
 public:
  static constexpr std::size_t kMostGone = 1000;

  // All that are there now. Of more than kMostGone that left, those that left first are put
  // together.
  void See(const std::map<std::string, Capacity>& present);
  // Of one that is not known by itself: nothing.
  void OnReport(const std::string& id, const Report& report);
  void OnTask(const std::string& id);

  const std::map<std::string, HandlerSeen>& by_id() const { return handlers_; }
  // And one more, if there are others that left.
  std::vector<HandlerSeen> All() const;

 private:
  void PutTogether(const std::string& id);

  std::map<std::string, HandlerSeen> handlers_;   // by client id
  std::map<std::string, std::uint64_t> seen_at_;  // the last look at which each was there
  std::uint64_t looks_ = 0;
  HandlerSeen others_;
  std::int64_t other_count_ = 0;
};

}  // namespace acan
