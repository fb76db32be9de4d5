// DirectReads: Reads of keys whose payloads may come from the clients that hold them, as a pure
// state machine. It decides which payloads it asks the broker for, which it fetches, and which it
// reads through the broker because fetching failed.
//
//   Begin --> those without a place: Read{direct} --> found, or its place
//         --> those with a place:    Fetch        --> found, failed, or its ticket has expired
//         --> those whose ticket has expired, each once: Read{direct} --> found, or its place
//   when nothing is in progress: Read of all that failed --> found --> the answer
//
// A ticket expires if its fetch waits long for its turn. Then the payload is still with its holder.
//
// Not thread safe; for one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

#include "tuplespace/client.h"

namespace tuplespace {

class DirectReads {
 public:
  using Submit = std::function<void(Read read, Client::ReplyHandler on_reply)>;
  // `submit` sends a request to the broker and may throw. `read_again` does the same for a read in
  // progress, without any limit. `fetch` begins to fetch a payload under this number, and OnFetched
  // reports its end. `forget` ends the fetch before that.
  struct Doing {
    Submit submit, read_again;
    std::function<void(std::uint64_t fetch, const FoundTuple& found)> fetch;
    std::function<void(std::uint64_t fetch)> forget;
    std::function<std::int64_t()> now_us;
  };
  explicit DirectReads(Doing doing) : doing_(std::move(doing)) {}

  // As Client::ReadDirectly. Without `direct`, everything comes through the broker. If `submit`
  // throws, so does this, and nothing has begun.
  // What `wanted` says about a payload's size bounds the memory that the payload takes: holders may
  // claim any size.
  void Begin(std::vector<FoundTuple> wanted, std::int64_t wait_us, bool direct,
             Client::ReplyHandler on_reply);
  // An empty payload: it could not be fetched, perhaps because the ticket had expired. Returns
  // whether it comes through the broker for that reason.
  bool OnFetched(std::uint64_t fetch, Payload payload, bool ticket_expired = false);
  bool idle() const { return open_.empty(); }

 private:
  using ReadId = std::uint64_t;
  // How a payload is asked for: directly, directly with a second ticket, or through the broker.
  enum class Way { kDirect, kDirectAgain, kBroker };
  struct Open {
    std::vector<FoundTuple> tuples;
    std::int64_t deadline_us = kForeverUs;
    Client::ReplyHandler on_reply;
    std::vector<std::size_t> failed;  // to be read through the broker
    std::size_t under_way = 0;        // fetches and Reads
    bool fell_back = false;
  };
  struct Fetching {
    ReadId read = 0;
    std::size_t tuple = 0;
    Way way = Way::kDirect;
  };

  void Ask(ReadId id, std::vector<std::size_t> which, Way way, const Submit& submit);
  void OnFound(ReadId id, const std::vector<std::size_t>& which, Way way, ReplyBody&& reply);
  void Fetch(ReadId id, std::size_t tuple, Way way);
  void Settle(ReadId id);
  void End(ReadId id, ReplyBody&& answer);

  Doing doing_;
  std::unordered_map<ReadId, Open> open_;
  std::unordered_map<std::uint64_t, Fetching> fetching_;
  ReadId next_read_ = 1;
  std::uint64_t next_fetch_ = 1;
};

}  // namespace tuplespace
