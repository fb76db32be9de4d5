// FaultInjector: makes a handler compute wrong results on purpose, for tests and experiments. The
// same seed and the same calls produce the same faults.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tuplespace/payload.h"

namespace acan {

// Rates from 0 to 1.
struct FaultPlan {
  double results = 0;      // of a result that is put: one of its bits is flipped
  double result_bits = 0;  // of each bit of a result
  // Of a result that the device keeps: one bit of the kept copy, not of the result that is put.
  double weights = 0;
  std::uint64_t seed = 1;
};

// For example "results:1e-3,weights:0.01,seed=7". Throws std::invalid_argument that says what is
// wrong.
FaultPlan ParseFaults(const std::string& text);

class FaultInjector {
 public:
  explicit FaultInjector(const FaultPlan& plan) : plan_(plan) {}

  // The faulty copy; nullopt: no fault.
  std::optional<tuplespace::Payload> OfResult(const tuplespace::Payload& payload);
  std::optional<tuplespace::Payload> OfKept(const tuplespace::Payload& payload);

 private:
  double Uniform();  // in (0, 1]
  std::optional<tuplespace::Payload> FlipOne(const tuplespace::Payload& payload, double rate);
  std::optional<tuplespace::Payload> FlipEach(const tuplespace::Payload& payload, double rate);

  const FaultPlan plan_;
  std::uint64_t drawn_ = 0;
};

}  // namespace acan
