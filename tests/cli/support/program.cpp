#include "program.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include "folder_watch.h"
#include "gtest/gtest.h"

namespace acan::testing {
namespace {

using Clock = std::chrono::steady_clock;
// Long enough for a loaded machine; a passing test never waits that long.
constexpr std::chrono::seconds kPatience{90};

std::array<int, 2> MakePipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw std::runtime_error(std::strerror(errno));
  ::fcntl(ends[0], F_SETFL, O_NONBLOCK);
  return ends;
}

std::vector<std::string> EnvironmentWords(const Environment& environment) {
  std::vector<std::string> words;
  for (char** word = ::environ; *word != nullptr; ++word) {
    const std::string text = *word;
    const std::string name = text.substr(0, text.find('='));
    if (!name.starts_with("ACAN_") && !environment.contains(name)) words.push_back(text);
  }
  for (const auto& [name, value] : environment) words.push_back(name + "=" + value);
  return words;
}

std::vector<char*> Pointers(std::vector<std::string>& words) {
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  return pointers;
}

// The parent of a process, from /proc; 0 if it has exited, even if its status was not yet
// collected.
pid_t LivingParentOf(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::stringstream text;
  text << file.rdbuf();
  const std::string stat = text.str();
  const std::size_t end = stat.rfind(')');  // the name before it may contain anything
  if (end == std::string::npos) return 0;
  std::istringstream rest(stat.substr(end + 1));
  char state = 0;
  pid_t parent = 0;
  rest >> state >> parent;
  return state == 'Z' || state == 'X' ? 0 : parent;
}

// How long poll() must wait until then.
int PollMs(Clock::time_point until) {
  const auto wait = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now()).count();
  return static_cast<int>(std::max<std::int64_t>(0, wait));
}

}  // namespace

TestFolder::TestFolder() {
  path_ = (std::filesystem::temp_directory_path() / "acan-test-XXXXXX").string();
  if (::mkdtemp(path_.data()) == nullptr) throw std::runtime_error(std::strerror(errno));
}

TestFolder::~TestFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string TestFolder::Write(const std::string& name, const std::string& bytes) const {
  const std::string path = *this / name;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  std::ofstream file(path, std::ios::binary);
  file << bytes;
  file.close();
  if (!file) throw std::runtime_error("cannot write " + path);
  return path;
}

std::vector<std::string> TestFolder::Names() const {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(path_)) {
    names.push_back(entry.path().filename().string());
  }
  return names;
}

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

Program::Program(const std::vector<std::string>& arguments, const Environment& environment,
                 const std::string& path) {
  std::vector<std::string> words = {path};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv = Pointers(words);
  std::vector<std::string> variables = EnvironmentWords(environment);
  std::vector<char*> envp = Pointers(variables);
  const std::array<int, 2> out = MakePipe();
  const std::array<int, 2> err = MakePipe();
  pid_ = ::fork();
  if (pid_ == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // dies with the test if that crashes
    ::dup2(out[1], STDOUT_FILENO);
    ::dup2(err[1], STDERR_FILENO);
    ::execve(path.c_str(), argv.data(), envp.data());
    ::_exit(127);
  }
  if (pid_ < 0) throw std::runtime_error("fork failed");
  ::close(out[1]);
  ::close(err[1]);
  out_.fd = out[0];
  err_.fd = err[0];
}

Program::~Program() {
  if (!status_) {
    Signal(SIGKILL);
    int status = 0;
    ::waitpid(pid_, &status, 0);
  }
  for (const Stream* stream : {&out_, &err_}) {
    if (stream->fd >= 0) ::close(stream->fd);
  }
}

void WaitForAny(const std::vector<const Program*>& programs, Clock::time_point until, int other) {
  std::vector<pollfd> fds = {{other, POLLIN, 0}};  // poll() ignores a negative one
  for (const Program* program : programs) {
    for (const Program::Stream* stream : {&program->out_, &program->err_}) {
      if (stream->fd >= 0) fds.push_back({stream->fd, POLLIN, 0});
    }
  }
  ::poll(fds.data(), fds.size(), PollMs(until));
}

bool Program::Pump(Clock::time_point deadline, int other) {
  if (out_.fd < 0 && err_.fd < 0) return false;
  WaitForAny({this}, deadline, other);
  for (Stream* stream : {&out_, &err_}) {
    std::array<char, 4096> buffer{};
    ssize_t count = 0;
    while (stream->fd >= 0 && (count = ::read(stream->fd, buffer.data(), buffer.size())) > 0) {
      stream->text.append(buffer.data(), static_cast<std::size_t>(count));
    }
    if (stream->fd >= 0 && count == 0) {
      ::close(stream->fd);
      stream->fd = -1;
    }
  }
  return true;
}

void Program::FailInVain(const std::string& what) const {
  ADD_FAILURE() << "waited in vain for " << what << "\nstdout:\n"
                << out_.text << "\nstderr:\n"
                << err_.text;
}

bool Program::WaitFor(Stream& stream, const std::string& text, std::size_t from) {
  const Clock::time_point deadline = Clock::now() + kPatience;
  while (stream.text.find(text, from) == std::string::npos) {
    if (Clock::now() < deadline && Pump(deadline)) continue;
    FailInVain("\"" + text + "\"");
    return false;
  }
  return true;
}

bool Program::WaitForFiles(const std::vector<std::string>& folders,
                           const std::function<bool()>& fulfilled) {
  const Clock::time_point deadline = Clock::now() + kPatience;
  FolderWatch watch(folders);
  bool goes_on = true;
  for (; !fulfilled(); watch.Renew()) {
    if (!goes_on) {
      FailInVain("files in " + folders.back());
      return false;
    }
    goes_on = Clock::now() < deadline && Pump(deadline, watch.fd());
  }
  return true;
}

void Program::Signal(int signal) {
  ::kill(pid_, signal);
}

bool Program::Runs() {
  if (status_ || !Pump(Clock::now())) return false;
  return out_.fd >= 0 || err_.fd >= 0;  // nothing would wake up a caller that waits for more output
}

int Program::Wait() {
  const Clock::time_point deadline = Clock::now() + 2 * kPatience;
  while (Pump(deadline)) {
    if (Clock::now() < deadline) continue;
    ADD_FAILURE() << "does not end\nstdout:\n" << out_.text << "\nstderr:\n" << err_.text;
    Signal(SIGKILL);
    break;
  }
  if (!status_) {
    int status = 0;
    ::waitpid(pid_, &status, 0);
    status_ = WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
  }
  return *status_;
}

std::set<pid_t> Program::Descendants() const {
  std::map<pid_t, pid_t> parents;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const pid_t pid = std::atoi(entry.path().filename().c_str());
    if (pid > 0) parents[pid] = LivingParentOf(pid);
  }
  std::set<pid_t> below;
  for (bool more = true; more;) {
    more = false;
    for (const auto& [pid, parent] : parents) {
      if (parent == pid_ || below.contains(parent)) more = below.insert(pid).second || more;
    }
  }
  return below;
}

Result RunAcan(const std::vector<std::string>& arguments, const Environment& environment) {
  Program program(arguments, environment);
  const int code = program.Wait();
  return {code, program.out(), program.err()};
}

bool SignalProcess(pid_t pid, int signal) {
  return pid > 1 && ::kill(pid, signal) == 0;
}

bool AllGone(const std::set<pid_t>& pids) {
  const Clock::time_point deadline = Clock::now() + kPatience;
  for (const pid_t pid : pids) {
    const int process = static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
    if (process < 0 && errno == ESRCH) continue;
    pollfd ended{process, POLLIN, 0};
    const bool is_gone = process >= 0 && ::poll(&ended, 1, PollMs(deadline)) == 1;
    if (process >= 0) ::close(process);
    if (!is_gone) return false;
  }
  return true;
}

std::string CommandLine(pid_t pid) {
  std::string words = ReadFile("/proc/" + std::to_string(pid) + "/cmdline");
  std::replace(words.begin(), words.end(), '\0', ' ');
  return words;
}

std::set<std::string> SharedMemoryNames() {
  std::set<std::string> names;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm", error)) {
    const std::string name = entry.path().filename().string();
    // The simulation and the fuzzers keep files there, and may run at the same time.
    if (!name.starts_with("acan-simulation-") && !name.starts_with("acan-fuzz-")) {
      names.insert(name);
    }
  }
  return names;
}

std::string LastLine(const std::string& text) {
  std::string trimmed = text;
  while (!trimmed.empty() && trimmed.back() == '\n') trimmed.pop_back();
  const std::size_t end = trimmed.rfind('\n');
  return end == std::string::npos ? trimmed : trimmed.substr(end + 1);
}

}  // namespace acan::testing
