// HandlerSpeeds: how fast the handlers present compute, as they report. Pure.
#pragma once

#include <map>
#include <string>

#include "acan/core/names.h"

namespace acan {

class HandlerSpeeds {
 public:
  // The handlers present now, by client id.
  void See(const std::map<std::string, Capacity>& present);
  void Note(const std::string& id, const Report& report);

  std::size_t present() const { return present_.size(); }
  double Gflops() const;  // total of the handlers present
  double busy_s() const;  // total of all handlers that ever reported

 private:
  struct Reported {
    Report last;
    double gflops = 0;  // between the last two reports with work; 0: unknown
  };
  std::map<std::string, Capacity> present_;
  std::map<std::string, Reported> reported_;
};

}  // namespace acan
