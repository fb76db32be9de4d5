// Waiting for states that are announced to nobody.
#pragma once

#include <chrono>
#include <thread>

namespace tuplespace {

// Looks again and again until `holds()`; returns false if that takes longer than `patience`, which
// no passing test needs. Only for what nobody notifies a process of: a system call in which another
// one waits, a descriptor that another thread closes, a tuple that is removed. For everything else,
// wait for the event itself: output, a socket, the end of a process, a change in a folder.
template <typename Condition>
bool AwaitUnannounced(const Condition& holds,
                      std::chrono::seconds patience = std::chrono::seconds(60)) {
  constexpr std::chrono::milliseconds kLookAgain{1};
  const auto deadline = std::chrono::steady_clock::now() + patience;
  while (!holds()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(kLookAgain);
  }
  return true;
}

}  // namespace tuplespace
