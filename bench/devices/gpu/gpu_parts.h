// The parts of gpu_bench. Each measures one shape or size, returns what it found, and adds what is
// expected of it to `figures`.
#pragma once

#include <cstddef>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "gpu_expectations.h"
#include "gpu_sizes.h"

namespace acan::cuda {

nlohmann::json Products(const Sizes& sizes, const Shape& s, int multiprocessors,
                        std::vector<bench::Figure>& figures);
nlohmann::json Groups(const Sizes& sizes, const GroupsShape& s,
                      std::vector<bench::Figure>& figures);
// An array: one object for each kernel.
nlohmann::json Kernels(const Sizes& sizes, const bench::MatrixShape& shape, int multiprocessors,
                       std::vector<bench::Figure>& figures);
nlohmann::json Copies(const Sizes& sizes, std::size_t bytes, std::vector<bench::Figure>& figures);

// Gives `profile` the call whose figure has this name. False: this part has none.
using Profile = std::function<void(const std::function<void()>& call)>;
bool ProfileProduct(const Sizes& sizes, const std::string& name, const Profile& profile);
bool ProfileGroups(const Sizes& sizes, const std::string& name, const Profile& profile);
bool ProfileKernel(const Sizes& sizes, const std::string& name, const Profile& profile);

}  // namespace acan::cuda
