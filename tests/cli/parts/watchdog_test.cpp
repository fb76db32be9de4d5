// What the watchdog reports about a thread that is stuck, and when.
#include "watchdog.h"

#include <condition_variable>
#include <future>
#include <mutex>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace acan::cli {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

// The lines that a watchdog logs.
class Lines {
 public:
  void Add(const std::string& line) {
    const std::lock_guard lock(mutex_);
    lines_.push_back(line);
    changed_.notify_all();
  }
  // Waits for the line with this index.
  std::string At(std::size_t index) {
    std::unique_lock lock(mutex_);
    const bool came =
        changed_.wait_for(lock, std::chrono::seconds(60), [&] { return lines_.size() > index; });
    return came ? lines_[index] : "nothing was said";
  }
  std::size_t count() {
    const std::lock_guard lock(mutex_);
    return lines_.size();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> lines_;
};

TEST(Watchdog, SaysThatNothingComesRoundAndThenThatItGoesOn) {
  Lines lines;
  Watchdog watchdog({"the manager", "a disk does not answer",
                     [&](const std::string& line) { lines.Add(line); }, milliseconds(200),
                     milliseconds(100), milliseconds(50)});
  EXPECT_THAT(lines.At(0), HasSubstr("the manager has made no progress for"));
  EXPECT_THAT(lines.At(0), HasSubstr("a disk does not answer"));
  EXPECT_THAT(lines.At(1), HasSubstr("has made no progress"));
  // The watchdog may report once more before it notices the beat.
  std::size_t next = lines.count();
  for (;; ++next) {
    watchdog.Beat();
    if (lines.At(next).find("continues after") != std::string::npos) break;
    ASSERT_LT(next, 1000u);
  }
  EXPECT_THAT(lines.At(next), HasSubstr("the manager continues after"));
}

// What it reports to may block, as a terminal does.
TEST(Watchdog, ABeatDoesNotWaitForItsReport) {
  std::promise<Watchdog*> made;
  std::future<Watchdog*> watchdog = made.get_future();
  std::future<void> beat;
  std::promise<bool> beaten;
  const auto say = [&](const std::string&) {
    if (!watchdog.valid()) return;  // only the first report
    beat = std::async(std::launch::async, &Watchdog::Beat, watchdog.get());
    beaten.set_value(beat.wait_for(std::chrono::seconds(60)) == std::future_status::ready);
  };
  Watchdog the_one({"the manager", "a disk does not answer", say, milliseconds(1), milliseconds(1),
                    milliseconds(50)});
  made.set_value(&the_one);
  EXPECT_TRUE(beaten.get_future().get());
}

TEST(Watchdog, EndsWithoutAWord) {
  Lines lines;
  {
    const Watchdog watchdog({"the manager", "", [&](const std::string& line) { lines.Add(line); }});
  }
  EXPECT_EQ(lines.count(), 0u);
}

}  // namespace
}  // namespace acan::cli
