// WakeUp: wakes a thread that waits for several things. Other threads of its process can wake it,
// and so can other processes of its host, which open its pipe through /proc. Waking a thread that
// does not sleep costs no system call.
#pragma once

#include <atomic>

namespace tuplespace {

class WakeUp {
 public:
  WakeUp();
  ~WakeUp();
  WakeUp(const WakeUp&) = delete;
  WakeUp& operator=(const WakeUp&) = delete;

  void Notify();  // thread safe, async-signal safe

  // Whether Notify was called since the last EndSleep.
  bool notified() const { return notified_.load(std::memory_order_relaxed); }

  // For the waiting thread. False: it was notified since its last sleep and must not sleep; it
  // calls EndSleep all the same.
  bool BeginSleep();
  // For the waiting thread. True: Notify was called. `readable` is what poll said about fd().
  bool EndSleep(bool readable);

  // A pipe, to be polled for reading while the thread sleeps.
  int fd() const { return read_fd_; }

 private:
  std::atomic<bool> notified_{false};
  std::atomic<bool> asleep_{false};
  int read_fd_ = -1;
  int write_fd_ = -1;
};

}  // namespace tuplespace
