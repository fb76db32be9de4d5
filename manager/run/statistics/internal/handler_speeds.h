// HandlerSpeeds: how fast the handlers that are present compute, from what they report. Pure.
#pragma once

#include <map>
#include <string>

#include "acan/core/names.h"

namespace acan {

class HandlerSpeeds {
 public:
  // Those that are present now, by client id.
  void See(const std::map<std::string, Capacity>& present);
  void Note(const std::string& id, const Report& report);

  std::size_t present() const { return present_.size(); }
  double Gflops() const;  // of those present together
  double busy_s() const;  // of all that ever reported

 private:
  struct Reported {
    Report last;
    double gflops = 0;  // between the last two reports in which it worked; 0: not known
  };
  std::map<std::string, Capacity> present_;
  std::map<std::string, Reported> reported_;
};

}  // namespace acan
