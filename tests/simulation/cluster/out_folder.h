// OutFolder: where the simulated managers write, and what a disk may do to it.
#pragma once

#include <string>
#include <vector>

#include "seed.h"
#include "world/random.h"

namespace acan::simulation {

// Locked while its process lives. The first one of a process removes those of the dead.
class OutFolder {
 public:
  OutFolder();  // a fresh one, in memory where there is such a file system
  ~OutFolder();
  OutFolder(const OutFolder&) = delete;
  OutFolder& operator=(const OutFolder&) = delete;

  std::string path() const { return path_ + "/out"; }
  bool HasReceipt() const;
  static void RemoveDead();  // the folders of processes that were killed
  // Of the receipt and the metrics that are there.
  Outcome Read() const;
  // The newest snapshot is cut short, or a byte of it changes, or a torn one appears. False if
  // there is none to damage.
  bool DamageSnapshot(Random& random) const;

 private:
  std::string path_;
  int lock_ = -1;
};

}  // namespace acan::simulation
