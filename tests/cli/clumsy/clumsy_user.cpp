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

// For programs that take less than a second on an idle machine.
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

constexpr const char* kGptJob = R"(
[model]
kind = "gpt"
n_layer = 1
n_head = 2
n_embd = 8
block_size = 8
vocab_size = 20
[data]
text = "text"
[train]
batch = 4
steps = 2
)";

constexpr const char* kGraphJob = R"(
[model]
kind = "graph"
file = "g.json"
[data]
text = "text"
[train]
batch = 4
steps = 2
)";

constexpr const char* kVitJob = R"(
[model]
kind = "vit"
image_size = 4
channels = 1
patch_size = 2
num_layers = 1
num_heads = 1
hidden_dim = 4
mlp_dim = 4
num_classes = 3
[data]
train_inputs = "images"
train_labels = "classes"
[train]
batch = 2
steps = 2
)";

constexpr const char* kBertJob = R"(
[model]
kind = "bert"
task = "classification"
num_labels = 3
vocab_size = 16
hidden_size = 8
intermediate_size = 8
num_hidden_layers = 1
num_attention_heads = 2
max_position_embeddings = 4
[data]
train_tokens = "sequences"
train_labels = "classes"
[train]
batch = 2
steps = 2
)";

// 4 black images of 4 x 4 pixels, as IDX.
std::string Images() {
  std::string file("\0\0\010\003\0\0\0\004\0\0\0\004\0\0\0\004", 16);
  return file + std::string(64, '\0');
}

std::string Text() {
  std::string text;
  for (int i = 0; i < 4; ++i) {
    text +=
        "the cat sat on a mat and the cat ate a rat it was a fat cat and they say that was all\n";
  }
  return text;
}

void WriteModels(const TestFolder& folder) {
  folder.Write("gpt.toml", kGptJob);
  folder.Write("graph.toml", kGraphJob);
  folder.Write("vit.toml", kVitJob);
  folder.Write("bert.toml", kBertJob);
  folder.Write("text", Text());
  folder.Write("images", Images());
  folder.Write("classes", "0\n1\n2\n1\n");
  folder.Write("sequences", "1,2,3,4\n5,6,7,8\n1,2,3,4\n5,6,7,8\n");
}

Environment CaseEnvironment(const TestFolder& folder) {
  return {{"ACAN", ACAN_PROGRAM},   {"ACAN_HANDLERS", "cpu:1"},
          {"ACAN_MEMORY", "16MiB"}, {"ACAN_DEVICE", "cpu:1"},
          {"ACAN_OUT", "out"},      {"TMPDIR", folder / "tmp"},
          {"PWD", folder.path()},   {"LC_ALL", "C"},
          {"HOME", folder.path()},  {"XDG_CACHE_HOME", folder.path()}};
}

// Sanitizers need terabytes of address space, and larger stacks.
bool CanRun([[maybe_unused]] const ClumsyCase& row) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  const std::string script = row.script;
  return script.find("ulimit -v") == std::string::npos &&
         script.find("ulimit -s") == std::string::npos;
#else
  return true;
#endif
}

// Runs `script` in the folder, with one deadline for all processes that it starts.
Result RunScript(const TestFolder& folder, const std::string& script) {
  const std::string whole = "cd '" + folder.path() + "' && " + script;
  Program program({"-s", "KILL", kDeadline_s, "/bin/sh", "-c", whole}, CaseEnvironment(folder),
                  "/usr/bin/timeout");
  const int code = program.Wait();
  return {code, program.out(), program.err()};
}

// A folder of which every case gets a copy.
const TestFolder& Model() {
  static const auto& model = *[] {
    static TestFolder folder;
    folder.Write("job.toml", kJob);
    folder.Write("files.toml", kFilesJob);
    folder.Write("x", "1,2,3\n4,5,6\n7,8,9\n1,1,1\n");
    folder.Write("y", "1,2\n3,4\n5,6\n0,1\n");
    WriteModels(folder);
    fs::create_directory(folder / "tmp");
    const Result made = RunScript(
        folder,
        "$ACAN train job.toml --out trained --audit-log trained/audit.log && $ACAN keygen && "
        "$ACAN train gpt.toml --out gpt && $ACAN graph gpt.toml > g.json");
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
  std::error_code gone;  // the script may have removed it
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
