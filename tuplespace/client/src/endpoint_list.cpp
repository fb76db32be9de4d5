#include "endpoint_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "endpoint.h"

namespace tuplespace {

std::vector<std::string> EndpointsIn(const std::string& endpoints) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0;;) {
    std::size_t end = std::string::npos;
    for (const char* const scheme : {",tcp://", ",ipc://", ",inproc://"}) {
      end = std::min(end, endpoints.find(scheme, begin));
    }
    parts.push_back(endpoints.substr(begin, end == std::string::npos ? end : end - begin));
    if (end == std::string::npos) return parts;
    begin = end + 1;
  }
}

EndpointList::EndpointList(const std::string& endpoints, bool has_keys) {
  std::vector<std::string> parts = EndpointsIn(endpoints);
  if (parts.size() > kMost) {
    throw std::invalid_argument(
        fmt::format("{} endpoints were given, \"{}\"; a client tries {} at most", parts.size(),
                    endpoints, kMost));
  }
  for (std::string& part : parts) {
    std::string address = ConnectAddress(part, has_keys);
    if (parts.size() > 1 && part.starts_with("inproc://")) {
      throw std::invalid_argument(
          fmt::format("endpoint \"{}\" is of this process: it cannot stand beside others in \"{}\"",
                      part, endpoints));
    }
    places_.push_back({std::move(part), std::move(address)});
  }
}

void EndpointList::BeginAttempt() {
  if (!std::exchange(stay_, false)) current_ = (current_ + 1) % places_.size();
}

}  // namespace tuplespace
