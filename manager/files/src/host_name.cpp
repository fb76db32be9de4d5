#include "acan/manager/host_name.h"

#include <unistd.h>

#include <array>

namespace acan {

std::string HostName() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return "localhost";
  return name.data();
}

}  // namespace acan
