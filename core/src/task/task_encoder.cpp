#include "acan/core/task_encoder.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include "task_generated.h"

namespace acan {
namespace {

// Two scalars may be equal and yet have other bits, as 0 and -0 have.
bool HaveSameBits(const KernelScalars& a, const KernelScalars& b) {
  return a.i == b.i && std::memcmp(a.f.data(), b.f.data(), sizeof(a.f)) == 0;
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
    const std::string& key = outputs[i].key.bytes();
    std::memcpy(bytes.get() + (reinterpret_cast<const std::byte*>(name) - bytes.get()), key.data(),
                key.size());
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
