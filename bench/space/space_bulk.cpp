#include "space_bulk.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>
#include <zmq.hpp>

#include "clock.h"
#include "space_place.h"
#include "tuplespace/client.h"
#include "tuplespace/shared_pool.h"

namespace acan::bench {
namespace {

namespace ts = tuplespace;

constexpr std::size_t kBulkWindow = 4;  // payloads in flight
constexpr int kWarmUp = 32;             // the first ones make the memory that later ones reuse

// Reads and retires the payloads with the numbers [begin, end).
void ReadAndRetire(ts::Client& reader, int begin, int end, std::int64_t round) {
  int asked = begin;
  std::size_t open = 0;
  while (asked < end || reader.unanswered() > 0) {
    for (; asked < end && open < kBulkWindow; ++asked, ++open) {
      ts::Read read;
      const ts::Pattern pattern = ts::Pattern::Of(ts::Key{"bulk", round, asked});
      read.patterns = {pattern};
      read.wait_us = ts::kForeverUs;
      reader.Submit(std::move(read), [&, pattern](ts::ReplyBody&&) {
        --open;
        reader.Submit(ts::Retire{pattern, /*watermark=*/false}, nullptr);
      });
    }
    reader.Poll(kPollTime);
  }
}

// Payloads in flight together differ, because a payload that is twice in one message is sent once.
class Payloads {
 public:
  Payloads(std::shared_ptr<ts::SharedPool> pool, std::size_t bytes)
      : pool_(std::move(pool)), bytes_(bytes) {
    for (std::size_t i = 0; i < kBulkWindow; ++i) {
      own_.push_back(ts::Payload::Copy(std::string(bytes, static_cast<char>('A' + i))));
    }
    std::fill(piece_.begin(), piece_.end(), 'p');
  }

  ts::Payload Next() {
    const std::size_t number = next_++;
    if (!pool_) return own_[number % kBulkWindow];
    const ts::SharedPool::Block block = pool_->Allocate(bytes_);
    if (!block) throw std::runtime_error("no shared memory for the benchmark's payloads");
    std::memcpy(piece_.data(), &number, sizeof(number));
    ts::PayloadHasher hasher;
    for (std::size_t at = 0; at < bytes_; at += piece_.size()) {
      const std::size_t part = std::min(piece_.size(), bytes_ - at);
      std::memcpy(block->data + at, piece_.data(), part);
      hasher.Add({block->data + at, part});
    }
    return ts::Payload(block, block->data, bytes_, block.get()).WithHash(hasher.Hash());
  }

 private:
  const std::shared_ptr<ts::SharedPool> pool_;
  const std::size_t bytes_;
  std::vector<ts::Payload> own_;
  std::array<char, 16 << 10> piece_;  // stays in the innermost cache
  std::size_t next_ = 0;
};

void PutAndRead(ts::Client& putter, ts::Client& reader, Payloads& payloads, int begin, int end,
                std::int64_t round) {
  std::thread reading([&] { ReadAndRetire(reader, begin, end, round); });
  for (int put = begin; put < end || putter.unanswered() > 0;) {
    for (; put < end && putter.unanswered() < kBulkWindow; ++put) {
      ts::Put request;
      request.tuples.resize(1);
      request.tuples[0].key = ts::Key{"bulk", round, put};
      request.tuples[0].payload = payloads.Next();
      putter.Submit(std::move(request), nullptr);
    }
    putter.Poll(kPollTime);
  }
  reading.join();
}

zmq::socket_t Dealer(Place& place, const Server& forwarder, const char* id) {
  zmq::socket_t dealer(place.context(), zmq::socket_type::dealer);
  dealer.set(zmq::sockopt::linger, 0);
  dealer.set(zmq::sockopt::routing_id, id);
  dealer.connect(forwarder.endpoint());
  dealer.send(zmq::str_buffer("known when it comes back"), zmq::send_flags::none);
  zmq::message_t answer;
  while (!dealer.recv(answer)) {
  }
  return dealer;
}

}  // namespace

double PutReadGigabytesPerSecond(Place& place, const Server& broker, std::size_t bytes, int count,
                                 std::int64_t round, Passing passing) {
  const auto pool = passing == Passing::kInPlace ? ts::SharedPool::Make() : nullptr;
  const bool shared_memory = passing != Passing::kFrames;
  const auto reader = place.Connect(broker, {}, shared_memory);
  const auto putter = place.Connect(broker, pool, shared_memory);
  reader->GetStatistics();
  putter->GetStatistics();
  Payloads payloads(pool, bytes);
  PutAndRead(*putter, *reader, payloads, 0, kWarmUp, round);
  const auto begin = Clock::now();
  PutAndRead(*putter, *reader, payloads, kWarmUp, kWarmUp + count, round);
  const double seconds = Seconds(Clock::now() - begin);
  return static_cast<double>(bytes) * count / seconds / 1e9;
}

// The cost of a result that is copied once and read in place: the reference for put + read.
double CopyGigabytesPerSecond(std::size_t bytes, int count) {
  const std::string from(bytes, 'c');
  std::vector<std::string> to(kBulkWindow, std::string(bytes, ' '));
  const auto begin = Clock::now();
  for (int i = 0; i < count; ++i) {
    std::memcpy(to[static_cast<std::size_t>(i) % kBulkWindow].data(), from.data(), bytes);
  }
  return static_cast<double>(bytes) * count / Seconds(Clock::now() - begin) / 1e9;
}

double BareHopGigabytesPerSecond(Place& place, const Server& forwarder, std::size_t bytes,
                                 int count) {
  zmq::socket_t sender = Dealer(place, forwarder, "sender");
  zmq::socket_t receiver = Dealer(place, forwarder, "receiver");
  std::string payload(bytes, 'h');
  const auto begin = Clock::now();
  std::thread receiving([&] {
    for (int i = 0; i < count; ++i) {
      zmq::message_t message;
      while (!receiver.recv(message)) {
      }
      receiver.send(zmq::str_buffer("sender"), zmq::send_flags::sndmore);
      receiver.send(zmq::str_buffer("taken"), zmq::send_flags::none);
    }
  });
  const auto keep = [](void*, void*) {};
  for (int sent = 0, taken = 0; taken < count;) {
    for (; sent < count && sent - taken < static_cast<int>(kBulkWindow); ++sent) {
      sender.send(zmq::str_buffer("receiver"), zmq::send_flags::sndmore);
      sender.send(zmq::message_t(payload.data(), bytes, keep), zmq::send_flags::none);
    }
    zmq::message_t answer;
    if (sender.recv(answer)) ++taken;
  }
  receiving.join();
  return static_cast<double>(bytes) * count / Seconds(Clock::now() - begin) / 1e9;
}

}  // namespace acan::bench
