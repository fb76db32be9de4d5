// ReadsInTurn: Reads that wait in the space, a few at once and the others in turn. A client may
// have only so many (SpaceLimits::open_requests_per_client), and its other requests need room as
// well.
//
// One thread owns it, the client's.
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
  // Sends a Read, and calls `then` once with what it found, or never.
  using Submit = std::function<void(tuplespace::Read, Then then)>;

  // At most `most` > 0 of them wait in the space. `submit` is called by Add and by the answers.
  ReadsInTurn(std::size_t most, Submit submit) : most_(most), submit_(std::move(submit)) {}

  // What a Read waits for must not need the answer of a later one.
  void Add(tuplespace::Read read, Then then);
  // Forgets those that were not sent. The caller cancels the others; an answer of theirs that is on
  // its way still reaches its `then`.
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
