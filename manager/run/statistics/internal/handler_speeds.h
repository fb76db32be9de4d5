// HandlerSpeeds: how fast the handlers present compute, as they report. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "acan/core/names.h"

namespace acan {

class HandlerSpeeds {
 public:
  // Placing tasks anew takes time, so handlers that keep reporting other speeds cannot cause it
  // more often than this.
  static constexpr std::int64_t kSetEveryUs = 20'000'000;

  // Of the handlers that left, so many are remembered. One that was only away for a while, and goes
  // on counting where it was, then counts once in busy_s().
  static constexpr std::size_t kMaxGone = 1000;

  // The handlers present now, by client id.
  void See(const std::map<std::string, Capacity>& present);
  void Note(const std::string& id, const Report& report);
  // Sets Capacity::speed of the handlers present. Does nothing if no bytes cross links, because
  // then any handler takes any task.
  void SetSpeeds(std::map<std::string, Capacity>* present, std::int64_t now_us);

  std::size_t present() const { return present_.size(); }
  double Gflops() const;                     // total of the handlers present
  double busy_s() const { return busy_s_; }  // total of all handlers that ever reported
  std::size_t remembered() const { return reported_.size(); }

 private:
  struct Reported {
    Report last;
    double gflops = 0;          // between the last two reports with work; 0: unknown
    double set_speed = 1;       // by SetSpeeds; the report may have another one by now
    std::uint64_t seen_at = 0;  // the number of the last See with it
  };
  std::map<std::string, Capacity> present_;
  std::map<std::string, Reported> reported_;
  std::uint64_t looks_ = 0;
  std::int64_t next_set_us_ = 0;
  double busy_s_ = 0;
};

}  // namespace acan
