#include "watchdog.h"

#include <cstdio>
#include <utility>

#include "fmt/format.h"

namespace acan::cli {

Watchdog::Options Watchdog::OnStderr(std::string what, std::string why) {
  return {std::move(what), std::move(why), [](const std::string& line) {
            const std::string whole = line + "\n";
            std::fputs(whole.c_str(), stderr);  // if it cannot be written, nobody reads it
          }};
}

Watchdog::Watchdog(Options options) : options_(std::move(options)), thread_([this] { Watch(); }) {}

Watchdog::~Watchdog() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

void Watchdog::Beat() {
  beaten_.store(true);
}

void Watchdog::Watch() {
  Clock::time_point since = Clock::now();
  Clock::time_point say_at = since + options_.patience;
  Clock::time_point looked = since;
  const auto seconds = [&since](Clock::time_point now) {
    return std::chrono::duration_cast<std::chrono::duration<double>>(now - since).count();
  };
  bool said = false;
  std::unique_lock lock(mutex_);
  while (!wake_.wait_for(lock, options_.look_every, [this] { return stop_; })) {
    const Clock::time_point now = Clock::now();
    // A process that was stopped, or that got no processor, was not stuck.
    const bool paused = now - looked > 3 * options_.look_every;
    looked = now;
    if (beaten_.exchange(false) || paused) {
      if (said && !paused) {
        options_.say(fmt::format("{} continues after {:.0f} s", options_.what, seconds(now)));
      }
      said = said && paused;
      since = now;
      say_at = now + options_.patience;
    } else if (now >= say_at) {
      said = true;
      say_at = now + options_.again;
      options_.say(fmt::format("{} has made no progress for {:.0f} s: {}", options_.what,
                               seconds(now), options_.why));
    }
  }
}

}  // namespace acan::cli
