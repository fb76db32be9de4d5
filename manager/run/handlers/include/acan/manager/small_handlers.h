// SmallHandlers: tells the user which handlers have too little memory for the largest tasks. The
// holder of a key may use any number of ids, so each key gets one line in a while. Pure: no clock.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "acan/core/names.h"
#include "tuplespace/messages.h"

namespace acan {

class SmallHandlers {
 public:
  void SetTime(std::int64_t now_us) { now_us_ = now_us; }
  // Lines about those of the handlers present (by client id) that have less than `need_bytes` and
  // were not named yet.
  std::vector<std::string> Name(const std::map<std::string, Capacity>& present,
                                std::uint64_t need_bytes);

 private:
  std::int64_t now_us_ = 0;
  std::set<tuplespace::ClientId> named_;                         // of those present
  std::map<tuplespace::ClientId, std::int64_t> named_until_us_;  // by OwnerOf: no line before
};

}  // namespace acan
