// How gpu_bench times the ways of doing something.
#pragma once

#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "acan/core/device.h"
#include "gpu_expectations.h"
#include "gpu_sizes.h"
#include "gpu_ways.h"

namespace acan::cuda {

using Rates = std::map<std::string, double>;  // medians, by way

// cuda:0 as `sizes`, `math` and `wish` say.
std::unique_ptr<Device> Make(const Sizes& sizes, FastMath math = FastMath::kFp32,
                             const GemmWay& wish = {});

// Runs all ways alternately, so that changes of the clock affect all of them. Returns work /
// seconds.
nlohmann::json Compare(const Sizes& sizes, const std::vector<Way>& ways, double work,
                       Rates& medians);

// The power that tensor cores draw lowers the clock, which recovers only after a while.
void Settle(const Sizes& sizes, const Way& way);

// Adds what is expected of products. `counters`: of the way "exact".
void AddFigures(const std::string& name, double flops, const Rates& rates,
                const bench::Counters& counters, std::vector<bench::Figure>& figures);

}  // namespace acan::cuda
