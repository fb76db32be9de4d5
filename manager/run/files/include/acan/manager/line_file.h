// LineFile: whole lines at the end of a file that a run writes for people and programs.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>

namespace acan {

// Each line is handed to the system at once. Those that it does not take, as on a full disk, wait
// here and are tried again with every later one, in order: none is lost, and what was written of a
// line in part is continued. For one thread, but for CheckWritten.
class LineFile {
 public:
  // With more waiting a run ends.
  static constexpr std::size_t kMostWaitingBytes = 16 << 20;

  explicit LineFile(std::string path) : path_(std::move(path)) {}
  ~LineFile();
  LineFile(const LineFile&) = delete;
  LineFile& operator=(const LineFile&) = delete;

  // `more_flags`: of open(2), beside those for appending. Throws Error (failure) naming the path
  // and the system's words; so do Add, if too much waits, and CheckWritten.
  void Open(int more_flags);
  void Add(std::string line);
  void TryWaiting();  // does nothing if nothing waits
  // Thread safe. Throws if a line waits.
  void CheckWritten() const;
  // Why lines wait, in the system's words; empty: none does.
  std::string Problem() const;
  // Oldest first; some of the first may be in the file.
  const std::deque<std::string>& waiting() const { return waiting_; }

  // Of the file, as far as this object knows.
  std::int64_t bytes() const { return bytes_; }
  // The file has another size: somebody has changed it. `torn`: its last line has no end, and gets
  // one.
  void OnSize(std::int64_t bytes);
  void OnCut(bool torn);
  int descriptor() const { return descriptor_; }
  [[noreturn]] void Fail(const std::string& doing, int error) const;

 private:
  const std::string path_;
  int descriptor_ = -1;
  std::int64_t bytes_ = 0;
  std::deque<std::string> waiting_;
  std::size_t waiting_bytes_ = 0;
  std::size_t begun_ = 0;       // bytes of the first that are in the file
  std::atomic<int> error_ = 0;  // set while lines wait
};

}  // namespace acan
