// Valid keys of a job, and the error for each invalid one.
#include "acan/manager/job.h"

#include <gtest/gtest.h>

#include <cmath>

#include "acan/core/optimizers.h"
#include "acan/manager/closest_word.h"
#include "fmt/format.h"
#include "test_files.h"

namespace acan {
namespace {

// The smallest job: lines 1 to 5.
constexpr const char* kSmall =
    "[model]\n"
    "layers = [4, 3]\n"
    "[data]\n"
    "train_inputs = \"x.npy\"\n"
    "train_labels = \"y.npy\"\n";

Job Parse(const std::string& rest, const std::vector<std::string>& overrides = {}) {
  return ParseJob(kSmall + rest, "job.toml", "/jobs", overrides);
}

void ExpectRefused(const std::string& rest, const std::vector<std::string>& parts) {
  SCOPED_TRACE(rest);
  ExpectError([&] { Parse(rest); }, parts);
}

void ExpectWholeRefused(const std::string& toml, const std::vector<std::string>& parts) {
  SCOPED_TRACE(toml);
  ExpectError([&] { ParseJob(toml, "job.toml", "/jobs", {}); }, parts);
}

// Receipts are JSON, which cannot represent them.
TEST(JobTest, PathsThatAreNotUtf8AreRefused) {
  ExpectError(
      [] { ParseJob(kSmall, "job.toml", "/jobs/caf\xe9", {}); },
      {"data.train_inputs", "x.npy", "line 4 of job.toml", "/jobs/caf\xe9/x.npy", "is not UTF-8"});
  EXPECT_EQ(ParseJob(kSmall, "job.toml", "/jobs/caf\xc3\xa9", {}).data.train_inputs,
            "/jobs/caf\xc3\xa9/x.npy");
}

TEST(JobTest, SmallestJobHasTheDefaults) {
  const Job job = Parse("");
  EXPECT_EQ(job.perceptron().layers, (std::vector<std::int64_t>{4, 3}));
  EXPECT_EQ(job.perceptron().activation, Activation::kRelu);
  EXPECT_EQ(job.perceptron().loss, Loss::kCrossEntropy);
  EXPECT_EQ(job.data.train_inputs, "/jobs/x.npy");
  EXPECT_EQ(job.data.train_targets, "/jobs/y.npy");
  EXPECT_EQ(job.data.test_inputs, "");
  EXPECT_EQ(job.training.batch, 128);
  EXPECT_EQ(job.training.epochs, 5);
  EXPECT_EQ(job.training.block, 64);
  EXPECT_EQ(job.training.precision, Precision::kExact);
  EXPECT_EQ(job.training.optimizer, Optimizer::kSgd);
  EXPECT_EQ(job.training.weight_decay, 0.0);
  EXPECT_TRUE(job.training.shuffle);
  EXPECT_TRUE(job.stop_if_not_finite);
  EXPECT_FALSE(job.tasks.size_bytes.has_value());
  EXPECT_FALSE(job.tasks.timeout_ms.has_value());
}

TEST(JobTest, SlowHandlersAreLeftOutUnlessTheJobSaysOtherwise) {
  const auto leaves_out = [](const std::string& tasks) {
    return Parse("[tasks]\n" + tasks).tasks.LeavesOutSlow();
  };
  EXPECT_TRUE(leaves_out(""));
  EXPECT_FALSE(leaves_out("leave_out_slow = false\n"));
  EXPECT_FALSE(leaves_out("policy = \"paper\"\n")) << "all handlers count in the paper";
}

TEST(JobTest, EveryKeyIsRead) {
  const Job job = ParseJob(R"(
[model]
layers = [784, 512, 10]
activation = "clipped_relu"
clip_bound = 2.5
loss = "mse"
initial_weights = "/weights/start.safetensors"
[data]
train_inputs = "a.idx"
train_targets = "../b.idx"
test_inputs = "c.idx"
test_targets = "d.idx"
shuffle = false
[train]
batch = 32
epochs = 0
optimizer = "adamw"
learning_rate = 1e-3
beta1 = 0.8
beta2 = 0.95
epsilon = 1e-6
weight_decay = 0.1
seed = 9223372036854775807
precision = "fast"
block = 16
schedule = "cosine"
warmup_steps = 10
final_fraction = 0.25
stop_if_not_finite = false
[tasks]
size_bytes = "64KiB"
batch_rows = 32
pouch = 7
timeout_ms = 1500
policy = "factoring"
recompute = "always"
)",
                           "job.toml", "/jobs", {});
  EXPECT_EQ(job.perceptron().activation, Activation::kClippedRelu);
  EXPECT_EQ(job.perceptron().clip_bound, 2.5f);
  EXPECT_EQ(job.perceptron().loss, Loss::kMeanSquaredError);
  EXPECT_EQ(job.initial_weights, "/weights/start.safetensors");
  EXPECT_EQ(job.data.train_targets, "/b.idx");
  EXPECT_EQ(job.data.test_targets, "/jobs/d.idx");
  EXPECT_EQ(job.tasks.policy, Policy::kFactoring);
  EXPECT_EQ(job.tasks.recompute, RecomputePolicy::kAlways);
  const Training& training = job.training;
  EXPECT_FALSE(training.shuffle);
  EXPECT_EQ(training.batch, 32);
  EXPECT_EQ(training.epochs, 0);
  EXPECT_EQ(training.optimizer, Optimizer::kAdamW);
  EXPECT_EQ(training.learning_rate, 1e-3);
  EXPECT_EQ(training.beta1, 0.8);
  EXPECT_EQ(training.beta2, 0.95);
  EXPECT_EQ(training.epsilon, 1e-6);
  EXPECT_EQ(training.weight_decay, 0.1);
  EXPECT_EQ(training.seed, 9223372036854775807u);
  EXPECT_EQ(training.precision, Precision::kFast);
  EXPECT_EQ(training.block, 16);
  EXPECT_EQ(training.schedule.kind, ScheduleKind::kCosine);
  EXPECT_EQ(training.schedule.warmup_steps, 10);
  EXPECT_EQ(training.schedule.final_fraction, 0.25);
  EXPECT_FALSE(job.stop_if_not_finite);
  EXPECT_EQ(job.tasks.size_bytes, 65536u);
  EXPECT_EQ(job.tasks.batch_rows, 32);
  EXPECT_EQ(job.tasks.pouch, 7);
  EXPECT_EQ(job.tasks.timeout_ms, 1500);
}

TEST(JobTest, WeightDecayDefaultsAsInPyTorch) {
  EXPECT_EQ(Parse("[train]\noptimizer = \"adamw\"\n").training.weight_decay, 0.01);
  EXPECT_EQ(Parse("[train]\noptimizer = \"momentum\"\n").training.weight_decay, 0.0);
  EXPECT_EQ(Parse("[train]\noptimizer = \"adamw\"\nweight_decay = 0\n").training.weight_decay, 0.0);
}

TEST(JobTest, WordsOfOtherProgramsSuggestTheKey) {
  const auto expect = [](const std::string& section, const std::string& key,
                         const std::string& hint) {
    ExpectError([&] { ParseJob(kSmall, "job.toml", "/jobs", {section + "." + key + "=1"}); },
                {"unknown key '" + key + "' of [" + section + "]", hint});
  };
  expect("train", "batch_size", ": did you mean 'batch'?");
  expect("train", "lr", ": did you mean 'learning_rate'?");
  expect("train", "grad_clip", ": did you mean 'clip_norm'?");
  expect("train", "max_grad_norm", ": did you mean 'clip_norm'?");
  expect("train", "num_epochs", ": did you mean 'epochs'?");
  expect("train", "max_steps", ": did you mean 'steps'?");
  expect("train", "max_iters", ": did you mean 'steps'?");
  expect("train", "wd", ": did you mean 'weight_decay'?");
  expect("train", "save_every", ": did you mean 'every_steps' in [snapshots]?");
  expect("data", "labels", ": did you mean 'train_labels'?");
  expect("data", "batch_size", ": did you mean 'batch' in [train]?");
  expect("train", "min_lr", ": set 'final_fraction' in [train]");
  expect("train", "lr_decay_iters", ": the schedule ends with the last step");
  expect("train", "gradient_accumulation_steps", ": acan accumulates gradients by itself");
  expect("train", "adam_beta1", ": did you mean 'beta1'?");
  expect("train", "betas", ": set 'beta1' and 'beta2' in [train]");
  expect("train", "label_smoothing_factor", ": did you mean 'label_smoothing' in [model]?");
  // An override of the kind counts.
  ExpectError(
      [] {
        ParseJob(kSmall, "job.toml", "/", {"model.kind=llama", "model.n_embed=1"});
      },
      {"unknown key 'n_embed' of [model]", ": did you mean 'hidden_size'?"});
}

TEST(JobTest, UnknownNamesSuggestTheNearest) {
  ExpectRefused("[train]\nepoch = 3\n",
                {"unknown key 'epoch' in [train], line 7 of job.toml", "did you mean 'epochs'?"});
  ExpectRefused("[trian]\nepochs = 3\n",
                {"unknown section 'trian', line 6 of job.toml", "did you mean 'train'?"});
  ExpectRefused("[tasks]\nmomentum = 1\n", {"unknown key 'momentum'", "belongs in [train]"});
  ExpectRefused("[tasks]\nmomentun = 1\n", {"'momentun'", "expected one of size_bytes"});
  ExpectRefused("[train]\nxyzzy = 1\n", {"'xyzzy'", "expected one of batch, epochs"});
  ExpectWholeRefused(std::string("epochs = 3\n") + kSmall,
                     {"key outside a section 'epochs', line 1", "belongs in [train]"});
  ExpectWholeRefused(std::string("train = 3\n") + kSmall,
                     {"train (line 1 of job.toml): expected the section [train]", "integer 3"});
  ExpectRefused("[train]\noptimizer = \"adam\"\n",
                {"train.optimizer = \"adam\" (line 7 of job.toml)", "did you mean \"adamw\"?",
                 "sgd, momentum, adamw"});
  ExpectRefused("[train]\noptimizer = \"zzz\"\n", {"must be one of sgd"});
}

TEST(JobTest, WrongTypesNameExpectedAndFound) {
  ExpectRefused("[train]\nepochs = \"three\"\n",
                {"train.epochs (line 7 of job.toml)", "expected an integer from 0 to 1000000",
                 "found the string \"three\""});
  ExpectRefused("[train]\nepochs = 3.0\n", {"expected an integer", "found the number 3.0"});
  ExpectRefused("[train]\nepochs = 3.7\n", {"expected an integer", "found the number 3.7"});
  ExpectRefused("[train]\nepochs = [3]\n", {"found the array [3]"});
  ExpectRefused("[train]\nepochs = 2020-01-01\n", {"found a date or time"});
  ExpectRefused("[train]\nepochs = {a = 1}\n", {"found a table"});
  ExpectRefused("[train]\nlearning_rate = true\n", {"expected a number", "boolean true"});
  ExpectRefused("[train]\noptimizer = 3\n", {"expected one of \"sgd\"", "found the integer 3"});
  ExpectRefused("[tasks]\npouch = 1.5\n", {"expected \"auto\" or an integer", "1.5"});
  ExpectRefused("[tasks]\nsize_bytes = 1.5\n", {"\"64KiB\"", "found the number 1.5"});
  ExpectWholeRefused("[model]\nlayers = 5\n", {"expected an array of integers", "integer 5"});
  ExpectWholeRefused("[model]\nlayers = [4, 3]\ninitial_weights = 1\n[data]\n",
                     {"model.initial_weights", "expected a string"});
  ExpectWholeRefused("[model]\nlayers = [4, 3]\n[data]\nshuffle = 1\n",
                     {"data.shuffle", "expected true or false", "integer 1"});
  ExpectWholeRefused("model = [[1]]\n", {"expected the section [model]"});
}

TEST(JobTest, ZeroBytesDoNotEndAMessage) {
  ExpectRefused("[output]\nconfig = \"a\\u0000b\"\n",
                {R"(output.config = "a\x00b" (line 7 of job.toml): must be one of)"});
  ExpectRefused("[train]\n\"a\\u0000b\" = 1\n", {R"(unknown key 'a\x00b' in [train], line 7)"});
  ExpectWholeRefused(
      "[model]\nlayers = [4, 3]\n[data]\ntrain_inputs = \"x\\u0000.npy\"\n",
      {R"(data.train_inputs = "x\x00.npy" (line 4 of job.toml): must not contain a zero byte)"});
}

// TOML cannot represent them, and words need no quotes there.
TEST(JobTest, HugeIntegersOfOverridesAreNoWords) {
  ExpectError([] { Parse("", {"train.seed=9223372036854775808"}); },
              {"train.seed = 9223372036854775808 (--set train.seed=9223372036854775808): must be "
               "from 0 to 9223372036854775807"});
  ExpectError([] { Parse("", {"train.learning_rate=-99999999999999999999"}); },
              {"train.learning_rate = -99999999999999999999 (--set", "must be from 0 to"});
  ExpectError([] { Parse("", {"train.seed='9'"}); }, {"expected an integer", "the string \"9\""});
  ExpectError([] { Parse("", {"tasks.pouch=99999999999999999999"}); },
              {"99999999999999999999", "must be \"auto\" or an integer from 1 to 1000000"});
}

TEST(JobTest, RangesAreChecked) {
  ExpectRefused("[train]\nepochs = -1\n", {"train.epochs = -1 (line 7", "from 0 to 1000000"});
  ExpectRefused("[train]\nepochs = 1000001\n", {"1000001"});
  ExpectRefused("[train]\nbatch = 0\n", {"train.batch = 0", "from 1 to 1048576"});
  ExpectRefused("[train]\nbatch = 1048577\n", {"1048577"});
  ExpectRefused("[train]\nseed = -5\n", {"train.seed = -5"});
  ExpectRefused("[train]\nblock = 8\n", {"from 16 to 1024"});
  ExpectRefused("[train]\nblock = 2048\n", {"from 16 to 1024"});
  ExpectRefused("[train]\nblock = 100\n", {"power of two", "the nearest is 64"});
  ExpectRefused("[train]\nlearning_rate = -0.1\n", {"learning_rate = -0.1"});
  ExpectRefused("[train]\nlearning_rate = nan\n", {"finite"});
  ExpectRefused("[train]\nlearning_rate = inf\n", {"finite"});
  ExpectRefused("[train]\nlearning_rate = 1e300\n", {"1e+300"});
  ExpectRefused("[train]\nweight_decay = -inf\n", {"finite"});
  ExpectRefused("[train]\noptimizer = \"momentum\"\nmomentum = 1.5\n", {"momentum = 1.5"});
  ExpectRefused("[train]\noptimizer = \"adamw\"\nbeta1 = 1\n", {"beta1 = 1", "below 1"});
  ExpectRefused("[train]\noptimizer = \"adamw\"\nbeta2 = 1.0\n", {"below 1"});
  ExpectRefused("[train]\noptimizer = \"adamw\"\nepsilon = 0\n", {"epsilon = 0"});
  ExpectRefused("[train]\nwarmup_steps = -1\n", {"warmup_steps = -1"});
  ExpectRefused("[train]\nschedule = \"step\"\nstep_every = 0\n", {"step_every = 0"});
  ExpectRefused("[train]\nschedule = \"cosine\"\nfinal_fraction = 1.5\n", {"from 0 to 1"});
  ExpectRefused("[tasks]\npouch = 0\n", {"tasks.pouch = 0"});
  ExpectRefused("[tasks]\npouch = \"lots\"\n", {"must be \"auto\" or an integer"});
  ExpectRefused("[tasks]\ntimeout_ms = -4\n", {"tasks.timeout_ms = -4"});
  ExpectRefused("[tasks]\nsize_bytes = \"64KB\"\n", {"\"64KB\"", "KiB"});
  ExpectRefused("[tasks]\nsize_bytes = 100\n", {"at least 16384 bytes"});
  ExpectRefused("[tasks]\nsize_bytes = -1\n", {"at least 16384 bytes"});
  ExpectRefused("[tasks]\nbatch_rows = 32\n", {"tasks.batch_rows = 32", "from 64"});
  ExpectRefused("[tasks]\naudit = 1.5\n", {"tasks.audit = 1.5"});
  ExpectRefused("[tasks]\naudit = 0.05\n[train]\nprecision = \"fast\"\n",
                {"tasks.audit = 0.05", "exact"});
  ExpectRefused("[tasks]\nrecompute = \"sometimes\"\n",
                {"tasks.recompute = \"sometimes\"", "auto", "never", "always"});
  ExpectRefused("[tasks]\nrecompute = true\n", {"tasks.recompute", "true"});
  ExpectRefused("[tasks]\nleave_out_slow = 4\n", {"tasks.leave_out_slow", "4", "true or false"});
  ExpectRefused("[tasks]\npolicy = \"greedy\"\n",
                {"tasks.policy = \"greedy\"", "auto", "paper", "gss"});
  ExpectWholeRefused("[model]\nlayers = [4]\n", {"from 2 to 64 entries, found 1"});
  ExpectWholeRefused("[model]\nlayers = [4, 0]\n", {"entry 1 is the integer 0"});
  ExpectWholeRefused("[model]\nlayers = [4, 16777217]\n", {"entry 1", "16777216"});
  ExpectWholeRefused("[model]\nlayers = [4, 2.0]\n", {"entry 1 is the number 2.0"});
  ExpectWholeRefused("[model]\nlayers = [16777216, 16777216]\n", {"parameters", "the limit is"});
  std::string many = "[model]\nlayers = [4";
  for (int i = 0; i < 64; ++i) many += ", 4";
  ExpectWholeRefused(many + "]\n", {"found 65"});
}

// Tests every row of optimizers.h; a new row needs no change here.
TEST(JobTest, EveryOptimizerTakesItsKeysAndNoOthers) {
  for (const OptimizerRow& row : kOptimizers) {
    const std::string chosen = fmt::format("[train]\noptimizer = \"{}\"\n", row.word);
    const Training training = Parse(chosen).training;
    EXPECT_EQ(training.optimizer, row.optimizer);
    for (const OptimizerKey& key : kOptimizerKeys) {
      const auto with = [&](double value) {
        return fmt::format("{}{} = {}\n", chosen, key.name, value);
      };
      const UsedKey* const used = FindKey(row, key.name);
      if (used == nullptr) {
        ExpectRefused(with(key.least), {"does not use it"});
        continue;
      }
      EXPECT_EQ(training.*key.value, used->standard) << row.word << " " << key.name;
      EXPECT_EQ(Parse(with(key.least)).training.*key.value, key.least);
      ExpectRefused(with(key.least - 1), {fmt::format("train.{} = ", key.name)});
      ExpectRefused(with(key.most * 2), {fmt::format("train.{} = ", key.name)});
      if (key.below_most) ExpectRefused(with(key.most), {"must be below"});
    }
  }
}

TEST(JobTest, SettingsThatWouldBeIgnoredAreRefused) {
  ExpectRefused("[train]\nmomentum = 0.9\n",
                {"train.momentum = 0.9", "optimizer \"sgd\" does not use it", "\"momentum\""});
  ExpectRefused("[train]\nbeta1 = 0.9\n", {"optimizer = \"adamw\""});
  ExpectRefused("[train]\noptimizer = \"adamw\"\nmomentum = 0.9\n", {"does not use it"});
  ExpectRefused("[train]\nstep_every = 5\n", {"schedule \"constant\" does not use it"});
  ExpectRefused("[train]\nfinal_fraction = 0.5\n", {"schedule = \"cosine\""});
  ExpectRefused("[train]\nschedule = \"step\"\n", {"no train.step_every"});
  ExpectWholeRefused("[model]\nlayers = [4, 3]\nclip_bound = 3\n",
                     {"model.clip_bound", "activation \"relu\"", "clipped_relu"});
}

TEST(JobTest, DataAndLossMustAgree) {
  const std::string model = "[model]\nlayers = [4, 3]\n";
  const std::string mse = model + "loss = \"mse\"\n";
  ExpectWholeRefused("", {"has no model.layers"});
  ExpectWholeRefused(model, {"has no data.train_inputs"});
  ExpectWholeRefused(model + "[data]\ntrain_inputs = \"x\"\n", {"has no data.train_labels"});
  ExpectWholeRefused(mse + "[data]\ntrain_inputs = \"x\"\n", {"has no data.train_targets"});
  ExpectWholeRefused(model + "[data]\ntrain_inputs = \"x\"\ntrain_targets = \"y\"\n",
                     {"data.train_targets", "\"cross_entropy\" takes train_labels", "\"mse\""});
  ExpectWholeRefused(mse + "[data]\ntrain_inputs = \"x\"\ntrain_labels = \"y\"\n",
                     {"\"mse\" takes train_targets"});
  ExpectRefused("test_inputs = \"t\"\n", {"data.test_labels is missing"});
  ExpectRefused("test_labels = \"t\"\n", {"data.test_inputs is missing"});
  ExpectRefused("samples = 5\n", {"data.samples = 5", "only for data.generated"});
  ExpectWholeRefused(model + "[data]\ntrain_inputs = \"\"\n", {"must be the path"});
  ExpectWholeRefused("[model]\nlayers = [4, 1]\n[data]\n", {"at least 2 outputs"});
  ExpectWholeRefused(mse + "[data]\ngenerated = \"regression\"\n", {"has no data.samples"});
  ExpectWholeRefused(mse + "[data]\ngenerated = \"regresion\"\nsamples = 3\n",
                     {"did you mean \"regression\"?"});
  ExpectWholeRefused(model + "[data]\ngenerated = \"regression\"\nsamples = 3\n", {"\"mse\""});
  ExpectWholeRefused(
      mse + "[data]\ngenerated = \"regression\"\nsamples = 3\ntrain_inputs = \"x\"\n",
      {"data.train_inputs", "remove one of the two"});
  ExpectWholeRefused(mse + "[data]\ngenerated = \"regression\"\nsamples = 0\n", {"samples = 0"});
}

TEST(JobTest, BrokenTomlNamesTheLine) {
  ExpectRefused("[train]\nbatch = \n", {"job.toml, line 7", "not valid TOML"});
  ExpectRefused("[train]\nbatch = 1\nbatch = 2\n", {"job.toml, line 8"});
  ExpectRefused("[train]\nseed = 9223372036854775808\n", {"job.toml, line 7"});
  ExpectWholeRefused("\xff\xfe", {"job.toml, line 1"});
}

TEST(JobTest, OverridesReplaceAndName) {
  const Job job =
      Parse("[train]\nepochs = 2\n",
            {"train.epochs=3", "train.batch = 16", "train.optimizer=adamw", "tasks.pouch=\"auto\"",
             "model.layers=[4, 8, 3]", "tasks.size_bytes=1MiB", "data.train_inputs=other.npy"});
  EXPECT_EQ(job.training.epochs, 3);
  EXPECT_EQ(job.training.batch, 16);
  EXPECT_EQ(job.training.optimizer, Optimizer::kAdamW);
  EXPECT_EQ(job.perceptron().layers.size(), 3u);
  EXPECT_EQ(job.tasks.size_bytes, 1u << 20);
  // Paths in overrides are relative to the current folder, paths in a file to the file's folder.
  EXPECT_EQ(job.data.train_inputs, (std::filesystem::current_path() / "other.npy").string());
  EXPECT_EQ(job.data.train_targets, "/jobs/y.npy");
}

TEST(JobTest, BadOverridesAreNamed) {
  const auto refused = [](const std::string& text, const std::vector<std::string>& parts) {
    SCOPED_TRACE(text);
    ExpectError([&] { Parse("", {text}); }, parts);
  };
  refused("train.epochs=three", {"train.epochs (--set train.epochs=three)", "\"three\""});
  refused("train.epochs=-3", {"train.epochs = -3 (--set train.epochs=-3)"});
  refused("train.epoch=3", {"unknown key 'epoch'", "--set train.epoch=3", "'epochs'"});
  refused("trian.epochs=3", {"unknown section 'trian'", "'train'"});
  refused("epochs=3", {"--set epochs=3", "section.key=value"});
  refused("train.epochs", {"section.key=value"});
  refused("", {"section.key=value"});
  refused("train.epochs=", {"the value is missing"});
  refused("model.layers=[4, 3", {"is not a TOML value"});
  refused("train.seed=1\nbatch = 3", {"more than one line"});
  refused("train.optimizer.x=1", {"unknown key 'optimizer.x'"});
  std::string many;
  for (int i = 0; i < 1001; ++i) many += "a.";
  refused("train.seed={" + many + "a=1}",
          {"--set train.seed={a.a.", "...: the value has 1001 dots"});
}

TEST(JobTest, LoadJobResolvesPathsFromItsFile) {
  const TestFolder folder;
  const std::string path = folder.Write("job.toml", kSmall);
  EXPECT_EQ(LoadJob(path, {}).data.train_inputs, folder.Path("x.npy"));
}

TEST(JobTest, LoadJobRefusesWhatIsNoFile) {
  const TestFolder folder;
  ExpectError([&] { LoadJob(folder.Path("none.toml"), {}); },
              {"none.toml", "No such file or directory"});
  ExpectError([&] { LoadJob(folder.path(), {}); }, {"is a directory"});
  const std::string big = folder.Write("big.toml", std::string(kMaxJobBytes + 1, '#'));
  ExpectError([&] { LoadJob(big, {}); }, {"big.toml", "longer than 1048576 bytes"});
}

TEST(NearestTest, CountsEditsAndSwaps) {
  EXPECT_EQ(EditDistance("", ""), 0);
  EXPECT_EQ(EditDistance("abc", ""), 3);
  EXPECT_EQ(EditDistance("kitten", "sitting"), 3);
  EXPECT_EQ(EditDistance("rleu", "relu"), 1);
  EXPECT_EQ(ClosestWord("Epochs", {"batch", "epochs"}), "epochs");
  EXPECT_EQ(ClosestWord("b", {"batch", "epochs"}), "");
  EXPECT_EQ(ClosestWord(std::string(1000, 'a'), {"batch"}), "");
}

}  // namespace
}  // namespace acan
