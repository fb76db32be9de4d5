#include "clumsy_user.h"

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <map>
#include <mutex>
#include <thread>

#include "gtest/gtest.h"
#include "program.h"

namespace acan::testing {
namespace {

namespace fs = std::filesystem;

// For programs that take less than a second on a machine of their own.
constexpr const char* kDeadline_s = "150";
constexpr int kKilled = 128 + 9;
constexpr unsigned kAtATime = 4;

constexpr const char* kJob = R"(
[model]
layers = [16, 8, 2]
activation = "tanh"
loss = "mse"
[data]
generated = "regression"
samples = 64
[train]
batch = 16
epochs = 2
learning_rate = 0.05
)";

constexpr const char* kFilesJob = R"(
[model]
layers = [3, 8, 2]
activation = "tanh"
loss = "mse"
[data]
train_inputs = "x"
train_targets = "y"
[train]
batch = 2
epochs = 1
learning_rate = 0.05
)";

Environment CaseEnvironment(const TestFolder& folder) {
  return {{"ACAN", ACAN_PROGRAM},   {"ACAN_HANDLERS", "cpu:1"},
          {"ACAN_MEMORY", "16MiB"}, {"ACAN_DEVICE", "cpu:1"},
          {"ACAN_OUT", "out"},      {"TMPDIR", folder / "tmp"},
          {"PWD", folder.path()},   {"LC_ALL", "C"},
          {"HOME", folder.path()},  {"XDG_CACHE_HOME", folder.path()}};
}

// Sanitizers take terabytes of address space, and more of each stack.
bool CanRun([[maybe_unused]] const ClumsyCase& row) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  const std::string script = row.script;
  return script.find("ulimit -v") == std::string::npos &&
         script.find("ulimit -s") == std::string::npos;
#else
  return true;
#endif
}

// Runs `script` in the folder, with all that it has started under one deadline.
Result RunScript(const TestFolder& folder, const std::string& script) {
  const std::string whole = "cd '" + folder.path() + "' && " + script;
  Program program({"-s", "KILL", kDeadline_s, "/bin/sh", "-c", whole}, CaseEnvironment(folder),
                  "/usr/bin/timeout");
  const int code = program.Wait();
  return {code, program.out(), program.err()};
}

// The folder that every case gets a copy of.
const TestFolder& Model() {
  static const auto& model = *[] {
    static TestFolder folder;
    folder.Write("job.toml", kJob);
    folder.Write("files.toml", kFilesJob);
    folder.Write("x", "1,2,3\n4,5,6\n7,8,9\n1,1,1\n");
    folder.Write("y", "1,2\n3,4\n5,6\n0,1\n");
    fs::create_directory(folder / "tmp");
    const Result made = RunScript(
        folder, "$ACAN train job.toml --out trained --audit-log trained/audit.log && $ACAN keygen");
    EXPECT_EQ(made.code, 0) << made.err;
    return &folder;
  }();
  return model;
}

void RunCase(const ClumsyCase& row, std::mutex& reporting) {
  const TestFolder folder;
  fs::copy(Model().path(), folder.path(), fs::copy_options::recursive);
  const Result result = RunScript(folder, row.script);
  const std::string all = result.out + result.err;
  std::string problem;
  if (result.code == kKilled || result.code < 0) {
    problem = std::string("did not end within ") + kDeadline_s + " s";
  } else if (result.code != row.code) {
    problem = "ended with exit code " + std::to_string(result.code) + ", expected " +
              std::to_string(row.code);
  }
  for (const char* text : row.says) {
    if (all.find(text) == std::string::npos) problem += std::string("; does not say: ") + text;
  }
  std::error_code gone;  // by the script
  if (fs::is_directory(folder / "tmp", gone) && !fs::is_empty(folder / "tmp", gone)) {
    problem += "; leaves something in TMPDIR";
  }
  if (problem.empty()) return;
  const std::lock_guard lock(reporting);
  ADD_FAILURE() << row.name << ": " << row.script << "\n" << problem << "\nIt said:\n" << all;
}

}  // namespace

void RunClumsyCases(const std::vector<ClumsyCase>& cases) {
  Model();
  std::mutex reporting;
  std::atomic<std::size_t> next{0};
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < kAtATime; ++i) {
    threads.emplace_back([&] {
      for (std::size_t at; (at = next++) < cases.size();) {
        if (CanRun(cases[at])) RunCase(cases[at], reporting);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace acan::testing
