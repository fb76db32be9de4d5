// Every operation of a device, each described once: its operands, what runs it, and its definition
// in float64.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "reference.h"

namespace acan::test {

struct Shape {
  std::int64_t rows, cols, inner, pad;  // inner: k of products; pad: as of Put (reference.h)
};

struct Doubles {
  std::int64_t rows, cols;
  std::vector<double> v,
      magnitude;  // of the terms that were added up: what rounding is relative to
};

struct Operation {
  std::string name;
  bool product = false;  // runs in fast precision too
  std::function<std::vector<Host>(const Shape&)> operands;
  std::function<std::vector<std::pair<std::int64_t, std::int64_t>>(const Shape&)> results;
  std::function<void(Device&, Precision, const std::vector<Matrix>& in,
                     const std::vector<Matrix>& out)>
      run;
  std::function<std::vector<Doubles>(const std::vector<Host>&)> definition;
};

const std::vector<Operation>& AllOperations();

}  // namespace acan::test
