// Samples in memory: files must fit the model; generated samples are the same everywhere.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <set>

#include "acan/model/presets.h"
#include "data_jobs.h"

namespace acan {
namespace {

TEST(DataSetTest, LabelsOfEveryIntegerType) {
  const TestFolder folder;
  const std::string x = folder.Write("x", "1\n2\n3\n");
  const std::vector<std::int32_t> expected = {2, 0, 1};
  const std::vector<std::string> files = {
      IdxBytes({3}, {2, 0, 1}),
      IdxBytes({3, 1}, {2, 0, 1}),
      Npy("|u1", "(3,)", std::string("\2\0\1", 3)),
      Npy("<i4", "(3,)", Raw(std::vector<std::int32_t>{2, 0, 1})),
      Npy("<i8", "(3, 1)", Raw(std::vector<std::int64_t>{2, 0, 1})),
      Npy("|i1", "(3,)", std::string("\2\0\1", 3)),
      Npy("<i2", "(3,)", Raw(std::vector<std::int16_t>{2, 0, 1})),
      Npy("<u2", "(3,)", Raw(std::vector<std::uint16_t>{2, 0, 1})),
      Npy("<u4", "(3,)", Raw(std::vector<std::uint32_t>{2, 0, 1})),
      Npy("<u8", "(3,)", Raw(std::vector<std::uint64_t>{2, 0, 1})),
      Npy("<f4", "(3,)", Raw(std::vector<float>{2, 0, 1})),
      "2\n0\n1\n",
      "label\n2.0\n0\n1\n"};
  for (const std::string& file : files) {
    const std::string y = folder.Write("y", file);
    const Job job = ClassJob(1, 3, x, y);
    const Data data = LoadData(job);
    EXPECT_EQ(Integers(*data.train, "labels"), expected);
    EXPECT_EQ(data.train->samples(), 3);
    EXPECT_EQ(data.train->inputs(), WantedInputs(job.perceptron()));
  }
}

TEST(DataSetTest, BadLabelsAreNamedWithTheirSample) {
  const TestFolder folder;
  const std::string x = folder.Write("x", "1\n2\n3\n");
  const auto refused = [&](const std::string& file, std::vector<std::string> parts) {
    const std::string y = folder.Write("y", file);
    parts.push_back(y);
    ExpectError([&] { LoadData(ClassJob(1, 3, x, y)); }, parts);
  };
  refused("2\n3\n1\n", {"label of sample 1 is 3", "3 classes", "expected 0 to 2"});
  refused("2\n1\n-1\n", {"label of sample 2 is -1"});
  refused("2\n0.5\n1\n", {"label of sample 1 is 0.5", "whole number"});
  refused(IdxBytes({3}, {0, 9, 0}), {"label of sample 1 is 9"});
  refused(Npy("<i8", "(3,)", Raw(std::vector<std::int64_t>{0, 1, std::int64_t{1} << 40})),
          {"label of sample 2 is 1099511627776"});
  refused(Npy("<u8", "(3,)", Raw(std::vector<std::uint64_t>{0, 1, ~std::uint64_t{0}})),
          {"label of sample 2 is 18446744073709551615"});
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float infinity = std::numeric_limits<float>::infinity();
  refused(Npy("<f4", "(3,)", Raw(std::vector<float>{0, nan, 1})), {"label of sample 1 is nan"});
  refused(Npy("<f4", "(3,)", Raw(std::vector<float>{infinity, 0, 1})), {"sample 0 is inf"});
  refused("0\n1\n", {"has 2 samples, but", "has 3"});
  refused("0,1\n1,2\n0,0\n", {"2 values per sample (shape [3, 2])", "one class label"});
}

TEST(DataSetTest, TargetsHaveTheModelsOutputs) {
  const TestFolder folder;
  const std::string x = folder.Write("x", "1,2\n3,4\n");
  const std::string y = folder.Write("y", "0.5,1,2\n3,4,5\n");
  const Job job = ValueJob(2, 3, x, y);
  const Data data = LoadData(job);
  EXPECT_EQ(Floats(*data.train, "targets"), (std::vector<float>{0.5f, 1, 2, 3, 4, 5}));
  EXPECT_EQ(data.train->inputs(), WantedInputs(job.perceptron()));
  ExpectError([&] { LoadData(ValueJob(2, 2, x, y)); }, {"y: has 3 values", "takes 2"});
  ExpectError([&] { LoadData(ValueJob(5, 3, x, y)); }, {"x: has 2 values", "takes 5"});
  const std::string one = folder.Write("one", Npy("<f4", "(2,)", Raw(std::vector<float>{1, 2})));
  EXPECT_EQ(Floats(*LoadData(ValueJob(2, 1, x, one)).train, "targets"), (std::vector<float>{1, 2}));
  const std::string bytes = folder.Write("bytes", IdxBytes({2, 1}, {255, 51}));
  EXPECT_EQ(Floats(*LoadData(ValueJob(2, 1, x, bytes)).train, "targets"),
            (std::vector<float>{1.0f, 51.0f / 255.0f}));
}

TEST(DataSetTest, SaysThatTargetsAreScaled) {
  const TestFolder folder;
  const std::string x = folder.Write("x", "1,2\n3,4\n");
  Job job = ValueJob(2, 1, x, folder.Write("y", IdxBytes({2, 1}, {255, 51})));
  job.data.test_inputs = x;
  job.data.test_targets = folder.Write("ty", "1\n2\n");
  EXPECT_EQ(LoadData(job).warnings,
            std::vector<std::string>{"data.train_targets: uint8 is scaled to 0..1; use int32 or "
                                     "float32 for other numbers"});
  std::swap(job.data.train_targets, job.data.test_targets);
  const std::vector<std::string> warnings = LoadData(job).warnings;
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_EQ(warnings[0].find("data.test_targets: uint8 is scaled"), 0u) << warnings[0];
}

// A line of numbers is a sample, but pandas writes such a line if its columns have no names.
TEST(DataSetTest, NumberedColumnsGiveAWarning) {
  const TestFolder folder;
  const std::string labels = folder.Write("y", "0\n1\n1\n");
  const auto warnings = [&](const std::string& first) {
    const std::string x = folder.Write("x", first + "\n0.5,0.5,0.5\n1.5,1.5,1.5\n");
    Job job = ClassJob(3, 2, x, labels);
    job.data.test_inputs = x;
    job.data.test_targets = labels;
    return LoadData(job).warnings;
  };
  const std::vector<std::string> found = warnings("0,1,2");
  ASSERT_EQ(found.size(), 1u) << "one file";
  EXPECT_EQ(found[0].find(folder.Path("x") + ", line 1: is 0,1,2, and acan takes it for a sample"),
            0u)
      << found[0];
  EXPECT_TRUE(warnings("0,2,1").empty());
  Job test = ClassJob(3, 2, folder.Path("none"), folder.Path("none"));
  test.data.test_inputs = folder.Write("x", "0,1,2\n1,2,3\n3,4,5\n");
  test.data.test_targets = labels;
  EXPECT_EQ(LoadTestData(test, nullptr).warnings, found);
}

// uint8 is scaled, and other numbers are not, so a model of one sees other values in the other.
TEST(DataSetTest, SaysThatOnlyOneFileIsScaled) {
  const TestFolder folder;
  const std::string bytes = folder.Write("bytes", IdxBytes({2, 2}, {255, 51, 0, 1}));
  const std::string floats = folder.Write("floats", "1,2\n3,4\n");
  const std::string integers =
      folder.Write("integers", Npy("<i4", "(2, 2)", Raw(std::vector<std::int32_t>{1, 2, 3, 4})));
  const std::string labels = folder.Write("y", "0\n1\n");
  const auto job = [&](const std::string& train, const std::string& test) {
    Job made = ClassJob(2, 2, train, labels);
    made.data.test_inputs = test;
    made.data.test_targets = labels;
    return made;
  };
  const auto text = [&](const std::string& other, const std::string& type) {
    return bytes + " has uint8, which is scaled to 0..1, but " + other + " has " + type +
           ", which is not scaled: use one type for both, unless the values of the second are from "
           "0 to 1";
  };
  using Texts = std::vector<std::string>;
  EXPECT_EQ(LoadData(job(bytes, floats)).warnings, Texts{text(floats, "float32")});
  EXPECT_EQ(LoadData(job(floats, bytes)).warnings, Texts{text(floats, "float32")});
  EXPECT_EQ(LoadData(job(integers, bytes)).warnings, Texts{text(integers, "int32")});
  EXPECT_EQ(LoadData(job(integers, floats)).warnings, Texts{});
  EXPECT_EQ(LoadData(job(bytes, bytes)).warnings, Texts{});
  EXPECT_EQ(LoadData(ClassJob(2, 2, bytes, labels)).warnings, Texts{});
  EXPECT_EQ(LoadTestData(job(bytes, floats), nullptr).warnings, Texts{text(floats, "float32")});
  EXPECT_EQ(LoadTestData(job(folder.Path("none"), floats), nullptr).warnings, Texts{});

  const model::Graph graph = model::Mlp({{2, 2}}, model::Mode::kEvaluation);
  Texts warnings;
  LoadInputs(job(bytes, ""), graph, {floats, "", ""}, &warnings);
  EXPECT_EQ(warnings, Texts{text(floats, "float32")});
  LoadInputs(job(bytes, ""), graph, {bytes, "", ""}, &warnings);
  LoadInputs(job(folder.Path("none"), ""), graph, {floats, "", ""}, &warnings);
  EXPECT_EQ(warnings.size(), 1u);
}

TEST(DataSetTest, TestSetIsCheckedLikeTheTrainingSet) {
  const TestFolder folder;
  Job job = ClassJob(2, 2, folder.Write("x", "1,2\n3,4\n"), folder.Write("y", "0\n1\n"));
  EXPECT_EQ(LoadData(job).test, nullptr);
  job.data.test_inputs = folder.Write("tx", "5,6\n");
  job.data.test_targets = folder.Write("ty", "1\n");
  const Data data = LoadData(job);
  EXPECT_EQ(data.test->samples(), 1);
  EXPECT_EQ(Inputs(*data.test), (std::vector<float>{5, 6}));
  EXPECT_NE(data.test->sha256(), data.train->sha256());
  folder.Write("ty", "7\n");
  ExpectError([&] { LoadData(job); }, {"ty: the label of sample 0 is 7"});
}

TEST(DataSetTest, FilesThatCannotBeReadAreNamed) {
  const TestFolder folder;
  const std::string y = folder.Write("y", "0\n1\n");
  ExpectError([&] { LoadData(ClassJob(2, 2, folder.Path("none"), y)); },
              {"/none: cannot open: No such file or directory"});
  ExpectError([&] { LoadData(ClassJob(2, 2, folder.path(), y)); }, {"expected a data file"});
}

TEST(DataSetTest, HashIsOfTheValuesNotTheFile) {
  const TestFolder folder;
  const std::string y = folder.Write("y", "0\n1\n");
  const auto hash = [&](const std::string& file) {
    return LoadData(ClassJob(2, 2, folder.Write("x", file), y)).train->sha256();
  };
  const std::string csv = hash("1,2\n3,4\n");
  EXPECT_EQ(csv.size(), 64u);
  EXPECT_EQ(csv, hash("a,b\n1.0,2e0\n3,4"));
  EXPECT_EQ(csv, hash(Npy("<f8", "(2, 2)", Raw(std::vector<double>{1, 2, 3, 4}))));
  EXPECT_NE(csv, hash("1,2\n3,4.0000005\n"));
  EXPECT_NE(csv, hash(IdxBytes({2, 2}, {1, 2, 3, 4})));
}

TEST(DataSetTest, CopyTakesAnyPartOfASample) {
  const TestFolder folder;
  const std::string x = folder.Write("x", "1,2,3,4\n5,6,7,8\n");
  const Data data = LoadData(ClassJob(4, 2, x, folder.Write("y", "0\n1\n")));
  std::vector<std::uint32_t> part(2);
  data.train->Copy({"x", 1, 0, {0, 1}, {1, 3}}, part);
  EXPECT_EQ(part, (std::vector<std::uint32_t>{std::bit_cast<std::uint32_t>(6.0f),
                                              std::bit_cast<std::uint32_t>(7.0f)}));
}

TEST(DataSetTest, SamplesHaveTheModelsRows) {
  const TestFolder folder;
  const Job job = ValueJob(1, 1, folder.Write("x", "1,2,3,4,5,6\n7,8,9,10,11,12\n"),
                           folder.Write("y", "1,2,3\n4,5,6\n"));
  const std::vector<WantedInput> inputs = {{"x", model::InputRole::kNumbers, 3, 2},
                                           {"targets", model::InputRole::kTargets, 3, 1}};
  const Data loaded = LoadData(job, inputs);
  EXPECT_EQ(Floats(*loaded.train, "x"),
            (std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}));
  std::vector<std::uint32_t> part(2);
  loaded.train->Copy({"x", 1, 0, {1, 3}, {1, 2}}, part);
  EXPECT_EQ(part, (std::vector<std::uint32_t>{std::bit_cast<std::uint32_t>(10.0f),
                                              std::bit_cast<std::uint32_t>(12.0f)}));
  loaded.train->Copy({"targets", 1, 0, {1, 3}, {0, 1}}, part);
  EXPECT_EQ(part, (std::vector<std::uint32_t>{std::bit_cast<std::uint32_t>(5.0f),
                                              std::bit_cast<std::uint32_t>(6.0f)}));
  std::vector<WantedInput> others = inputs;
  others[0].positions = 4;
  ExpectError([&] { LoadData(job, others); }, {"x: has 6 values", "takes 8"});
  others = {inputs[0], {"labels", model::InputRole::kLabels, 3, 1, 9}};
  ExpectError([&] { LoadData(job, others); }, {"\"labels\" has 3 rows", "one label each"});
}

Job Generated(std::int64_t samples, std::uint64_t seed) {
  Job job;
  job.perceptron().layers = {5, 8, 2};
  job.perceptron().loss = Loss::kMeanSquaredError;
  job.data.generated = "regression";
  job.data.generated_samples = samples;
  job.training.seed = seed;
  return job;
}

TEST(GeneratedTest, ShapesRangesAndSplit) {
  const Data data = LoadData(Generated(1000, 1));
  EXPECT_EQ(data.train->samples(), 1000);
  EXPECT_EQ(data.test->samples(), 100);
  const std::vector<float> inputs = Inputs(*data.train);
  const std::vector<float> targets = Floats(*data.train, "targets");
  EXPECT_EQ(inputs.size(), 5000u);
  EXPECT_EQ(targets.size(), 2000u);
  double sum = 0;
  double squares = 0;
  for (const float value : inputs) {
    ASSERT_GE(value, -1.0f);
    ASSERT_LT(value, 1.0f);
    sum += value;
    squares += value * value;
  }
  // Uniform: mean 0, variance 1/3; with 5000 draws their standard errors are 0.008 and 0.004.
  EXPECT_NEAR(sum / 5000, 0.0, 0.05);
  EXPECT_NEAR(squares / 5000, 1.0 / 3, 0.03);
  std::set<float> distinct;
  for (const float value : targets) {
    ASSERT_TRUE(std::isfinite(value));
    distinct.insert(value);
  }
  EXPECT_GT(distinct.size(), 1900u);
  EXPECT_EQ(LoadData(Generated(3, 1)).test->samples(), 1);
}

TEST(GeneratedTest, SameBitsForTheSameSeed) {
  const Data data = LoadData(Generated(100, 7));
  EXPECT_EQ(data.train->sha256(), LoadData(Generated(100, 7)).train->sha256());
  EXPECT_NE(data.train->sha256(), LoadData(Generated(100, 8)).train->sha256());
  EXPECT_NE(data.train->sha256(), data.test->sha256());
  // Samples are one sequence: a longer one begins with the same samples, and the test set follows.
  const Data longer = LoadData(Generated(105, 7));
  const std::vector<float> first = Inputs(*data.train), more = Inputs(*longer.train);
  EXPECT_TRUE(std::equal(first.begin(), first.end(), more.begin()));
  EXPECT_EQ(more[500], Inputs(*data.test)[0]);
  // Must never change on any machine or compiler: jobs and receipts depend on it.
  EXPECT_EQ(data.train->sha256(),
            "8cff6c43ba805b736e2eaacdf9fe73ce1800b0dc77872bcc152afed791490fb4");
}

TEST(GeneratedTest, TooManySamplesAreRefused) {
  Job job = Generated(kMaxSamples, 1);
  job.perceptron().layers = {kMaxLayerSize, 2};
  ExpectError([&] { LoadData(job); }, {"data.samples = 2147483648", "at most 1023 fit"});
}

}  // namespace
}  // namespace acan
