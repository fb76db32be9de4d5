// Takes the hashes of a task's outputs while the calls of the task run, when their bytes are still
// in a cache. On the device's thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "acan/core/task.h"
#include "row_chain.h"
#include "tuplespace/payload.h"

namespace acan {

class OutputHashes {
 public:
  // Of the outputs that `wanted` names, by their index: those that a call writes, and whose packed
  // bytes the device shows. REQUIRES: all outlive this; `wanted` is empty or has all outputs.
  OutputHashes(const Device& device, const Task& task, const std::vector<BufferPtr>& buffers,
               const std::vector<bool>& wanted);

  // How many of them are complete when the `count` calls from `first` on are done, all rows of each
  // having been written in the course of them.
  std::size_t CountMadeBy(std::size_t first, std::size_t count) const;
  // `count` samples of a chain from `first` on are done. REQUIRES: in ascending order of samples.
  void OnPart(std::size_t first, const RowChain& chain, std::int64_t sample, std::int64_t count);
  // The `count` calls from `first` on are done.
  void OnCalls(std::size_t first, std::size_t count);

  // One for each output; none where it was not taken.
  std::vector<std::optional<tuplespace::PayloadHash>> Take() { return std::move(hashes_); }

 private:
  struct Open {
    std::size_t output;
    std::size_t last_call;  // that writes to it
    bool last_writes_all;   // its rows and no others, so that parts of the call are parts of it
    const std::byte* bytes;
    std::uint64_t row_bytes;
    std::int64_t rows;
    std::optional<tuplespace::PayloadHasher> hasher;  // of the parts so far
  };

  std::vector<Open> open_;
  std::vector<std::optional<tuplespace::PayloadHash>> hashes_;
};

}  // namespace acan
