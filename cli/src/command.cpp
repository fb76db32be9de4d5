#include "command.h"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "fmt/format.h"

namespace acan::cli {

void Print(const std::string& text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0) {
    throw FailureError(std::string("cannot write to stdout: ") + std::strerror(errno));
  }
}

void PrintLine(const std::string& line) {
  Print(line + "\n");
}

void CheckEndpoint(const std::string& endpoint, const std::string& origin) {
  const std::size_t colon = endpoint.find("://");
  const std::string scheme = endpoint.substr(0, colon);
  if (colon == std::string::npos || (scheme != "tcp" && scheme != "ipc") ||
      endpoint.size() == colon + 3) {
    throw UsageError(
        fmt::format("{}: \"{}\" is no endpoint; write tcp://127.0.0.1:5555 or "
                    "ipc:///path/of/a/socket",
                    origin, endpoint));
  }
  if (scheme == "tcp" && endpoint.find(':', colon + 3) == std::string::npos) {
    throw UsageError(
        fmt::format("{}: \"{}\" has no port; write tcp://127.0.0.1:5555", origin, endpoint));
  }
}

std::string HostName() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return "localhost";
  return name.data();
}

}  // namespace acan::cli
