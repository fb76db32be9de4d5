#include "acan/manager/npy_writer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cassert>

namespace acan {
namespace {

// A header of format version 1.0, padded so that the values begin at a multiple of 64.
std::string HeaderOf(const std::vector<std::int64_t>& shape) {
  std::string text = fmt::format("{{'descr': '<f4', 'fortran_order': False, 'shape': ({}{}), }}",
                                 fmt::join(shape, ", "), shape.size() == 1 ? "," : "");
  constexpr std::size_t kPrefix = 10;
  const std::size_t whole = (kPrefix + text.size() + 1 + 63) / 64 * 64;
  text.append(whole - kPrefix - text.size() - 1, ' ');
  text += '\n';
  std::string header("\x93NUMPY\x01\x00", 8);
  header += static_cast<char>(text.size() & 0xff);
  header += static_cast<char>(text.size() >> 8);
  return header + text;
}

}  // namespace

NpyWriter::NpyWriter(const std::string& path, const std::vector<std::int64_t>& shape)
    : file_(path) {
  const std::string header = HeaderOf(shape);
  std::int64_t bytes = sizeof(float);
  for (const std::int64_t size : shape) bytes *= size;
  offset_ = std::ssize(header);
  end_ = offset_ + bytes;
  file_.Reserve(end_);
  file_.WriteAt(0, header.data(), header.size());
}

void NpyWriter::Write(std::span<const float> values) {
  assert(offset_ + std::ssize(values) * static_cast<std::int64_t>(sizeof(float)) <= end_);
  file_.WriteAt(offset_, values.data(), values.size_bytes());
  offset_ += static_cast<std::int64_t>(values.size_bytes());
}

void NpyWriter::Finish() {
  assert(offset_ == end_);
  file_.Commit();
}

}  // namespace acan
