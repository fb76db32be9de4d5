#include "acan/manager/work_beside.h"

#include <atomic>
#include <chrono>
#include <exception>

#include "acan/manager/worker_thread.h"

namespace acan {
namespace {

constexpr std::chrono::milliseconds kPoll(50);

struct Ended {};  // thrown through the work when nobody waits for it any more

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
  thread.Start([&] {
    try {
      work([&ended] {
        if (ended) throw Ended{};
      });
    } catch (...) {
      problem = std::current_exception();
    }
    done = true;
    client.Wake();
  });
  while (!done) {
    client.Poll(kPoll);
    check();
  }
  thread.Join();
  if (problem) std::rethrow_exception(problem);
}

}  // namespace acan
