// Liar: chooses the results of others that it puts again with other bytes. Owned by a BrokerHost;
// used only on the world's thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "tuplespace/messages.h"
#include "world/random.h"

namespace acan::simulation {

class Liar {
 public:
  // 0: it never lies.
  void SetOneIn(std::uint64_t results) { one_in_ = results; }

  // Remembers some of the results that a client completes.
  void Overhear(const tuplespace::Complete& complete, Random& random) {
    if (one_in_ == 0) return;
    for (const tuplespace::Tuple& tuple : complete.results) {
      if (tuple.payload.size() > 0 && random.OneIn(one_in_)) truths_.push_back(tuple);
    }
  }
  // Returns the results about which it has not lied yet, and forgets them.
  std::vector<tuplespace::Tuple> TakeTruths() { return std::exchange(truths_, {}); }
  // Returns `truth` with one bit flipped. REQUIRES: `truth` has bytes.
  static tuplespace::Tuple LieAbout(const tuplespace::Tuple& truth, Random& random) {
    tuplespace::Tuple lie;
    lie.key = truth.key;
    std::vector<std::byte> bytes(truth.payload.data(), truth.payload.data() + truth.payload.size());
    bytes[random.Below(bytes.size())] ^= std::byte{1};
    lie.payload = tuplespace::Payload::Copy(bytes.data(), bytes.size());
    return lie;
  }

 private:
  std::uint64_t one_in_ = 0;
  std::vector<tuplespace::Tuple> truths_;
};

}  // namespace acan::simulation
