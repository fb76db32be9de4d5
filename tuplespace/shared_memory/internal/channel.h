// Channel: messages between two processes of one host through shared memory: no copy in the
// kernel, no other thread in between, and no system call unless the receiver sleeps.
//
// Each end makes one file in memory that only it can write: a ring of what it sends, how far it has
// read the other's ring, and whether it sleeps. So neither can damage what the other keeps, and
// what a process that was killed had finished writing is there to be read.
//
//     file of A:  [written | read | asleep][ring: A to B]       file of B: the same, B to A
//
// A session has its socket, too: for messages that are too large, for those before both ends were
// proven to be there, and to see that the other one has ended. Every record says how many messages
// of its session went through the socket before it, and waits for them; whoever gets one from the
// socket reads the ring first. So the order is that of sending.
//
// One thread owns an end.
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
  // The largest message that goes through it, with all its payloads.
  static constexpr std::uint64_t kMostMessageBytes = 512 << 10;

  // One end. Null if the system gives no memory.
  static std::unique_ptr<Channel> Make();

  int fd() const { return own_.fd.get(); }  // to be told to the other end
  // The other end's file and the pipe of its wake-up, as descriptors of its process. False: they
  // are not what they should be; nothing has changed.
  bool Attach(const PeerFiles& peer, int ring_fd, int wake_fd);
  bool attached() const { return peer_.valid(); }

  // REQUIRES from here on: attached().

  // Whether a message can go through it at all, or goes through the socket.
  static bool Fits(std::span<const std::byte> control, std::span<const Payload> payloads);
  // False: no room now. REQUIRES: Fits(...).
  bool Send(std::span<const std::byte> control, std::span<const Payload> payloads);
  // A message of this session was sent through the socket.
  void CountSent() { ++sent_elsewhere_; }

  // Sets `control` and `payloads`, and nothing else, of `message`. False: there is none, or one in
  // the socket comes first.
  bool Receive(ReceivedMultipart& message);
  // A message of this session was received through the socket.
  void CountReceived() { ++received_elsewhere_; }
  // How much was sent, and how much received, through it so far, in bytes.
  std::uint64_t input_end() const;
  std::uint64_t input_position() const { return read_; }
  // The other end wrote what it should not; it is not read any further.
  bool broken() const { return broken_; }

  // Before it sleeps a thread calls BeginSleep for all its channels, and then asks HasInput: what
  // is sent after that wakes it up.
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
  std::uint64_t written_ = 0;  // as own().written
  std::uint64_t read_ = 0;     // as own().read
  std::uint64_t sent_elsewhere_ = 0;
  std::uint64_t received_elsewhere_ = 0;
  std::uint32_t rung_ = 0;  // the sleep in which the other one was rung last
  mutable bool broken_ = false;
};

}  // namespace tuplespace
