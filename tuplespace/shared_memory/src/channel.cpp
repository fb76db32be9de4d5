#include "channel.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cassert>
#include <cstring>
#include <new>
#include <vector>

namespace tuplespace {

namespace {

constexpr std::uint64_t kHeaderBytes = 4096;
constexpr std::uint64_t kRingBytes = 1 << 20;  // a power of two
constexpr std::uint64_t kAlign = 16;
constexpr std::uint64_t kLineBytes = 64;

std::uint64_t Aligned(std::uint64_t bytes) {
  return (bytes + kAlign - 1) / kAlign * kAlign;
}

// Whole pages, because a peer opens no other files. Pages may be larger than the header.
std::uint64_t FileBytes() {
  return RoundToPages(kHeaderBytes + kRingBytes);
}

}  // namespace

// The beginning of a file. Positions are counts of bytes since the start.
struct Channel::Header {
  alignas(kLineBytes) std::atomic<std::uint64_t> written;
  alignas(kLineBytes) std::atomic<std::uint64_t> read;
  alignas(kLineBytes) std::atomic<std::uint32_t> sleeps;  // odd: asleep
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

// The sizes of the payloads, the control frame and the payloads follow, each aligned.
struct Channel::Record {
  std::uint64_t bytes = 0;  // of the whole record
  std::uint64_t after = 0;  // this many messages of the session in the socket precede it
  std::uint64_t control_bytes = 0;
  std::uint64_t payloads = 0;
};

std::uint64_t Channel::RecordBytes(std::uint64_t control_bytes, std::span<const Payload> payloads) {
  std::uint64_t bytes = sizeof(Record) + Aligned(payloads.size() * sizeof(std::uint64_t));
  bytes += Aligned(control_bytes);
  for (const Payload& payload : payloads) bytes += Aligned(payload.size());
  return bytes;
}

std::unique_ptr<Channel> Channel::Make() {
  auto file = MakeMemoryFile(FileBytes());
  if (!file) return nullptr;
  auto channel = std::make_unique<Channel>();
  channel->own_ = *std::move(file);
  new (channel->own_.mapping.data()) Header{};
  return channel;
}

bool Channel::Attach(const PeerFiles& peer, int ring_fd, int wake_fd) {
  const auto file = peer.Open(ring_fd);
  auto wake_pipe = peer.OpenPipe(wake_fd);
  if (!file || !wake_pipe) return false;
  auto mapping = MapForReading(*file, /*populate=*/true);
  if (!mapping || mapping->size() != FileBytes()) return false;
  peer_ = *std::move(mapping);
  wake_pipe_ = *std::move(wake_pipe);
  return true;
}

Channel::Header& Channel::own() const {
  return *std::launder(reinterpret_cast<Header*>(own_.mapping.data()));
}

const Channel::Header& Channel::peer() const {
  return *std::launder(reinterpret_cast<const Header*>(peer_.data()));
}

// ---- sending -----------------------------------------------------------------------------

bool Channel::Fits(std::span<const std::byte> control, std::span<const Payload> payloads) {
  return RecordBytes(control.size(), payloads) <= kMaxMessageBytes;
}

bool Channel::Send(std::span<const std::byte> control, std::span<const Payload> payloads) {
  const Record record{RecordBytes(control.size(), payloads), sent_elsewhere_, control.size(),
                      payloads.size()};
  // The other end's value is trusted only as far as it cannot harm this end.
  const std::uint64_t held = written_ - peer().read.load(std::memory_order_acquire);
  if (held > kRingBytes || kRingBytes - held < record.bytes) return false;
  std::uint64_t at = written_;
  CopyIn(at, &record, sizeof(record));
  at += sizeof(record);
  std::vector<std::uint64_t> sizes;
  sizes.reserve(payloads.size());
  for (const Payload& payload : payloads) sizes.push_back(payload.size());
  CopyIn(at, sizes.data(), sizes.size() * sizeof(std::uint64_t));
  at += Aligned(sizes.size() * sizeof(std::uint64_t));
  CopyIn(at, control.data(), control.size());
  at += Aligned(control.size());
  for (const Payload& payload : payloads) {
    CopyIn(at, payload.data(), payload.size());
    at += Aligned(payload.size());
  }
  assert(at == written_ + record.bytes);
  written_ = at;
  own().written.store(written_, std::memory_order_release);
  Ring();
  return true;
}

void Channel::CopyIn(std::uint64_t at, const void* data, std::size_t bytes) {
  if (bytes == 0) return;
  std::byte* const ring = own_.mapping.data() + kHeaderBytes;
  const std::uint64_t begin = at % kRingBytes;
  const std::size_t first = std::min<std::uint64_t>(bytes, kRingBytes - begin);
  std::memcpy(ring + begin, data, first);
  std::memcpy(ring, static_cast<const std::byte*>(data) + first, bytes - first);
}

void Channel::Ring() {
  // Either this end sees that the other one sleeps, or the other one sees the message before it
  // sleeps.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  const std::uint32_t sleeps = peer().sleeps.load(std::memory_order_relaxed);
  if (sleeps % 2 == 0 || sleeps == rung_) return;
  rung_ = sleeps;
  // This fails only if the pipe is full, and then it is readable anyway.
  [[maybe_unused]] const auto written = write(wake_pipe_.get(), "", 1);
}

// ---- receiving ---------------------------------------------------------------------------

void Channel::CopyOut(std::uint64_t at, void* data, std::size_t bytes) const {
  if (bytes == 0) return;
  const std::byte* const ring = peer_.data() + kHeaderBytes;
  const std::uint64_t begin = at % kRingBytes;
  const std::size_t first = std::min<std::uint64_t>(bytes, kRingBytes - begin);
  std::memcpy(data, ring + begin, first);
  std::memcpy(static_cast<std::byte*>(data) + first, ring, bytes - first);
}

// The head of the next record, if there is one and it may be read now.
std::optional<Channel::Record> Channel::Next() const {
  if (broken_ || !attached()) return std::nullopt;
  const std::uint64_t there = peer().written.load(std::memory_order_acquire) - read_;
  if (there == 0) return std::nullopt;
  Record record;
  broken_ = there > kRingBytes || there < sizeof(record);
  if (broken_) return std::nullopt;
  CopyOut(read_, &record, sizeof(record));
  // Limits each number, so that their sum cannot overflow.
  broken_ = record.bytes > std::min(there, kMaxMessageBytes) ||
            record.control_bytes > kMaxMessageBytes ||
            record.payloads > kMaxMessageBytes / sizeof(std::uint64_t) ||
            record.bytes < sizeof(record) + Aligned(record.control_bytes) +
                               Aligned(record.payloads * sizeof(std::uint64_t));
  if (broken_ || record.after > received_elsewhere_) return std::nullopt;
  return record;
}

std::uint64_t Channel::input_end() const {
  return peer().written.load(std::memory_order_acquire);
}

bool Channel::HasInput() const {
  return Next().has_value();
}

// Copies everything before checking it, as the other end could change its ring at any time.
bool Channel::Receive(ReceivedMultipart& message) {
  const auto record = Next();
  if (!record || !ReceivePayloads(*record, message)) return false;
  read_ += record->bytes;
  own().read.store(read_, std::memory_order_release);
  return true;
}

bool Channel::ReceivePayloads(const Record& record, ReceivedMultipart& message) {
  std::vector<std::uint64_t> sizes(record.payloads);
  CopyOut(read_ + sizeof(record), sizes.data(), sizes.size() * sizeof(std::uint64_t));
  const std::uint64_t head = sizeof(record) + Aligned(sizes.size() * sizeof(std::uint64_t));
  std::uint64_t bytes = 0;
  for (const std::uint64_t size : sizes) {
    broken_ = broken_ || size > kMaxMessageBytes;
    bytes += Aligned(size);
    if (broken_) return false;
  }
  broken_ = head + Aligned(record.control_bytes) + bytes != record.bytes;
  if (broken_) return false;
  message.payloads.clear();
  message.problem.reset();
  message.frame.rebuild(record.control_bytes);
  message.control_begin = 0;
  message.control_bytes = record.control_bytes;
  CopyOut(read_ + head, message.frame.data(), record.control_bytes);
  // Each payload has its own memory, as some may be kept for long and others not.
  std::uint64_t at = read_ + head + Aligned(record.control_bytes);
  for (const std::uint64_t size : sizes) {
    auto memory = std::make_shared_for_overwrite<std::byte[]>(size);
    CopyOut(at, memory.get(), size);
    const std::byte* const begin = memory.get();
    message.payloads.emplace_back(std::move(memory), begin, size);
    at += Aligned(size);
  }
  return true;
}

// ---- sleeping ----------------------------------------------------------------------------

void Channel::BeginSleep() {
  own().sleeps.fetch_add(1, std::memory_order_seq_cst);
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

void Channel::EndSleep() {
  own().sleeps.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace tuplespace
