// Program: runs the real program `acan` as a process of a test and reads its output through pipes.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace acan::testing {

// A temporary folder that is removed with its contents at the end of the scope.
class TestFolder {
 public:
  TestFolder();
  ~TestFolder();
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  // Writes a file, creating its folders; returns its path.
  std::string Write(const std::string& name, const std::string& bytes) const;
  std::vector<std::string> Names() const;  // of its entries

 private:
  std::string path_;
};

std::string ReadFile(const std::string& path);

using Environment = std::map<std::string, std::string>;

// A running process. Its exit is reported as an exit code, or as minus the signal that killed it.
class Program {
 public:
  // Starts acan, or another program, with `arguments`. Does not pass on ACAN_* variables of the
  // test's own environment.
  explicit Program(const std::vector<std::string>& arguments, const Environment& environment = {},
                   const std::string& path = ACAN_PROGRAM);
  ~Program();  // kills it
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  pid_t pid() const { return pid_; }
  // The output so far.
  const std::string& out() const { return out_.text; }
  const std::string& err() const { return err_.text; }

  // Waits until `text` was written, at `from` or behind. If the process ends or a long time passes
  // first, returns false and prints all output.
  bool WaitForOut(const std::string& text) { return WaitFor(out_, text, 0); }
  bool WaitForErr(const std::string& text, std::size_t from = 0) {
    return WaitFor(err_, text, from);
  }
  // Waits until `fulfilled()`, which depends on the entries of these folders (see FolderWatch). If
  // the process ends or a long time passes first, returns false and prints all output.
  bool WaitForFiles(const std::vector<std::string>& folders,
                    const std::function<bool()>& fulfilled);
  void Signal(int signal);
  // Reads the available output without waiting; returns false once the process has ended.
  bool Runs();
  // Waits for the end and reads all output. Returns the exit code, or minus the signal that killed
  // it.
  int Wait();
  // The current descendants of this process.
  std::set<pid_t> Descendants() const;

 private:
  struct Stream {
    int fd = -1;
    std::string text;
  };
  friend void WaitForAny(const std::vector<const Program*>& programs,
                         std::chrono::steady_clock::time_point until, int other);
  bool WaitFor(Stream& stream, const std::string& text, std::size_t from);
  // Also returns when the descriptor `other` is readable. False: both streams have ended.
  bool Pump(std::chrono::steady_clock::time_point deadline, int other = -1);
  void FailInVain(const std::string& what) const;

  pid_t pid_ = -1;
  Stream out_, err_;
  std::optional<int> status_;
};

// Waits until one of them has output, or one ends, or the descriptor `other` is readable, or the
// time is `until`. Programs that have ended before do not count.
void WaitForAny(const std::vector<const Program*>& programs,
                std::chrono::steady_clock::time_point until, int other = -1);

// The result of a finished program.
struct Result {
  int code = 0;
  std::string out, err;
};
Result RunAcan(const std::vector<std::string>& arguments, const Environment& environment = {});

// Like kill(), but for a single process only: refuses 0, 1 and negative numbers. Returns false if
// the process is gone.
bool SignalProcess(pid_t pid, int signal);
// Waits until none of these processes exists; returns false after a long time.
bool AllGone(const std::set<pid_t>& pids);
// The arguments of its command line, each followed by a space; empty if the process is gone.
std::string CommandLine(pid_t pid);
// The names in /dev/shm, to compare before and after.
std::set<std::string> SharedMemoryNames();
// The last line of `text`.
std::string LastLine(const std::string& text);

}  // namespace acan::testing
