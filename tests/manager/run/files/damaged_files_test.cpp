// Random damage to good files: each one loads, or is refused with an Error.
#include <gtest/gtest.h>

#include <random>

#include "acan/manager/model_file.h"
#include "acan/manager/receipt.h"
#include "data/data_jobs.h"

namespace acan {
namespace {

std::string Damaged(std::string bytes, std::mt19937& random) {
  const auto below = [&](std::size_t bound) { return random() % bound; };
  switch (below(4)) {
    case 0:
      bytes.resize(below(bytes.size() + 1));
      break;
    case 1:
      for (std::size_t i = 1 + below(4); i > 0; --i) {
        bytes[below(bytes.size())] ^= static_cast<char>(1 << below(8));
      }
      break;
    case 2:
      bytes.insert(below(bytes.size() + 1), std::string(1 + below(9), static_cast<char>(random())));
      break;
    default:
      bytes.erase(below(bytes.size()), 1 + below(9));
      break;
  }
  return bytes;
}

// Tries to load `rounds` damaged versions of `good`.
void Damage(const std::string& good, int rounds,
            const std::function<void(const std::string& path)>& load) {
  const TestFolder folder;
  std::mt19937 random(12345);
  int refused = 0;
  for (int round = 0; round < rounds; ++round) {
    const std::string path = folder.Write("file", Damaged(good, random));
    try {
      load(path);
    } catch (const Error& error) {
      ++refused;
      EXPECT_NE(std::string(error.what()).find(path), std::string::npos) << error.what();
    }
  }
  EXPECT_GT(refused, rounds / 10);
}

constexpr int kRounds = 1500;

TEST(DamagedFilesTest, DataFiles) {
  const TestFolder folder;
  const std::string labels = folder.Write("labels", "0\n1\n0\n1\n");
  std::vector<std::uint8_t> bytes(24);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::uint8_t>(i * 11);
  const std::string idx = IdxBytes({4, 2, 3}, bytes);
  const std::string npy = Npy("<f4", "(4, 6)", Raw(std::vector<float>(24, 0.5f)));
  const std::string csv = "a,b,c,d,e,f\n1,2,3,4,5,6\n0.5,1e3,-2,4,5,6\n1,2,3,4,5,6\n7,8,9,1,2,3\n";
  for (const std::string& good : {idx, npy, csv, Gzip(idx), Gzip(npy), Gzip(csv)}) {
    Damage(good, kRounds, [&](const std::string& path) {
      const auto set = LoadData(ClassJob(6, 2, path, labels)).train;
      EXPECT_EQ(set->samples(), 4);
      EXPECT_EQ(Inputs(*set).size(), 24u);
    });
  }
}

TEST(DamagedFilesTest, ModelFiles) {
  const TestFolder folder;
  const auto model = BuildModel(Perceptron{{3, 4, 2}});
  const std::string path = folder.Path("good");
  ModelWriter writer(path, *model);
  const std::vector<TensorInfo> tensors = ModelTensors(*model);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const std::int64_t count = tensors[i].rows * tensors[i].cols;
    writer.Write(i, 0, 0, tensors[i].rows, tensors[i].cols,
                 std::vector<float>(static_cast<std::size_t>(count), 0.5f));
  }
  writer.Finish();
  Damage(ReadWhole(path), kRounds, [&](const std::string& damaged) {
    const ModelReader reader(damaged, *model);
    EXPECT_EQ(reader.WeightsSha256().size(), 64u);
    EXPECT_EQ(reader.Tensors().size(), 4u);
  });
}

TEST(DamagedFilesTest, JobsAndReceipts) {
  const std::string toml =
      "[model]\nlayers = [4, 8, 3]\nactivation = \"tanh\"\n[data]\ntrain_inputs = \"x\"\n"
      "train_labels = \"y\"\nshuffle = true\n[train]\nbatch = 16\nlearning_rate = 0.1\n"
      "optimizer = \"adamw\"\nbeta1 = 0.9\n[tasks]\nsize_bytes = \"64KiB\"\npouch = 4\n";
  Damage(toml, kRounds, [](const std::string& path) {
    const Job job = LoadJob(path, {});
    EXPECT_EQ(JobToJson(ParseJob(JobToToml(job), "again", "/", {})), JobToJson(job));
  });
  Receipt receipt;
  receipt.job = JobToJson(ParseJob(toml, "job.toml", "/jobs", {}));
  receipt.train_sha256 = receipt.weights_sha256 = std::string(64, 'a');
  receipt.handlers = {{"one", "cpu:1", 1, 1, 1}};
  Damage(ReceiptToJson(receipt).dump(1), kRounds,
         [](const std::string& path) { ReadReceipt(path); });
}

}  // namespace
}  // namespace acan
