// Records in a channel's ring, to which another process may write anything.
//
// Input: [flags: 1][messages counted from the socket: 1][written: 4][ring]
//     or [flags: 1][size of the control frame: 2][size of each payload: 2]..., which the target
//     sends
//     and receives
#include "channel.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <stdexcept>
#include <string>

#include "memfd.h"
#include "target.h"
#include "wake_up.h"

namespace acan::fuzz::channel_target {
namespace {

using namespace tuplespace;

// The layout of the file in channel.cpp.
constexpr std::size_t kHeaderBytes = 4096, kRingBytes = 1 << 20;
constexpr std::uint64_t kSendAndReceive = 1, kAcrossTheEnd = 2;
// The reader's position if the records are to wrap around the end of the ring.
constexpr std::size_t kBeforeEnd = 64;

using RecordHead = std::array<std::uint64_t, 4>;  // bytes, after, control_bytes, payloads

std::string Bytes(const RecordHead& head) {
  return {reinterpret_cast<const char*>(head.data()), sizeof(head)};
}

class Peer {
 public:
  Peer() {
    auto file = tuplespace::MakeMemoryFile(kHeaderBytes + kRingBytes);
    if (!file) throw std::runtime_error("no memory for a ring");
    file_ = *std::move(file);
  }
  int fd() const { return file_.fd.get(); }
  void Write(std::uint64_t at, std::string_view bytes) {
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      file_.mapping.data()[kHeaderBytes + (at + i) % kRingBytes] = static_cast<std::byte>(bytes[i]);
    }
  }
  void SetWritten(std::uint64_t written) {
    std::memcpy(file_.mapping.data(), &written, sizeof(written));
  }

 private:
  tuplespace::MemoryFile file_;
};

std::uint64_t SizeOf(const ReceivedMultipart& message) {
  std::uint64_t bytes = message.control().size();
  for (const Payload& payload : message.payloads) bytes += payload.size();
  return bytes;
}

void ReceiveAll(Channel& channel, std::size_t* messages) {
  for (;;) {
    const std::uint64_t before = channel.input_position();
    const bool has_input = channel.HasInput();
    const HeapWatch heap;
    ReceivedMultipart message;
    const bool received = channel.Receive(message);
    heap.RequireAtMost(8 * Channel::kMaxMessageBytes);
    Require(has_input || !received, "a message came that HasInput did not see");
    if (!received) {
      Require(channel.input_position() == before, "the reader went on without a message");
      return;
    }
    Require(SizeOf(message) <= Channel::kMaxMessageBytes, "a message of {} bytes", SizeOf(message));
    Require(channel.input_position() > before && channel.input_position() <= channel.input_end(),
            "the reader went from {} to {}, written are {}", before, channel.input_position(),
            channel.input_end());
    ++*messages;
  }
}

bool RunRing(std::uint64_t flags, InputReader in) {
  static Peer peer;
  static const WakeUp wake_up;
  static const auto self = PeerFiles::Of(getpid());
  const auto channel = Channel::Make();
  if (!channel || !channel->Attach(*self, peer.fd(), wake_up.fd())) {
    throw std::runtime_error("cannot attach to a ring");
  }
  std::size_t messages = 0;
  std::uint64_t begin = 0;
  if (flags & kAcrossTheEnd) {
    constexpr std::uint64_t kHalf = kRingBytes / 2;
    for (const std::uint64_t bytes : {kHalf, kHalf - kBeforeEnd}) {
      peer.Write(begin, Bytes({bytes, 0, bytes - sizeof(RecordHead), 0}));
      begin += bytes;
    }
    peer.SetWritten(begin);
    ReceiveAll(*channel, &messages);
    Require(messages == 2, "of two whole records {} were received", messages);
  }
  const std::uint64_t counted = in.Number(1);
  const std::uint64_t written = begin + in.Number(4);
  const std::string_view ring = in.Rest().substr(0, kRingBytes);
  peer.Write(begin, ring);
  peer.SetWritten(written);
  messages = 0;
  for (std::uint64_t i = 0; i <= counted; ++i) {
    ReceiveAll(*channel, &messages);
    channel->CountReceived();
  }
  const bool taken = messages > 0 && !channel->broken();
  peer.Write(begin, std::string(ring.size(), '\0'));
  peer.SetWritten(0);
  return taken;
}

bool RunSendAndReceive(InputReader in) {
  const auto self = PeerFiles::Of(getpid());
  const WakeUp near_wake_up, far_wake_up;
  const auto near = Channel::Make(), far = Channel::Make();
  if (!near || !far || !near->Attach(*self, far->fd(), far_wake_up.fd()) ||
      !far->Attach(*self, near->fd(), near_wake_up.fd())) {
    throw std::runtime_error("cannot attach to a ring");
  }
  const std::string control(in.Number(2), 'c');
  std::vector<Payload> payloads;
  while (!in.empty()) payloads.push_back(Payload::Copy(std::string(in.Number(2), 'p')));
  const auto bytes = std::as_bytes(std::span(control));
  if (!Channel::Fits(bytes, payloads)) return false;
  for (int round = 0; round < 3; ++round) {  // the third round may wrap around the end
    Require(near->Send(bytes, payloads), "a message that fits has no room in an empty ring");
    ReceivedMultipart message;
    Require(far->Receive(message), "a message that was sent does not come");
    Require(std::ranges::equal(message.control(), bytes), "a control frame came changed");
    Require(std::equal(message.payloads.begin(), message.payloads.end(), payloads.begin(),
                       payloads.end(),
                       [](const Payload& a, const Payload& b) { return a.text() == b.text(); }),
            "payloads came changed");
  }
  return true;
}

bool Run(std::string_view input) {
  InputReader in(input);
  const std::uint64_t flags = in.Number(1);
  return flags & kSendAndReceive ? RunSendAndReceive(in) : RunRing(flags, in);
}

std::vector<Seed> Seeds() {
  // Two payloads of 5 and 0 bytes and a control frame of 3, each padded to 16; then an empty
  // record.
  std::string record = Bytes({32 + 16 + 16 + 16, 0, 3, 2});
  record += NumberBytes(5, 1) + std::string(7, '\0') + std::string(8, '\0');
  record += "abc" + std::string(13, '\0') + "12345" + std::string(11, '\0');
  std::string later = Bytes({32, 1, 0, 0});  // comes after one message on the socket
  const auto ring = [](std::uint64_t flags, std::uint64_t counted, const std::string& bytes) {
    return NumberBytes(flags, 1) + NumberBytes(counted, 1) + NumberBytes(bytes.size(), 4) + bytes;
  };
  return {{"record", ring(0, 0, record)},
          {"two-records", ring(0, 1, record + later)},
          {"across-the-end", ring(kAcrossTheEnd, 0, record + record)},
          {"send", NumberBytes(kSendAndReceive, 1) + NumberBytes(100, 2) + NumberBytes(0, 2) +
                       NumberBytes(600, 2)},
          {"send-much", NumberBytes(kSendAndReceive, 1) + std::string(14, '\xF0')}};
}

const Registration registration({"channel", Run, Seeds});

}  // namespace
}  // namespace acan::fuzz::channel_target
