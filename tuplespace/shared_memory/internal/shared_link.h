// SharedLink: what a client knows of shared memory: whether it and its broker can open each
// other's files, the channel between them, the broker's segments that it has mapped, and what is to
// be said about them.
//
// One thread owns it; payloads may be released on any.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "channel.h"
#include "envelope.h"
#include "memfd.h"
#include "released_queue.h"
#include "tuplespace/shared_pool.h"
#include "wire.h"

namespace tuplespace {

class SharedLink : public SegmentNamer, public SegmentOpener {
 public:
  // Shares nothing without a pool. `wake_fd`: the pipe through which the
  // broker wakes this thread up (wake_up.h).
  SharedLink(std::shared_ptr<SharedPool> pool, int wake_fd);
  ~SharedLink() override;

  // For the Hello of a new session, which has this nonce; ends the session that there is.
  std::optional<Sharing> Offer(std::uint64_t nonce);
  // By the Welcome to the Hello that made the last offer.
  void Joined(std::uint64_t session, const std::optional<Sharing>& answer);
  // Does nothing if there is none.
  void SessionEnded();
  std::uint64_t session() const { return session_; }  // 0: none
  void Receive(const BrokerSegments& message);

  // A segment of the broker could not be opened; the session cannot go on.
  bool failed() const { return failed_; }
  // No more sharing, until this object's end.
  void GiveUp();

  // Of this session; null: there is none. The broker reads it once it was told the proof that this
  // client sees its files: before that, messages go through the socket.
  Channel* channel() { return session_ == 0 ? nullptr : channel_.get(); }
  bool introduced() const { return channel_ && sees_.empty(); }

  // A put can name blocks of the pool.
  bool can_put() const { return can_put_; }
  SharedPool* pool() const { return can_put_ ? pool_.get() : nullptr; }
  // The payload moved to a block, if that is worth it and possible.
  Payload Shared(Payload payload);

  std::optional<SegmentRef> Name(const Payload& payload) override;
  // What this process itself made, hashed and put is found in its pool and comes with its hash.
  std::optional<Payload> Open(std::uint64_t session, const SegmentRef& ref) override;

  // What is to be sent in this session; with other messages, unless it is urgent.
  bool HasUrgentOutput() const;
  std::optional<ClientSegments> TakeOutput();

 private:
  struct Loan;

  std::shared_ptr<SharedPool> pool_;
  const int wake_fd_;
  std::optional<SharingProbe> probe_;
  std::unique_ptr<Channel> channel_;  // before the session: what is offered
  std::uint64_t session_ = 0;
  bool can_put_ = false;
  bool failed_ = false;
  std::uint64_t nonce_ = 0;  // of the last offer
  std::optional<PeerFiles> files_;
  std::string sees_;  // to be said
  std::unordered_map<std::uint64_t, std::shared_ptr<Mapping>> mapped_;
  std::shared_ptr<ReleasedQueue> released_;  // of this session
};

}  // namespace tuplespace
