// Sets up the process before it does anything else: its standard descriptors, and sufficient
// limits.
#pragma once

#include <cstddef>
#include <string>

namespace acan::cli {

// Call it before anything else opens a file or starts a thread. Opens those of the descriptors 0, 1
// and 2 that are closed on /dev/null. Otherwise files opened later would get these numbers, and
// output would be written into them. Makes writes to a pipe without a reader, and beyond the limit
// of a file's size, fail with an error instead of a fatal signal.
void SetUpProcess();

// The descriptors that a broker, a manager or a handler opens for itself: its log, its signals, its
// sockets and those shared with a few others. This is no upper bound: each client needs more.
inline constexpr std::size_t kMinDescriptors = 64;

// The threads that a role starts besides its main thread: for signals, for ZeroMQ and for itself.
// Threads of a device, and of transfers between hosts, are additional.
inline constexpr std::size_t kMinThreads = 6;
inline constexpr std::size_t kMinThreadsOfBroker = 3;
inline constexpr std::size_t kMinThreadsOfBrokerWithKeys = 4;  // one watches the key file

// Raises the limit of open files as far as possible. Throws Error (failure) if `who`, such as "acan
// train", cannot then open `descriptors` files, cannot have the address space that its threads and
// libraries need, or cannot start `threads` threads. Beyond such limits, libraries wait forever or
// abort the process.
void RequireLimits(const std::string& who, std::size_t descriptors = kMinDescriptors,
                   std::size_t threads = kMinThreads);

// Throws Error (failure) if the stacks of threads, including this one's, are too small. Call it
// before a command does anything: a stack overflow is a signal that ends the process without a
// message.
void RequireStacks();

}  // namespace acan::cli
