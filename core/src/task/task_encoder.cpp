#include "acan/core/task_encoder.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "task_generated.h"

namespace acan {
namespace {

// Two scalars may be equal and yet have other bits, as 0 and -0 have.
bool HaveSameBits(const KernelScalars& a, const KernelScalars& b) {
  return a.i == b.i && std::ranges::equal(a.f, b.f, {}, std::bit_cast<std::uint32_t, float>,
                                          std::bit_cast<std::uint32_t, float>);
}

bool AreAlike(const Call& a, const Call& b) {
  return a.gemm == b.gemm && a.form == b.form && a.kernel == b.kernel && a.views == b.views &&
         HaveSameBits(a.scalars, b.scalars);
}

// But for the name, whose length is the same.
bool AreAlike(const Output& a, const Output& b) {
  return a.key.bytes().size() == b.key.bytes().size() && a.view == b.view && a.keep == b.keep &&
         a.may_be_resident == b.may_be_resident;
}

template <typename Part>
bool AreAlike(const std::vector<Part>& a, const std::vector<Part>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const Part& x, const Part& y) { return AreAlike(x, y); });
}

bool AreAlike(const Task& a, const Task& b) {
  return a.kind == b.kind && a.precision == b.precision && a.block == b.block &&
         a.timed == b.timed && a.chunk == b.chunk && a.buffers == b.buffers &&
         a.pieces == b.pieces && AreAlike(a.calls, b.calls) && AreAlike(a.outputs, b.outputs) &&
         a.ahead.empty() && b.ahead.empty();
}

// The same description, but for the names of the results.
tuplespace::Payload Renamed(const tuplespace::Payload& payload,
                            const std::vector<Output>& outputs) {
  const std::shared_ptr<std::byte[]> bytes =
      std::make_shared_for_overwrite<std::byte[]>(payload.size());
  std::memcpy(bytes.get(), payload.data(), payload.size());
  const auto* described = wire::GetTask(bytes.get())->outputs();
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const std::uint8_t* const name =
        described->Get(static_cast<flatbuffers::uoffset_t>(i))->key()->data();
    const std::ptrdiff_t at = reinterpret_cast<const std::byte*>(name) - bytes.get();
    std::ranges::copy(std::as_bytes(std::span(outputs[i].key.bytes())), bytes.get() + at);
  }
  return {bytes, bytes.get(), payload.size()};
}

}  // namespace

tuplespace::Payload TaskEncoder::Encode(const Task& task) {
  if (!payload_.empty() && AreAlike(task, last_)) return Renamed(payload_, task.outputs);
  last_ = task;
  payload_ = EncodeTask(task);
  return payload_;
}

}  // namespace acan
