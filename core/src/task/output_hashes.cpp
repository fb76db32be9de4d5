#include "output_hashes.h"

#include <algorithm>

#include "acan/core/run_calls.h"
#include "views.h"

namespace acan {
namespace {

// The last call that writes to an output, and the view that it writes.
struct LastWrite {
  std::size_t call;
  View view;
};

bool Writes(const Call& call, std::size_t operand) {
  return call.views[operand].buffer >= 0 &&
         RowOfCall(call).operands[operand].access != Access::kRead;
}

std::optional<LastWrite> LastWriteTo(const View& output, const Task& task) {
  for (std::size_t c = task.calls.size(); c-- > 0;) {
    const Call& call = task.calls[c];
    for (std::size_t j = 0; j < call.views.size(); ++j) {
      if (Writes(call, j) && Overlap(call.views[j], output)) return LastWrite{c, call.views[j]};
    }
  }
  return std::nullopt;
}

// Returns the last write of each output.
std::vector<std::optional<LastWrite>> FindLastWrites(const Task& task) {
  constexpr std::size_t kFewCalls = 8;  // so few that each output may look at all of them
  std::vector<std::optional<LastWrite>> last(task.outputs.size());
  if (task.calls.size() <= kFewCalls) {
    for (std::size_t i = 0; i < last.size(); ++i) {
      last[i] = LastWriteTo(task.outputs[i].view, task);
    }
    return last;
  }
  // Visits the calls once, as a task may have thousands of calls and a hundred outputs.
  std::vector<std::vector<std::size_t>> open(task.buffers.size());  // outputs, by buffer
  for (std::size_t i = 0; i < task.outputs.size(); ++i) {
    open[static_cast<std::size_t>(task.outputs[i].view.buffer)].push_back(i);
  }
  std::size_t left = task.outputs.size();
  for (std::size_t c = task.calls.size(); c-- > 0 && left > 0;) {
    const Call& call = task.calls[c];
    for (std::size_t j = 0; j < call.views.size(); ++j) {
      if (!Writes(call, j)) continue;
      const View& view = call.views[j];
      left -= std::erase_if(open[static_cast<std::size_t>(view.buffer)], [&](std::size_t output) {
        if (!Overlap(view, task.outputs[output].view)) return false;
        last[output] = LastWrite{c, view};
        return true;
      });
    }
  }
  return last;
}

bool IsIn(std::size_t call, std::size_t first, std::size_t count) {
  return call >= first && call < first + count;
}

}  // namespace

OutputHashes::OutputHashes(const Device& device, const Task& task,
                           const std::vector<BufferPtr>& buffers, const std::vector<bool>& wanted)
    : hashes_(task.outputs.size()) {
  if (wanted.empty()) return;
  const std::vector<std::optional<LastWrite>> last_writes = FindLastWrites(task);
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (!wanted[i]) continue;
    const View& view = task.outputs[i].view;
    const std::byte* bytes = device.HostBytes(MatrixOf(task, buffers, view));
    if (bytes == nullptr) continue;
    const std::optional<LastWrite>& last = last_writes[i];
    if (!last) continue;
    const bool writes_all = last->view.row == view.row && last->view.rows == view.rows;
    open_.push_back({i, last->call, writes_all, bytes, 4 * static_cast<std::uint64_t>(view.cols),
                     view.rows, std::nullopt});
  }
}

std::size_t OutputHashes::CountMadeBy(std::size_t first, std::size_t count) const {
  return static_cast<std::size_t>(std::count_if(open_.begin(), open_.end(), [&](const Open& open) {
    return open.last_writes_all && IsIn(open.last_call, first, count);
  }));
}

void OutputHashes::OnPart(std::size_t first, const RowChain& chain, std::int64_t sample,
                          std::int64_t count) {
  for (Open& open : open_) {
    if (!open.last_writes_all || !IsIn(open.last_call, first, chain.count)) continue;
    if (!open.hasher) open.hasher.emplace();
    const auto bytes_of = [&](std::int64_t samples) {
      return static_cast<std::uint64_t>(open.rows / chain.samples * samples) * open.row_bytes;
    };
    open.hasher->Add({open.bytes + bytes_of(sample), bytes_of(count)});
  }
}

void OutputHashes::OnCalls(std::size_t first, std::size_t count) {
  for (Open& open : open_) {
    if (!IsIn(open.last_call, first, count)) continue;
    const auto bytes = static_cast<std::uint64_t>(open.rows) * open.row_bytes;
    hashes_[open.output] =
        open.hasher ? open.hasher->Hash() : tuplespace::HashOf({open.bytes, bytes});
  }
  std::erase_if(open_, [&](const Open& open) { return IsIn(open.last_call, first, count); });
}

}  // namespace acan
