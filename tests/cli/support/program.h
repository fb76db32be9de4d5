// Program: the real program `acan` as a process of a test, watched through pipes.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace acan::testing {

// A folder that is removed with all in it at the end of the scope.
class TestFolder {
 public:
  TestFolder();
  ~TestFolder();
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  // With the folders above it; returns the path.
  std::string Write(const std::string& name, const std::string& bytes) const;
  std::vector<std::string> Names() const;  // of what is in it

 private:
  std::string path_;
};

std::string ReadFile(const std::string& path);

using Environment = std::map<std::string, std::string>;

// How a process ended: exit code, or -signal.
class Program {
 public:
  // Starts acan, or another program, with `arguments`. Variables ACAN_* of the test's own
  // environment are not passed on.
  explicit Program(const std::vector<std::string>& arguments, const Environment& environment = {},
                   const std::string& path = ACAN_PROGRAM);
  ~Program();  // kills it
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  pid_t pid() const { return pid_; }
  // What came so far.
  const std::string& out() const { return out_.text; }
  const std::string& err() const { return err_.text; }

  // Waits until `text` was written; false (and a note with all output) if the process ends or much
  // time passes first.
  bool WaitForOut(const std::string& text) { return WaitFor(out_, text); }
  bool WaitForErr(const std::string& text) { return WaitFor(err_, text); }
  void Signal(int signal);
  // Reads what has come, without waiting; false once the process has ended.
  bool Runs();
  // Waits for the end; the exit code, or minus the signal that killed it. Reads all output.
  int Wait();
  // The processes below this one by now.
  std::set<pid_t> Descendants() const;

 private:
  struct Stream {
    int fd = -1;
    std::string text;
  };
  friend void WaitForAny(const std::vector<const Program*>& programs,
                         std::chrono::steady_clock::time_point until);
  bool WaitFor(Stream& stream, const std::string& text);
  bool Pump(std::chrono::steady_clock::time_point deadline);  // false: both streams have ended

  pid_t pid_ = -1;
  Stream out_, err_;
  std::optional<int> status_;
};

// Waits until there is something to read of one of them, or one has ended, or it is `until`. Those
// that have ended before do not count.
void WaitForAny(const std::vector<const Program*>& programs,
                std::chrono::steady_clock::time_point until);

// What a finished program left.
struct Result {
  int code = 0;
  std::string out, err;
};
Result RunAcan(const std::vector<std::string>& arguments, const Environment& environment = {});

// kill(), but only ever of one process: 0, 1 and negative numbers would mean many. False if it is
// gone.
bool SignalProcess(pid_t pid, int signal);
// Waits until none of these processes exists any more; false after much time.
bool AllGone(const std::set<pid_t>& pids);
// The words of its command line, each followed by a blank; empty if the process is gone.
std::string CommandLine(pid_t pid);
// Names in /dev/shm, to compare before and after.
std::set<std::string> SharedMemoryNames();
// The last line of `text`.
std::string LastLine(const std::string& text);

}  // namespace acan::testing
