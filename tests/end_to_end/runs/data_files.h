// Data files that tests write, from nothing but the formats' specifications.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace acan::testing {

// An IDX file of unsigned bytes. REQUIRES: `values` has a byte for each element of `shape`.
std::string IdxFile(const std::vector<std::uint32_t>& shape, const std::string& values);

// An NPY file. `type` is NumPy's name, such as "<i4"; `values` are the bytes of all elements.
// REQUIRES: the header has fewer than 118 characters.
std::string NpyFile(const std::string& type, const std::vector<std::uint32_t>& shape,
                    const std::string& values);

}  // namespace acan::testing
