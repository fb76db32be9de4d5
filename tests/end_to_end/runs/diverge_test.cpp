// A run whose loss or weights are not finite: which step it names and what it keeps.
#include <cmath>
#include <filesystem>
#include <fstream>

#include "acan/manager/model_file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "program.h"

namespace acan::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

class Diverge : public ::testing::Test {
 protected:
  Diverge()
      : job_(folder_.Write("job.toml", R"([model]
layers = [16, 40, 2]
activation = "tanh"
loss = "mse"
[data]
generated = "regression"
samples = 200
[train]
batch = 32
epochs = 30
learning_rate = 1e6
)")) {}

  Result Train(const std::string& out, const std::vector<std::string>& more) const {
    std::vector<std::string> words = {"train",      job_,    "--out",    out,
                                      "--handlers", "cpu:1", "--memory", "64MiB"};
    words.insert(words.end(), more.begin(), more.end());
    return RunAcan(words);
  }
  static nlohmann::json ReceiptIn(const std::string& out) {
    return nlohmann::json::parse(ReadFile(out + "/receipt.json"), nullptr, false);
  }
  static std::vector<nlohmann::json> LossesIn(const std::string& out) {
    std::vector<nlohmann::json> losses;
    std::ifstream file(out + "/metrics.jsonl");
    for (std::string line; std::getline(file, line);) {
      const auto json = nlohmann::json::parse(line);
      if (json.contains("loss")) losses.push_back(json["loss"]);
    }
    return losses;
  }
  bool AllFinite(const std::string& path) const {
    const ModelReader reader(path, *BuildModel(LoadJob(job_, {})));
    for (std::size_t i = 0; i < reader.Tensors().size(); ++i) {
      const TensorInfo& tensor = reader.Tensors()[i];
      std::vector<float> values(static_cast<std::size_t>(tensor.rows * tensor.cols));
      reader.Read(i, 0, 0, tensor.rows, tensor.cols, values);
      for (const float value : values) {
        if (!std::isfinite(value)) return false;
      }
    }
    return true;
  }

  // Weights of 1e33: with a learning rate and a weight decay of 1e6 each, one step makes them
  // infinite, while tanh keeps the loss small.
  std::string WriteHugeModel() const { return WriteModel("huge.safetensors", 1e33f); }
  // Writes a model in which each value of layers.0.weight is `weight`.
  std::string WriteModel(const std::string& name, float weight) const {
    const auto model = BuildModel(Perceptron{{16, 40, 2}});
    const std::string path = folder_ / name;
    ModelWriter writer(path, *model);
    const std::vector<TensorInfo> tensors = ModelTensors(*model);
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      const bool chosen = tensors[i].name == "layers.0.weight";
      const std::vector<float> values(static_cast<std::size_t>(tensors[i].rows * tensors[i].cols),
                                      chosen ? weight : 0.01f);
      writer.Write(i, 0, 0, tensors[i].rows, tensors[i].cols, values);
    }
    writer.Finish();
    return path;
  }
  // Writes only the weights of a snapshot of `job`.
  std::string CopyWeights(const std::string& job, const std::string& snapshot,
                          const std::string& name) const {
    const auto model = BuildModel(LoadJob(job, {}));
    const ModelReader reader(snapshot, *model);
    const std::string path = folder_ / name;
    ModelWriter writer(path, *model);
    std::size_t written = 0;
    for (std::size_t i = 0; i < reader.Tensors().size(); ++i) {
      const TensorInfo& tensor = reader.Tensors()[i];
      if (tensor.matrix.state != ParameterState::kValue) continue;
      std::vector<float> values(static_cast<std::size_t>(tensor.rows * tensor.cols));
      reader.Read(i, 0, 0, tensor.rows, tensor.cols, values);
      writer.Write(written++, 0, 0, tensor.rows, tensor.cols, values);
    }
    writer.Finish();
    return path;
  }

  TestFolder folder_;
  std::string job_;
  std::string out_ = folder_ / "out";
};

TEST_F(Diverge, EndsTheRunAndKeepsTheLastGoodWeights) {
  const Result result = Train(out_, {"--json"});
  EXPECT_EQ(result.code, 1) << result.err;
  const nlohmann::json receipt = ReceiptIn(out_);
  ASSERT_TRUE(receipt.is_object()) << result.err;
  const std::int64_t step = receipt["not_finite"]["step"];
  const std::vector<nlohmann::json> losses = LossesIn(out_);
  ASSERT_EQ(losses.size(), static_cast<std::size_t>(step + 1));
  for (std::int64_t i = 0; i <= step; ++i) EXPECT_EQ(losses[i].is_null(), i == step) << i;

  const std::string at = "step " + std::to_string(step) + " (counted from 0, as in metrics.jsonl)";
  EXPECT_THAT(result.err, HasSubstr("the loss of " + at + " of 210 is not finite"));
  EXPECT_THAT(result.err,
              AllOf(HasSubstr("ended at " + at), HasSubstr("a learning rate of 1000000"),
                    HasSubstr("lower train.learning_rate")));
  EXPECT_EQ(receipt["not_finite"]["what"], "loss");
  EXPECT_EQ(receipt["not_finite"]["stopped"], true);
  EXPECT_EQ(receipt["not_finite"]["kept_version"], step - 1);
  EXPECT_EQ(receipt["steps"], step - 1);

  const std::string kept = out_ + "/" + receipt["not_finite"]["kept"].get<std::string>();
  EXPECT_THAT(result.err, HasSubstr(kept));
  EXPECT_TRUE(AllFinite(kept));
  EXPECT_EQ(receipt["weights_sha256"],
            ModelReader(kept, *BuildModel(LoadJob(job_, {}))).WeightsSha256());
  EXPECT_FALSE(std::filesystem::exists(out_ + "/model.safetensors"));
}

// Neither its own nor that of an earlier run.
TEST_F(Diverge, LeavesNoModel) {
  ASSERT_EQ(Train(out_, {"--set", "train.learning_rate=0.01", "--set", "train.epochs=1"}).code, 0);
  ASSERT_TRUE(std::filesystem::exists(out_ + "/model.safetensors"));
  EXPECT_EQ(Train(out_, {}).code, 1);
  EXPECT_FALSE(std::filesystem::exists(out_ + "/model.safetensors"));
}

TEST_F(Diverge, NamesTheInitialWeightThatIsNotFinite) {
  const std::string weights = WriteModel("nan.safetensors", NAN);
  const Result result = Train(out_, {"--set", "model.initial_weights=" + weights});
  EXPECT_EQ(result.code, 1) << result.out;
  EXPECT_THAT(result.err, HasSubstr("model.initial_weights: " + weights +
                                    ": tensor 'layers.0.weight' has the value nan"));
}

// Snapshots with bad weights are removed, and the kept weights have the same bits with any
// snapshots.
TEST_F(Diverge, KeepsTheSameWeightsWithSnapshots) {
  ASSERT_EQ(Train(out_, {"--set", "snapshots.every_steps=0"}).code, 1);
  const std::string other = folder_ / "other";
  const Result result = Train(other, {"--set", "snapshots.every_steps=1"});
  ASSERT_EQ(result.code, 1) << result.err;
  const nlohmann::json receipt = ReceiptIn(other);
  EXPECT_EQ(receipt["weights_sha256"], ReceiptIn(out_)["weights_sha256"]);
  EXPECT_EQ(receipt["not_finite"], ReceiptIn(out_)["not_finite"]);
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(other + "/snapshots")) {
    names.push_back("snapshots/" + entry.path().filename().string());
  }
  EXPECT_THAT(names, ElementsAre(receipt["not_finite"]["kept"].get<std::string>()));
}

TEST_F(Diverge, IsVerifiedAsEveryRun) {
  ASSERT_EQ(Train(out_, {}).code, 1);
  const Result verified = RunAcan({"verify", out_, "--rerun"});
  EXPECT_EQ(verified.code, 0) << verified.out << verified.err;
  EXPECT_THAT(verified.out, HasSubstr("equal      not_finite of the second training"));
  nlohmann::json receipt = ReceiptIn(out_);
  receipt.erase("receipt_sha256");
  receipt["not_finite"]["step"] = receipt["not_finite"]["step"].get<int>() + 1;
  folder_.Write("out/receipt.json", receipt.dump());
  const Result edited = RunAcan({"verify", out_, "--rerun"});
  EXPECT_EQ(edited.code, 1);
  EXPECT_THAT(edited.out, HasSubstr("DIFFERENT  not_finite of the second training"));
}

TEST_F(Diverge, ResumingSaysThatItWouldEndThereAgain) {
  ASSERT_EQ(Train(out_, {}).code, 1);
  const std::string receipt = ReadFile(out_ + "/receipt.json");
  const Result resumed = RunAcan({"train", "--resume", out_, "--handlers", "cpu:1"});
  EXPECT_EQ(resumed.code, 1);
  EXPECT_THAT(resumed.err, AllOf(HasSubstr("the run in " + out_ + " ended at step"),
                                 HasSubstr("The same job would end here again")));
  EXPECT_EQ(ReadFile(out_ + "/receipt.json"), receipt);
  // A finished run is not continued in another way, either.
  const Result anew = RunAcan({"train", job_, "--resume", out_, "--handlers", "cpu:1", "--set",
                               "train.stop_if_not_finite=false"});
  EXPECT_EQ(anew.code, 2) << anew.out;
  EXPECT_THAT(anew.err, AllOf(HasSubstr("train.stop_if_not_finite = false: the run in " + out_),
                              HasSubstr("without --resume")));
  EXPECT_EQ(ReadFile(out_ + "/receipt.json"), receipt);
}

// The run may end before the first fault, which the exit code says.
TEST_F(Diverge, AlsoUnderFaultsAndKeepsTheSameWeights) {
  const Result result = RunAcan({"chaos", job_, "--handlers", "cpu:1@64MiB", "--out", out_,
                                 "--stop", "handlers", "--pause", "1ms", "--every", "20ms"});
  EXPECT_THAT(result.out, AllOf(HasSubstr("the same weights as the undisturbed run"),
                                HasSubstr("the undisturbed run diverged and ended early at step")))
      << result.err;
  EXPECT_THAT(result.err, Not(HasSubstr("restarting it")));
}

TEST_F(Diverge, TheWeightsThatItKeptCanBeGoneOnFrom) {
  ASSERT_EQ(Train(out_, {}).code, 1);
  const std::string kept = out_ + "/" + ReceiptIn(out_)["not_finite"]["kept"].get<std::string>();
  const Result next = Train(folder_ / "next", {"--set", "model.initial_weights=" + kept, "--set",
                                               "train.learning_rate=0", "--set", "train.epochs=1"});
  EXPECT_EQ(next.code, 0) << next.err;
  EXPECT_EQ(ReceiptIn(folder_ / "next")["weights_sha256"], ReceiptIn(out_)["weights_sha256"]);
}

// A target of the last step overflows its loss. The snapshot that the run keeps also has the state
// of its optimizer. A job that starts from these weights does not read it: the id of that job
// depends on the weights alone.
TEST_F(Diverge, TheWeightsThatItKeptBeginWithANewOptimizer) {
  std::string inputs, bad, good;
  for (int i = 0; i < 8; ++i) {
    inputs += std::to_string(i % 3) + ",2,-1\n";
    bad += i == 7 ? "3e38\n" : "1\n";
    good += "0.5\n";
  }
  folder_.Write("inputs.csv", inputs);
  folder_.Write("bad.csv", bad);
  folder_.Write("good.csv", good);
  const std::string job = folder_.Write("own.toml",
                                        "[model]\nlayers = [3, 8, 1]\nloss = \"mse\"\n"
                                        "activation = \"tanh\"\n"
                                        "[data]\ntrain_inputs = \"inputs.csv\"\n"
                                        "train_targets = \"bad.csv\"\nshuffle = false\n"
                                        "[train]\nbatch = 2\nepochs = 1\nlearning_rate = 0.05\n");
  for (const std::string optimizer : {"momentum", "adamw"}) {
    SCOPED_TRACE(optimizer);
    const auto train = [&](const std::string& name, const std::vector<std::string>& more) {
      std::vector<std::string> words = {"train", job, "--out", folder_ / (optimizer + name)};
      words.insert(words.end(), {"--handlers", "cpu:1", "--set", "train.optimizer=" + optimizer});
      words.insert(words.end(), more.begin(), more.end());
      const Result result = RunAcan(words);
      EXPECT_EQ(result.code, more.empty() ? 1 : 0) << result.err;
      return ReceiptIn(folder_ / (optimizer + name));
    };
    const nlohmann::json receipt = train("", {});
    ASSERT_TRUE(receipt.is_object());
    EXPECT_EQ(receipt["not_finite"]["step"], 3);
    EXPECT_EQ(receipt["not_finite"]["kept_version"], 2);
    const std::string kept =
        folder_ / optimizer + "/" + receipt["not_finite"]["kept"].get<std::string>();
    EXPECT_NE(ReadFile(kept).find("layers.0.weight.state0"), std::string::npos);
    const std::string copy = CopyWeights(job, kept, optimizer + ".safetensors");
    const auto train_from = [&](const std::string& name, const std::string& weights) {
      return train(name, {"--set", "model.initial_weights=" + weights, "--set",
                          "data.train_targets=" + (folder_ / "good.csv")});
    };
    const nlohmann::json from_kept = train_from("-kept", kept);
    const nlohmann::json from_copy = train_from("-copy", copy);
    ASSERT_TRUE(from_kept.is_object() && from_copy.is_object());
    const nlohmann::json::json_pointer start("/job/model/initial_weights_sha256");
    EXPECT_EQ(from_kept.at(start), receipt["weights_sha256"]);
    EXPECT_EQ(from_copy.at(start), receipt["weights_sha256"]);
    EXPECT_EQ(from_kept["weights_sha256"], from_copy["weights_sha256"]);
  }
}

TEST_F(Diverge, GoesOnWhenItIsToldTo) {
  const Result result = Train(out_, {"--set", "train.stop_if_not_finite=false"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("of 210 is not finite"));
  EXPECT_THAT(result.out, HasSubstr("the loss was not finite from step"));
  const nlohmann::json receipt = ReceiptIn(out_);
  EXPECT_EQ(receipt["steps"], 210);
  EXPECT_EQ(receipt["not_finite"]["stopped"], false);
  EXPECT_EQ(LossesIn(out_).size(), 210u);
  EXPECT_TRUE(LossesIn(out_)[receipt["not_finite"]["step"].get<std::size_t>()].is_null());
  EXPECT_TRUE(std::filesystem::exists(out_ + "/model.safetensors"));
}

// The only step has a finite loss but makes the weights infinite or NaN; there is no later loss
// that could show it.
TEST_F(Diverge, WeightsThatNoLossShowsAreFound) {
  const Result result =
      Train(out_, {"--set", "train.epochs=1", "--set", "data.samples=32", "--set",
                   "train.weight_decay=1e6", "--set", "model.initial_weights=" + WriteHugeModel()});
  EXPECT_EQ(result.code, 1) << result.err;
  const nlohmann::json receipt = ReceiptIn(out_);
  ASSERT_TRUE(receipt.is_object()) << result.err;
  EXPECT_EQ(receipt["not_finite"]["what"], "weights");
  EXPECT_EQ(receipt["not_finite"]["step"], 0);
  EXPECT_EQ(receipt["not_finite"]["kept_version"], 0);
  EXPECT_THAT(result.err, HasSubstr("the weights of step 0"));
  EXPECT_FALSE(std::filesystem::exists(out_ + "/model.safetensors"));
  EXPECT_TRUE(AllFinite(out_ + "/" + receipt["not_finite"]["kept"].get<std::string>()));
}

// A handler made the loss infinite or NaN once; it is not there when the steps are repeated.
TEST_F(Diverge, ALossThatIsFiniteAgainIsNoDivergence) {
  const std::string endpoint = "ipc://" + (folder_ / "space");
  const std::vector<std::string> handler = {"handler", "--connect", endpoint, "--device", "cpu:1"};
  std::vector<std::string> liar = handler;
  liar.insert(liar.end(), {"--inject", "results:0.3,seed=7", "--throttle", "0.02"});
  Program broker({"broker", "--listen", endpoint});
  Program wrong(liar);
  ASSERT_TRUE(wrong.WaitForErr("joined"));
  Program manager({"manager", "--connect", endpoint, job_, "--out", out_, "--set",
                   "train.learning_rate=0.01", "--set", "snapshots.every_steps=5"});
  ASSERT_TRUE(manager.WaitForErr("keep the last good weights"));
  wrong.Signal(SIGKILL);
  wrong.Wait();
  Program right(handler);
  EXPECT_EQ(manager.Wait(), 1) << manager.err();
  EXPECT_THAT(manager.err(), AllOf(HasSubstr("was not finite, and is finite when the step is"),
                                   HasSubstr("a handler computes wrong results"),
                                   HasSubstr("continuing from the weights in the space"),
                                   HasSubstr("the weights are in doubt")));
  const nlohmann::json receipt = ReceiptIn(out_);
  ASSERT_TRUE(receipt.is_object());
  EXPECT_EQ(receipt["not_finite"], nullptr);
  EXPECT_EQ(receipt["conflicts"].size(), 1u);
  EXPECT_EQ(receipt["steps"], 210);
}

// The inputs are finite, but the first loss overflows.
TEST_F(Diverge, TheFirstLossOfAllPointsToTheData) {
  std::string inputs, targets;
  for (int i = 0; i < 8; ++i) {
    inputs += i == 5 ? "1e38,-1e38,1e38\n" : "1,2,3\n";
    targets += "3e38\n";
  }
  const std::string job = folder_.Write("own.toml",
                                        "[model]\nlayers = [3, 1]\nloss = \"mse\"\n"
                                        "[data]\ntrain_inputs = \"i.csv\"\n"
                                        "train_targets = \"t.csv\"\n");
  folder_.Write("i.csv", inputs);
  folder_.Write("t.csv", targets);
  const Result result = RunAcan({"train", job, "--out", out_, "--handlers", "cpu:1"});
  EXPECT_EQ(result.code, 1) << result.err;
  EXPECT_THAT(result.err, AllOf(HasSubstr("ended at step 0"), HasSubstr("check the data")));
  EXPECT_EQ(ReceiptIn(out_)["not_finite"]["kept_version"], 0);
}

}  // namespace
}  // namespace acan::testing
