// WakeUp: how a thread that waits for many things is woken: by other threads of its process, and by
// other processes of its host, which open its pipe through /proc. Waking a thread that does not
// sleep costs no system call.
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

  // Since the last EndSleep.
  bool notified() const { return notified_.load(std::memory_order_relaxed); }

  // The waiting thread's. False: it was notified since its last sleep, so there is none; EndSleep
  // is called all the same.
  bool BeginSleep();
  // True: Notify was called. `readable`: what poll said about fd().
  bool EndSleep(bool readable);

  // A pipe; to be polled for reading while asleep.
  int fd() const { return read_fd_; }

 private:
  std::atomic<bool> notified_{false};
  std::atomic<bool> asleep_{false};
  int read_fd_ = -1;
  int write_fd_ = -1;
};

}  // namespace tuplespace
