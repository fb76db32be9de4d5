// Channel: messages between two processes of one host through shared memory, without a copy in the
// kernel, without another thread in between, and without a system call unless the receiver sleeps.
//
// Each end makes one file in memory that only it can write. The file has the ring of messages that
// it sends, its read position in the other's ring, and whether it sleeps. So neither end can damage
// the other's data, and messages that a killed process had finished can still be read.
//
//     file of A:  [written | read | asleep][ring: A to B]       file of B: the same, B to A
//
// A session also has its socket: for messages that are too large, for messages before both ends
// were proven to exist, and to detect that the other end has ended. Every record says how many
// messages of its session went through the socket before it, and waits for them. A receiver reads
// the ring before it handles a message from the socket. So messages arrive in the order of sending.
//
// One thread owns each end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "memfd.h"
#include "sockets.h"

namespace tuplespace {

class Channel {
 public:
  // The largest message that may use the channel, with all its payloads.
  static constexpr std::uint64_t kMaxMessageBytes = 512 << 10;

  // One end. Null if the system provides no memory.
  static std::unique_ptr<Channel> Make();

  int fd() const { return own_.fd.get(); }  // to be sent to the other end
  // The other end's file and its wake-up pipe, as descriptors of its process. False: they are
  // invalid; nothing has changed.
  bool Attach(const PeerFiles& peer, int ring_fd, int wake_fd);
  bool attached() const { return peer_.valid(); }

  // REQUIRES from here on: attached().

  // Whether a message can use the channel at all; otherwise it uses the socket.
  static bool Fits(std::span<const std::byte> control, std::span<const Payload> payloads);
  // False: there is no room now. REQUIRES: Fits(...).
  bool Send(std::span<const std::byte> control, std::span<const Payload> payloads);
  // A message of this session was sent through the socket.
  void CountSent() { ++sent_elsewhere_; }

  // Sets only `control` and `payloads` of `message`. False: there is no message, or one in the
  // socket must be handled first.
  bool Receive(ReceivedMultipart& message);
  // A message of this session was received through the socket.
  void CountReceived() { ++received_elsewhere_; }
  // The number of bytes sent by the other end, and received here, so far.
  std::uint64_t input_end() const;
  std::uint64_t input_position() const { return read_; }
  // The other end wrote invalid data and is not read any more.
  bool broken() const { return broken_; }

  // Before a thread sleeps, it calls BeginSleep for all its channels and then checks HasInput.
  // Anything sent later wakes it.
  void BeginSleep();
  void EndSleep();
  bool HasInput() const;

 private:
  struct Header;
  struct Record;

  static std::uint64_t RecordBytes(std::uint64_t control_bytes, std::span<const Payload> payloads);
  Header& own() const;
  const Header& peer() const;
  void CopyIn(std::uint64_t at, const void* data, std::size_t bytes);
  void CopyOut(std::uint64_t at, void* data, std::size_t bytes) const;
  std::optional<Record> Next() const;
  bool ReceivePayloads(const Record& record, ReceivedMultipart& message);
  void Ring();

  MemoryFile own_;
  Mapping peer_;
  UniqueFd wake_pipe_;
  std::uint64_t written_ = 0;  // equals own().written
  std::uint64_t read_ = 0;     // as own().read
  std::uint64_t sent_elsewhere_ = 0;
  std::uint64_t received_elsewhere_ = 0;
  std::uint32_t rung_ = 0;  // the sleep for which the other end was woken last
  mutable bool broken_ = false;
};

}  // namespace tuplespace
