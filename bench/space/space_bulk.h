// The rate at which large payloads pass from one client to another, and rates to compare it with.
#pragma once

#include <cstddef>
#include <cstdint>

#include "space_place.h"

namespace acan::bench {

enum class Passing {
  kFrames,   // through sockets, as between hosts
  kCopied,   // from the first client's own memory into shared memory
  kInPlace,  // written anew, within the measured time, where the reader reads them, as kernels'
             // results are
};
// One client puts `count` payloads of `bytes`; another reads and retires each as soon as it is
// available. So the space holds no more at a time than in a training. Over inproc, no way of
// passing copies anything.
double PutReadGigabytesPerSecond(Place& place, const Server& broker, std::size_t bytes, int count,
                                 std::int64_t round, Passing passing);
// Copies as many bytes in this process' memory.
double CopyGigabytesPerSecond(std::size_t bytes, int count);
// Sends as many bytes from one ZeroMQ DEALER to another through `forwarder`; the first does not
// copy them.
double BareHopGigabytesPerSecond(Place& place, const Server& forwarder, std::size_t bytes,
                                 int count);

}  // namespace acan::bench
