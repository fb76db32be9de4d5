#include "acan/manager/work_beside.h"

#include <atomic>
#include <chrono>
#include <exception>
#include <system_error>

#include "acan/manager/worker_thread.h"

namespace acan {
namespace {

constexpr std::chrono::milliseconds kPoll(50);

struct Ended {};  // thrown through the work when nobody waits for it any more

// For a system without a free thread.
void WorkBetween(tuplespace::Client& client, const std::function<void()>& check,
                 const std::function<void(const std::function<void()>& go_on)>& work) {
  work([&] {
    client.Poll(std::chrono::microseconds(0));
    check();
  });
}

}  // namespace

void WorkBeside(tuplespace::Client& client, const std::function<void()>& check,
                const std::function<void(const std::function<void()>& go_on)>& work) {
  std::atomic<bool> done{false};
  std::atomic<bool> ended{false};
  std::exception_ptr problem;
  WorkerThread thread;
  struct End {
    std::atomic<bool>& ended;
    ~End() { ended = true; }  // before the thread is joined
  } const end{ended};
  const auto work_there = [&] {
    try {
      work([&ended] {
        if (ended) throw Ended{};
      });
    } catch (...) {
      problem = std::current_exception();
    }
    done = true;
    client.Wake();
  };
  try {
    thread.Start(work_there);
  } catch (const std::system_error&) {
    return WorkBetween(client, check, work);
  }
  while (!done) {
    client.Poll(kPoll);
    check();
  }
  thread.Join();
  if (problem) std::rethrow_exception(problem);
}

}  // namespace acan
