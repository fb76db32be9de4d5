// Hashes a task's outputs while its calls run and the bytes are still in a cache. On the device's
// thread.
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
  // Hashes those outputs of `wanted` (by index) that a call writes and whose packed bytes the
  // device exposes (Device::HostBytes). REQUIRES: all arguments outlive this; `wanted` is empty or
  // has one entry for each output.
  OutputHashes(const Device& device, const Task& task, const std::vector<BufferPtr>& buffers,
               const std::vector<bool>& wanted);

  // How many of the outputs are complete after the `count` calls from `first` on, where these calls
  // write all rows of the output.
  std::size_t CountMadeBy(std::size_t first, std::size_t count) const;
  // To be called when `count` samples of the chain at `first` are done. REQUIRES: samples ascend.
  void OnPart(std::size_t first, const RowChain& chain, std::int64_t sample, std::int64_t count);
  // To be called when the `count` calls from `first` on are done.
  void OnCalls(std::size_t first, std::size_t count);

  // One entry for each output; nullopt where no hash was taken.
  std::vector<std::optional<tuplespace::PayloadHash>> Take() { return std::move(hashes_); }

 private:
  struct Open {
    std::size_t output;
    std::size_t last_call;  // the last call that writes to it
    bool last_writes_all;   // it writes exactly the output's rows, so a part of the call is a part
                            // of the output
    const std::byte* bytes;
    std::uint64_t row_bytes;
    std::int64_t rows;
    std::optional<tuplespace::PayloadHasher> hasher;  // has the parts so far
  };

  std::vector<Open> open_;
  std::vector<std::optional<tuplespace::PayloadHash>> hashes_;
};

}  // namespace acan
