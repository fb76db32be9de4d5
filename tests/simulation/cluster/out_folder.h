// OutFolder: the folder that simulated managers write to, and damage that a disk may do to it.
#pragma once

#include <string>
#include <vector>

#include "seed.h"
#include "world/random.h"

namespace acan::simulation {

// Locked while its process lives. A process's first OutFolder removes those of dead processes.
class OutFolder {
 public:
  OutFolder();  // a new folder, in memory if there is such a file system
  ~OutFolder();
  OutFolder(const OutFolder&) = delete;
  OutFolder& operator=(const OutFolder&) = delete;

  std::string path() const { return path_ + "/out"; }
  bool HasReceipt() const;
  static void RemoveDead();  // removes the folders of killed processes
  // Reads the receipt and the metrics in the folder.
  Outcome Read() const;
  // Truncates the newest snapshot, flips a bit of it, or adds a torn one. Returns false if there is
  // no snapshot.
  bool DamageSnapshot(Random& random) const;

 private:
  std::string path_;
  int lock_ = -1;
};

}  // namespace acan::simulation
