// Job files and overrides (--set).
//
// Input: [job]{0 byte}[override]{0 byte}[override]...
#include <algorithm>
#include <cstring>
#include <optional>

#include "acan/core/error.h"
#include "acan/manager/job.h"
#include "nlohmann/json.hpp"
#include "target.h"

namespace acan::fuzz::job_target {
namespace {

constexpr std::size_t kMaxOverrides = 8;

std::optional<Job> Parse(const std::string& toml, const std::vector<std::string>& overrides) {
  try {
    return ParseJob(toml, "job.toml", "/folder", overrides);
  } catch (const Error& refused) {
    Require(refused.kind() == Error::Kind::kUsage && std::strlen(refused.what()) > 0,
            "a job is refused in another way than as a mistake of its user");
    return std::nullopt;
  }
}

bool Run(std::string_view input) {
  std::string toml(input.substr(0, input.find('\0')));
  std::vector<std::string> overrides;
  for (std::size_t at = toml.size(); at < input.size() && overrides.size() < kMaxOverrides;) {
    const std::size_t end = std::min(input.find('\0', at + 1), input.size());
    overrides.emplace_back(input.substr(at + 1, end - at - 1));
    at = end;
  }
  const HeapWatch heap;
  const std::optional<Job> job = Parse(toml, overrides);
  // A TOML node takes some hundred bytes, and one character of text may make a node.
  heap.RequireAtMost((1 << 20) + 1024 * input.size() + GraphBytes(input));
  if (!job) return false;
  const nlohmann::json json = JobToJson(*job);
  try {
    Require(JobToJson(ParseJob(JobToToml(*job), "toml", "/elsewhere", {})) == json,
            "a job changes when it is written as TOML and read");
    Require(JobToJson(JobFromJson(nlohmann::json::parse(json.dump()), "json")) == json,
            "a job changes when it is written as JSON and read");
  } catch (const Error& refused) {
    throw BrokenProperty(
        fmt::format("a job that was read cannot be written and read again: {}", refused.what()));
  }
  return true;
}

std::vector<Seed> Seeds() {
  using namespace std::string_literals;
  const std::string small =
      "[model]\nlayers = [4, 8, 3]\n[data]\ntrain_inputs = \"x.npy\"\ntrain_labels = 'y.npy'\n";
  return {{"small", small},
          {"overrides", small + "\0train.epochs=3\0train.optimizer = momentum\0tasks.pouch=auto"s},
          {"gpt",
           "[model]\nkind = \"gpt\"\nn_layer = 2\nn_head = 2\nn_embd = 8\nvocab_size = 5\n"
           "[data]\ntrain_inputs = \"x\"\ntrain_labels = \"y\"\n[train]\nsteps = 5\nclip_norm = 1\n"
           "freeze = [\"*.wte.*\"]\ndecay = \"matrices\"\n"},
          {"resnet",
           "[model]\nkind = \"resnet\"\nwidths = [8, 9]\nblocks = [1, 1]\nnorm = \"group\"\n"
           "norm_groups = 1\nimage_size = [8, 9]\n[data]\ntrain_inputs = \"x\"\n"
           "train_labels = \"y\"\n"},
          {"bert",
           "[model]\nkind = \"bert\"\ntask = \"classification\"\nnum_labels = 3\n"
           "layer_norm_eps = 1e-5\n[data]\ntrain_inputs = \"x\"\ntrain_labels = \"y\"\n"},
          {"generated",
           "# made from the seed\n[model]\nlayers = [2, 1]\nloss = \"mse\"\nactivation = \"tanh\"\n"
           "[data]\ngenerated = \"regression\"\nsamples = 100\n[train]\nseed = 9\nprecision = "
           "\"fast\"\n"},
          {"everything",
           "model = { layers = [784, 512, 10], activation = \"clipped_relu\", clip_bound = 6.5 }\n"
           "[data]\ntrain_inputs = \"/a\"\ntrain_labels = \"b\"\ntest_inputs = \"c\\u00e4\"\n"
           "test_labels = \"\"\"d\"\"\"\nshuffle = false\n"
           "[train]\nbatch = 1_28\nepochs = 0x2\noptimizer = \"adamw\"\nlearning_rate = 1e-3\n"
           "beta1 = 0.5\nbeta2 = 0.9\nepsilon = 1e-6\nweight_decay = 0\nblock = 32\n"
           "schedule = \"step\"\nwarmup_steps = 5\nstep_every = 7\nstep_factor = 0.25\n"
           "[tasks]\nsize_bytes = \"64KiB\"\nbatch_rows = 64\npouch = 10\ntimeout_ms = 500\n"
           "policy = \"gss\"\naudit = 0.5\nresident_steps = 4\n[snapshots]\nevery_steps = 10\n"}};
}

// Each dot and each bracket adds a level of nesting.
std::vector<Seed> Hostile() {
  using namespace std::string_literals;
  const std::size_t many = 300'000;
  const std::string dots = Repeated("a.", many);
  const std::string valid = Seeds().front().bytes;
  return {{"dotted-key", dots + "a = 1\n"},
          {"dotted-section", "[" + dots + "a]\n"},
          {"dotted-key-behind-a-string", "a = { b = \"\"\"c\"\"\"\"\", " + dots + "d = 1 }\n"},
          {"brackets", "a = " + Repeated("[", many)},
          {"override", valid + "\0train.seed={"s + dots + "a=1}"},
          {"override-brackets", valid + "\0train.seed="s + Repeated("{a=", many)}};
}

const Registration registration({"job", Run, Seeds, Hostile});

}  // namespace
}  // namespace acan::fuzz::job_target
