// LineFile: appends whole lines to a file of a run, for people and programs.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>

namespace acan {

// Each line is passed to the system at once. Lines that the system does not accept, as on a full
// disk, wait here, and every later line triggers another attempt, in order: no line is lost, and a
// partly written line is completed. For one thread, except CheckWritten.
class LineFile {
 public:
  // If more bytes wait, the run ends.
  static constexpr std::size_t kMaxWaitingBytes = 16 << 20;

  explicit LineFile(std::string path) : path_(std::move(path)) {}
  ~LineFile();
  LineFile(const LineFile&) = delete;
  LineFile& operator=(const LineFile&) = delete;

  // `more_flags` are flags of open(2) in addition to those for appending. Throws as ThrowFileError
  // does; so do Add, if too much waits, and CheckWritten.
  void Open(int more_flags);
  void Add(std::string line);
  void TryWaiting();  // does nothing if nothing waits
  // Thread-safe. Throws if a line waits.
  void CheckWritten() const;
  // Why lines wait, as the system's message; empty if none waits.
  std::string Problem() const;
  // Oldest first; the beginning of the first line may already be in the file.
  const std::deque<std::string>& waiting() const { return waiting_; }

  // The size of the file, as far as this object knows.
  std::int64_t bytes() const { return bytes_; }
  // The file has another size because another process has changed it.
  void OnSize(std::int64_t bytes);
  // After OnSize: the file was cut. What follows the whole lines, which have `whole` bytes, is
  // removed, or terminated if that is impossible or if `whole` is nullopt.
  void OnCut(std::optional<std::int64_t> whole);
  int descriptor() const { return descriptor_; }
  [[noreturn]] void Fail(const std::string& doing, int error) const;

 private:
  const std::string path_;
  int descriptor_ = -1;
  std::int64_t bytes_ = 0;
  std::deque<std::string> waiting_;
  std::size_t waiting_bytes_ = 0;
  std::size_t begun_ = 0;       // bytes of the first line that are in the file
  std::atomic<int> error_ = 0;  // set while lines wait
};

}  // namespace acan
