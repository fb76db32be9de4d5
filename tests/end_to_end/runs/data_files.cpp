#include "data_files.h"

namespace acan::testing {

std::string IdxFile(const std::vector<std::uint32_t>& shape, const std::string& values) {
  std::string bytes = {0, 0, 8, static_cast<char>(shape.size())};
  for (const std::uint32_t size : shape) {
    for (int shift = 24; shift >= 0; shift -= 8) {
      bytes.push_back(static_cast<char>(size >> shift & 255));
    }
  }
  return bytes + values;
}

std::string NpyFile(const std::string& type, const std::vector<std::uint32_t>& shape,
                    const std::string& values) {
  std::string sizes;
  for (const std::uint32_t size : shape) sizes += std::to_string(size) + ",";
  std::string header =
      "{'descr': '" + type + "', 'fortran_order': False, 'shape': (" + sizes + "), }";
  header.resize(117, ' ');
  header += '\n';
  return std::string("\x93NUMPY\1\0v\0", 10) + header + values;
}

}  // namespace acan::testing
