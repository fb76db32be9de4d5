// ReadsInTurn: a queue of Reads of which only a few wait in the space at once, because the number
// of a client's open requests is limited (SpaceLimits::open_requests_per_client) and its other
// requests need room, too.
//
// Owned by the client's thread.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <utility>

#include "tuplespace/messages.h"

namespace acan {

class ReadsInTurn {
 public:
  using Then = std::function<void(tuplespace::Found&&)>;
  // Sends a Read, and calls `then` at most once, with the result.
  using Submit = std::function<void(tuplespace::Read, Then then)>;

  // At most `most` > 0 of them wait in the space. Add and the answers call `submit`.
  ReadsInTurn(std::size_t most, Submit submit) : most_(most), submit_(std::move(submit)) {}

  // A Read must not wait for something that depends on the answer of a later one.
  void Add(tuplespace::Read read, Then then);
  // Forgets the Reads that were not sent. The caller cancels the others; `then` still gets an
  // answer that is already on its way.
  void Forget() { turn_ = std::make_shared<Turn>(); }

 private:
  struct Turn {
    std::size_t open = 0;
    std::deque<std::pair<tuplespace::Read, Then>> waiting;
  };

  void Fill(const std::shared_ptr<Turn>& turn);

  const std::size_t most_;
  const Submit submit_;
  std::shared_ptr<Turn> turn_ = std::make_shared<Turn>();
};

}  // namespace acan
