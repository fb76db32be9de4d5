// PeerReader: the decisions of a client that fetches payloads from one holder over one connection.
// A pure state machine without sockets, clock or threads.
//
// A fetch ends with the payload, whose bytes have the hash that the holder sent, or without it: the
// holder refused it, sent anything but a payload of the expected size, or was too slow; or the
// connection ended. A refusal concerns one fetch. So do bytes that do not have the hash that they
// must have, unless the payload before them was wrong in the same way. In all other cases all
// fetches from this holder end.
//
// Only pieces that are due keep a fetch alive: nothing else that a holder sends costs it anything.
// It is too slow if no due piece came for stall_us, or if a fetch takes longer than all bytes that
// the holder owes meanwhile take at least_bytes_per_s, plus connect_us and stall_us: windows let
// holders send parts of several payloads in turn. So a piece of any fetch counts for the others.
//
// Not thread safe; for one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "peer_frames.h"

namespace tuplespace {

struct PeerReaderLimits {
  std::size_t open_fetches = 8;  // more fetches wait here for their turn
  std::uint32_t window_bytes = 4 << 20;
  std::int64_t connect_us = 3'000'000;  // until the connection is there, or the holder is heard
  std::int64_t stall_us = 5'000'000;
  std::uint64_t least_bytes_per_s = 64 << 10;  // half of a link of 1 Mbit/s
};

// What must be fetched. REQUIRES: a ticket of kTicketBytes, bytes > 0.
struct WantedPayload {
  std::uint64_t id = 0;  // of the fetch, unique
  Key key;
  std::uint64_t bytes = 0;
  std::string ticket;
  ClientId reader;
  std::optional<PayloadHash> hash = {};  // if it is known
};

struct FetchedPayload {
  std::uint64_t id = 0;
  Payload payload;              // empty: it could not be fetched
  std::string why;              // why it could not be fetched
  bool ticket_expired = false;  // with another ticket, it may be
};

class PeerReader {
 public:
  explicit PeerReader(PeerReaderLimits limits) : limits_(limits) {}

  void Fetch(WantedPayload wanted, std::int64_t now_us);
  // Its result is not needed any more. The next Tick begins one that waits.
  void Forget(std::uint64_t id);
  void Connected(std::int64_t now_us);
  void Receive(std::span<const std::byte> message, std::int64_t now_us);
  // The connection has ended, or the holder cannot be reached.
  void Fail(const std::string& why);
  void Tick(std::int64_t now_us);
  std::int64_t NextDeadlineUs() const;

  std::vector<std::vector<std::byte>> TakeOutput();
  std::vector<FetchedPayload> TakeFetched();
  bool idle() const { return open_.empty() && waiting_.empty(); }
  bool failed() const { return failed_; }        // and no Fetch was called since
  bool delivered() const { return delivered_; }  // the holder has sent a whole payload

 private:
  struct Open {
    WantedPayload wanted;
    std::int64_t begun_us = 0;
    std::int64_t end_us = 0;  // it fails if it is not whole then
    std::shared_ptr<std::byte[]> memory;
    std::uint64_t received_bytes = 0;
    PayloadHash hash;  // stated by the holder
    PayloadHasher hasher;
  };
  using OpenFetches = std::map<std::uint64_t, Open>;

  void BeginWaiting(std::int64_t now_us);
  void Begin(WantedPayload wanted, std::int64_t now_us);
  std::int64_t MostUs(std::uint64_t bytes) const;
  void OnPiece(const PieceFrame& piece, std::int64_t now_us);
  void OnRefusal(const RefusalFrame& refusal);
  void OnStray();
  void OnOtherBytes(std::uint64_t id);
  void Finish(OpenFetches::iterator at);
  void End(OpenFetches::iterator at);
  std::int64_t StalledUs() const;  // then the holder is too slow if no due piece comes before
  std::int64_t PatienceUs() const { return heard_ ? limits_.stall_us : limits_.connect_us; }

  const PeerReaderLimits limits_;
  OpenFetches open_;  // by id, which is the transfer's number
  std::deque<WantedPayload> waiting_;
  std::vector<std::vector<std::byte>> output_;
  std::vector<FetchedPayload> fetched_;
  std::int64_t progress_us_ = 0;      // when the last due piece came, or the connection was made
  std::uint64_t strays_left_ = 4;     // messages about fetches that are not open; then it fails
  std::uint32_t wrong_in_a_row_ = 0;  // payloads with other bytes than they must have
  bool heard_ = false;
  bool delivered_ = false;
  bool failed_ = false;
};

}  // namespace tuplespace
