// EndpointList: the places where a client's broker may be, and which one to try next.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "tuplespace/client.h"

namespace tuplespace {

// Not thread safe; for one thread.
class EndpointList {
 public:
  static constexpr std::size_t kMost = 16;

  // `endpoints`: as in ClientOptions. Throws std::invalid_argument for an endpoint that
  // ConnectAddress refuses, for more than kMost endpoints, and for inproc:// together with others.
  EndpointList(const std::string& endpoints, bool has_keys);

  // Chooses the place of the next connection. Tries the place where a broker last answered once
  // more, as the broker or the link may be back, and then the others in turn.
  void BeginAttempt();
  // A broker welcomed this client at the current place.
  void Answered() { stay_ = true; }

  const std::string& endpoint() const { return places_[current_].endpoint; }  // as given
  const std::string& address() const { return places_[current_].address; }    // for ZeroMQ
  std::size_t size() const { return places_.size(); }

 private:
  struct Place {
    std::string endpoint;
    std::string address;
  };

  std::vector<Place> places_;
  std::size_t current_ = 0;
  bool stay_ = true;
};

}  // namespace tuplespace
