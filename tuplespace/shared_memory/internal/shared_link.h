// SharedLink: a client's view of shared memory: whether the client and its broker can open each
// other's files, the channel between them, the broker's segments that are mapped, and what must be
// reported about these.
//
// For one thread; payloads may be released on any thread.
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
  // Shares nothing without a pool. `wake_fd`: the pipe by which the broker wakes this thread
  // (wake_up.h).
  SharedLink(std::shared_ptr<SharedPool> pool, int wake_fd);
  ~SharedLink() override;

  // The offer for the Hello of a new session with this nonce. Ends the current session.
  std::optional<Sharing> Offer(std::uint64_t nonce);
  // The Welcome to the Hello with the last offer has come.
  void Joined(std::uint64_t session, const std::optional<Sharing>& answer);
  // Does nothing if there is no session.
  void SessionEnded();
  std::uint64_t session() const { return session_; }  // 0: none
  void Receive(const BrokerSegments& message);

  // A segment of the broker could not be opened, so the session cannot continue.
  bool failed() const { return failed_; }
  // Stops sharing for the rest of this object's life.
  void GiveUp();

  // The session's channel; null: there is none. The broker reads it only after it has received the
  // proof that this client sees its files. Until then messages go through the socket.
  Channel* channel() { return session_ == 0 ? nullptr : channel_.get(); }
  bool introduced() const { return channel_ && sees_.empty(); }

  // Puts can name blocks of the pool.
  bool can_put() const { return can_put_; }
  SharedPool* pool() const { return can_put_ ? pool_.get() : nullptr; }
  // The payload, moved to a block if that is useful and possible.
  Payload Shared(Payload payload);

  std::optional<SegmentRef> Name(const Payload& payload) override;
  // A payload that this process itself made, hashed and put is taken from its pool and has its
  // hash.
  std::optional<Payload> Open(std::uint64_t session, const SegmentRef& ref) override;

  // What must be sent in this session; together with other messages, unless it is urgent.
  bool HasUrgentOutput() const;
  std::optional<ClientSegments> TakeOutput();

 private:
  struct Loan;

  std::shared_ptr<SharedPool> pool_;
  const int wake_fd_;
  std::optional<SharingProbe> probe_;
  std::unique_ptr<Channel> channel_;  // before the session begins: the offered one
  std::uint64_t session_ = 0;
  bool can_put_ = false;
  bool failed_ = false;
  std::uint64_t nonce_ = 0;  // of the last offer
  std::optional<PeerFiles> files_;
  std::string sees_;  // still to be reported
  std::unordered_map<std::uint64_t, std::shared_ptr<Mapping>> mapped_;
  std::shared_ptr<ReleasedQueue> released_;  // of this session
};

}  // namespace tuplespace
