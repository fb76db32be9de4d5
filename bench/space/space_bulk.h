// How fast large payloads pass from one client to another, and what to measure that against.
#pragma once

#include <cstddef>
#include <cstdint>

#include "space_place.h"

namespace acan::bench {

enum class Passing {
  kFrames,   // through sockets, as between hosts
  kCopied,   // from the first client's own memory into shared memory
  kInPlace,  // each is written anew where the reader will read it, as a kernel's results are; that
             // is part of the time
};
// One client puts `count` payloads of `bytes`, another reads each as soon as it is there and
// retires it: the space holds no more at a time than in a training. Over inproc nothing is copied
// however it is passed.
double PutReadGigabytesPerSecond(Place& place, const Server& broker, std::size_t bytes, int count,
                                 std::int64_t round, Passing passing);
// As many bytes copied in this process' memory.
double CopyGigabytesPerSecond(std::size_t bytes, int count);
// As many bytes from one ZeroMQ DEALER to another by way of `forwarder`, not copied by the first.
double BareHopGigabytesPerSecond(Place& place, const Server& forwarder, std::size_t bytes,
                                 int count);

}  // namespace acan::bench
