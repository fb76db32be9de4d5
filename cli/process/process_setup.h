// What the process needs of the system before it does anything: its standard descriptors, and
// limits that are high enough.
#pragma once

#include <cstddef>
#include <string>

namespace acan::cli {

// Call it before anything else opens a file or starts a thread. Opens those of the descriptors 0,
// 1 and 2 that are closed on /dev/null: otherwise the next files would get these numbers, and what
// is printed would be written into them. Has writes to a pipe without a reader, and beyond the
// limit of a file's size, fail with an error in place of a signal that ends the process.
void SetUpProcess();

// What a broker, a manager or a handler opens for itself: its log, its signals, its sockets and
// what it shares with a few others. It is no bound: there are more for each client.
inline constexpr std::size_t kLeastDescriptors = 64;

// What a role starts beside the thread that it has: for signals, for ZeroMQ and for itself. Those
// of a device, and of transfers between hosts, come on top.
inline constexpr std::size_t kLeastThreads = 6;
inline constexpr std::size_t kLeastThreadsOfBroker = 3;

// Raises the limit of open files as far as it goes. Throws Error (failure) if `who`, say "acan
// train", may then not open `descriptors` files, may not take the address space that its threads
// and its libraries need, or may not start `threads` of them: beyond such limits libraries wait for
// ever or abort the process.
void RequireLimits(const std::string& who, std::size_t descriptors = kLeastDescriptors,
                   std::size_t threads = kLeastThreads);

// Throws Error (failure) if the stacks of threads are too small, this one's included. Call it
// before a command does anything: a stack that ends is a signal that ends the process without a
// word.
void RequireStacks();

}  // namespace acan::cli
