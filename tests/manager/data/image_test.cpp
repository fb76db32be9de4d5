// Images: layouts, normalisation, crops and flips, and each mistake.
#include <gtest/gtest.h>

#include "float_mode.h"
#include "graph_jobs.h"

namespace acan {
namespace {

using Values = std::vector<float>;

constexpr const char* kImageFiles = "train_inputs = \"x\"\ntrain_labels = \"y\"\n";

class ImageTest : public testing::Test {
 protected:
  ImageTest() { folder_.Write("y", "0\n1\n"); }
  // Two images of 2 x 3 pixels and 4 channels, unless `wanted` says otherwise.
  Data Load(const std::string& file, const std::string& more = "",
            const std::vector<WantedInput>& wanted = ImageInputs(2, 3, 4, 2)) const {
    folder_.Write("x", file);
    return LoadFrom(folder_, kImageFiles + more, wanted, /*seed=*/9);
  }
  void Refused(const std::string& file, const std::vector<std::string>& parts,
               const std::string& more = "",
               const std::vector<WantedInput>& wanted = ImageInputs(2, 3, 4, 2)) const {
    ExpectError([&] { Load(file, more, wanted); }, parts);
  }

  TestFolder folder_;
};

// Pixel p of channel c of sample s has the value 100 s + 10 c + p.
std::string ChannelsFirst() {
  std::vector<std::uint8_t> bytes;
  for (int s = 0; s < 2; ++s) {
    for (int c = 0; c < 4; ++c) {
      for (int p = 0; p < 6; ++p) bytes.push_back(static_cast<std::uint8_t>(100 * s + 10 * c + p));
    }
  }
  return Npy("|u1", "(2, 4, 2, 3)", Raw(bytes));
}
std::string ChannelsLast() {
  Values values;
  for (int s = 0; s < 2; ++s) {
    for (int p = 0; p < 6; ++p) {
      for (int c = 0; c < 4; ++c) values.push_back(static_cast<float>(100 * s + 10 * c + p));
    }
  }
  return Npy("<f4", "(2, 2, 3, 4)", Raw(values));
}
Values Expected(float scale) {
  Values values;
  for (int s = 0; s < 2; ++s) {
    for (int p = 0; p < 6; ++p) {
      for (int c = 0; c < 4; ++c)
        values.push_back(static_cast<float>(100 * s + 10 * c + p) / scale);
    }
  }
  return values;
}

TEST_F(ImageTest, LayoutsByWhatFits) {
  const auto first = Load(ChannelsFirst()).train;
  EXPECT_EQ(first->samples(), 2);
  EXPECT_EQ(Floats(*first, "images"), Expected(255.0f));
  EXPECT_EQ(Integers(*first, "labels"), (std::vector<std::int32_t>{0, 1}));
  const auto last = Load(ChannelsLast()).train;
  EXPECT_EQ(Floats(*last, "images"), Expected(1.0f));
  // Pixels 4 and 5, channel 1, of sample 1.
  std::vector<std::uint32_t> part(2);
  last->Copy({"images", 1, 0, {4, 6}, {1, 2}}, part);
  EXPECT_EQ(std::bit_cast<float>(part[0]), 114.0f);
  EXPECT_EQ(std::bit_cast<float>(part[1]), 115.0f);
}

TEST_F(ImageTest, SaysThatOnlyOneFileIsScaled) {
  folder_.Write("t", ChannelsLast());
  const std::string test = "test_inputs = \"t\"\ntest_labels = \"y\"\n";
  const std::vector<std::string> warnings = Load(ChannelsFirst(), test).warnings;
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_NE(warnings[0].find("/x has uint8, which is scaled to 0..1, but "), std::string::npos);
  EXPECT_NE(warnings[0].find("/t has float32, which is not scaled"), std::string::npos);
  EXPECT_TRUE(Load(ChannelsLast(), test).warnings.empty());
}

TEST_F(ImageTest, SaysThatAMeanIsThatOfBytes) {
  const std::string means = "mean = [0.5, 116.8, 0.5, 0.5]";
  const std::vector<std::string> warnings = Load(ChannelsFirst(), means).warnings;
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_NE(warnings[0].find("data.mean has 116.8, but "), std::string::npos) << warnings[0];
  EXPECT_NE(warnings[0].find("/x has uint8, which is scaled to 0..1 before"), std::string::npos);
  EXPECT_TRUE(Load(ChannelsLast(), means).warnings.empty());
  EXPECT_TRUE(Load(ChannelsFirst(), "mean = [0.5, 1, 0, -2]").warnings.empty());
}

TEST_F(ImageTest, IdxHasOneChannel) {
  const std::vector<std::uint8_t> bytes = {0, 51, 102, 153, 204, 255, 5, 4, 3, 2, 1, 0};
  Values expected;
  for (const std::uint8_t byte : bytes) expected.push_back(static_cast<float>(byte) / 255.0f);
  const std::string idx = IdxBytes({2, 2, 3}, bytes);
  const auto plain = Load(idx, "", ImageInputs(2, 3, 1, 2)).train;
  EXPECT_EQ(Floats(*plain, "images"), expected);
  const auto packed = Load(Gzip(idx), "", ImageInputs(2, 3, 1, 2)).train;
  EXPECT_EQ(Floats(*packed, "images"), expected);
  EXPECT_EQ(plain->sha256(), packed->sha256());
}

// A job must choose the layout if a file's shape fits both.
TEST_F(ImageTest, TheLayoutCanBeChosen) {
  std::vector<std::uint8_t> bytes(16);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::uint8_t>(i);
  const std::string file = Npy("|u1", "(2, 2, 2, 2)", Raw(bytes));
  const std::vector<WantedInput> wanted = ImageInputs(2, 2, 2, 2);
  Refused(file, {"fits both layouts", "data.layout"}, "", wanted);
  const auto last = Load(file, "layout = \"HWC\"", wanted).train;
  EXPECT_EQ(Floats(*last, "images")[1], 1.0f / 255.0f);
  const auto first = Load(file, "layout = \"CHW\"", wanted).train;
  EXPECT_EQ(Floats(*first, "images")[1], 4.0f / 255.0f);
  EXPECT_NE(last->sha256(), first->sha256());
}

// Like torchvision: (value / 255 - mean) / deviation in fp32.
TEST_F(ImageTest, ChannelsAreNormalised) {
  const auto set =
      Load(ChannelsFirst(), "mean = [0.4914, 0.25, 0, 0]\nstd = [0.247, 0.5, 1, 2]").train;
  const Values scaled = Expected(255.0f);
  Values expected;
  for (std::size_t i = 0; i < scaled.size(); ++i) {
    constexpr float kMean[] = {0.4914f, 0.25f, 0.0f, 0.0f};
    constexpr float kDeviation[] = {0.247f, 0.5f, 1.0f, 2.0f};
    expected.push_back((scaled[i] - kMean[i % 4]) / kDeviation[i % 4]);
  }
  EXPECT_EQ(Floats(*set, "images"), expected);
  EXPECT_NE(set->sha256(), Load(ChannelsFirst()).train->sha256());
}

// As a library can leave the thread that puts samples.
TEST_F(ImageTest, DenormalNumbersStayInAThreadThatFlushesThem) {
  Values values(48, 1e-40f);
  values[1] = 1.5e-38f;  // normal, but not its half
  const std::string file = Npy("<f4", "(2, 2, 3, 4)", Raw(values));
  const std::string halved = "std = [2, 2, 2, 2]";
  const std::vector<std::uint32_t> expected = Words(*Load(file, halved).train, "images");
  EXPECT_EQ(expected[0], std::bit_cast<std::uint32_t>(1e-40f / 2));
  EXPECT_EQ(expected[1], std::bit_cast<std::uint32_t>(1.5e-38f / 2));
  std::vector<std::uint32_t> words;
  {
    const test::FlushToZero flush;
    words = Words(*Load(file, halved).train, "images");
  }
  EXPECT_EQ(words, expected);
}

// draws.py computes these views for the seed 9.
TEST_F(ImageTest, CropsAndFlipsAreDrawn) {
  std::vector<std::uint8_t> bytes(4 * 6);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::uint8_t>(i + 1);
  folder_.Write("y", "0\n1\n0\n1\n");
  const std::string file = IdxBytes({4, 2, 3}, bytes);
  const std::vector<WantedInput> wanted = ImageInputs(2, 3, 1, 2);
  const Data data = Load(file,
                         "test_inputs = \"x\"\ntest_labels = \"y\"\ncrop_padding = 1\nflip = true\n"
                         "mean = [0.5]\n",
                         wanted);
  struct View {
    int top, left, flipped;
  };
  constexpr View kViews[2][4] = {{{-1, 1, 0}, {1, 1, 1}, {0, 0, 1}, {-1, 1, 1}},
                                 {{0, 1, 1}, {0, 0, 1}, {-1, 0, 1}, {1, -1, 0}}};
  for (int epoch = 0; epoch < 2; ++epoch) {
    Values expected;
    for (int s = 0; s < 4; ++s) {
      const View& view = kViews[epoch][s];
      for (int y = 0; y < 2; ++y) {
        for (int x = 0; x < 3; ++x) {
          const int row = y + view.top;
          const int column = (view.flipped != 0 ? 2 - x : x) + view.left;
          const bool inside = row >= 0 && row < 2 && column >= 0 && column < 3;
          const int byte = inside ? 6 * s + 3 * row + column + 1 : 0;
          expected.push_back(static_cast<float>(byte) / 255.0f - 0.5f);
        }
      }
    }
    EXPECT_EQ(Floats(*data.train, "images", epoch), expected) << "epoch " << epoch;
    const Values plain = Floats(*data.test, "images", epoch);
    EXPECT_EQ(plain[0], 1 / 255.0f - 0.5f);
    EXPECT_EQ(plain[23], 24 / 255.0f - 0.5f);
  }
  EXPECT_NE(data.train->sha256(), data.test->sha256());
}

TEST_F(ImageTest, MistakesAreNamed) {
  Refused(Npy("|u1", "(2, 3, 2, 3)", std::string(36, 'a')),
          {"x: has shape [2, 3, 2, 3]", "2 x 3 pixels and 4 channels"});
  // The same number of pixels in another shape.
  Refused(Npy("|u1", "(2, 4, 3, 2)", std::string(48, '\0')), {"[2, 4, 3, 2]", "2 x 3 pixels"});
  Refused(ChannelsFirst(), {"(layout HWC)", "2 x 3 pixels"}, "layout = \"HWC\"");
  Refused(Npy("<i4", "(2, 4, 2, 3)", std::string(192, '\0')),
          {"its values are int32, but", "uint8 or float32"});
  Refused(Npy("|b1", "(2, 4, 2, 3)", std::string(48, '\1')),
          {"its values are int8 or bool, but", "uint8 or float32"});
  std::string floats = ChannelsLast();
  const float nan = NAN;
  floats.replace(floats.size() - 4, 4, reinterpret_cast<const char*>(&nan), 4);
  Refused(floats, {"x: sample 1, value 23 is nan", "finite"});
  Refused(ChannelsFirst(), {"data.mean has 3 values", "4 channels"}, "mean = [0, 0, 0]");
  Refused(ChannelsFirst(), {"data.std has 1 values"}, "std = [1]");
  folder_.Write("y", "0\n2\n");
  Refused(ChannelsFirst(), {"y: the label of sample 1 is 2", "2 classes"});
  folder_.Write("y", "0\n");
  Refused(ChannelsFirst(), {"y: has 1 samples, but", "x has 2"});
  folder_.Write("y", "0,1\n1,1\n");
  Refused(ChannelsFirst(), {"y: has shape [2, 2]", "one class label per sample"});
  folder_.Write("y", "0\n1\n");
  const std::string whole = ChannelsFirst();
  Refused(whole.substr(0, whole.size() - 1), {"truncated", "(48 bytes", "has 47"});
  Refused("1,2\n3,4\n", {"data.flip is for models of images"}, "flip = true",
          {{"x", model::InputRole::kNumbers, 1, 2}, {"labels", model::InputRole::kLabels}});
}

// The first window declares the size, also if other operators come before it.
TEST_F(ImageTest, AnotherShapeIsRefusedBeforeAnyOperatorOfPixels) {
  const model::Window window{{2, 3}, {1, 1}, {1, 1}, {0, 0}};
  const auto wanted = [&window](bool moves_rows) {
    model::Graph graph;
    const auto images = graph.AddInput("images", model::InputRole::kNumbers, 6, 4);
    auto pixels = graph.Add("pre", model::Scale{1.0f}, {images});
    pixels = graph.Add("sum", model::Add{}, {images, pixels});
    if (moves_rows) {
      pixels = graph.Add("part", model::Slice{model::SliceAxis::kPositions, 0, 3}, {pixels});
      pixels = graph.Add("twice", model::Concat{model::SliceAxis::kPositions}, {pixels, pixels});
    }
    graph.AddOutput(
        "y", graph.Add("pool", model::Pooling{model::PoolingKind::kAverage, window}, {pixels}));
    graph.AddInput("labels", model::InputRole::kLabels, 1, 1, 2);
    return WantedInputs(graph);
  };
  EXPECT_EQ(Load(ChannelsFirst(), "", wanted(false)).train->samples(), 2);
  const std::string turned = Npy("|u1", "(2, 4, 3, 2)", std::string(48, '\0'));
  Refused(turned, {"[2, 4, 3, 2]", "2 x 3 pixels"}, "", wanted(false));
  EXPECT_EQ(Load(turned, "", wanted(true)).train->samples(), 2);
}

TEST_F(ImageTest, ImagesAreNumbers) {
  std::vector<WantedInput> wanted = ImageInputs(2, 3, 4, 2);
  for (WantedInput& input : wanted) {
    if (input.name == "images") input.role = model::InputRole::kTokens;
  }
  Refused(ChannelsFirst(), {"\"images\" of the model has the role \"tokens\"", "\"numbers\""}, "",
          wanted);
}

// Loads a job with a graph file for images or for rows of numbers, and this order of the loss.
Data LoadByGraph(const TestFolder& folder, const std::string& inputs, const std::string& order,
                 const std::string& data) {
  const std::string rows = inputs == "images" ? "6" : "1";
  folder.Write("net.json", R"({"format": "acan-graph-1",
    "inputs": [{"name": ")" + inputs +
                               R"(", "role": "numbers", "features": 4, "rows": )" + rows +
                               R"(}, {"name": "labels", "role": "labels", "bound": 2}],
    "parameters": [{"name": "w", "role": "matrix", "rows": 2, "columns": 4,
                    "initial": {"constant": 0}}],
    "nodes": [{"name": "pool", "operator": "global_pooling", "inputs": [")" +
                               inputs + R"("]},
              {"name": "head", "operator": "linear", "inputs": ["pool", "w"]},
              {"name": "loss", "operator": "cross_entropy", "inputs": ["head", "labels"],
               "attributes": {"order": ")" +
                               order + R"("}}],
    "outputs": {}, "loss": "loss"})");
  return LoadData(ParseJob("[model]\nkind = \"graph\"\nfile = \"net.json\"\n[data]\n" + data, "job",
                           folder.path(), {}));
}

// The order "leaves" has a loss for every row.
TEST_F(ImageTest, LossesByLeavesNeedAClassForEachImage) {
  folder_.Write("x", ChannelsFirst());
  const auto load = [this](const std::string& order, const std::string& more = "") {
    return LoadByGraph(folder_, "images", order, kImageFiles + more).train;
  };
  EXPECT_EQ(load("leaves")->sha256(), load("lanes")->sha256());
  folder_.Write("y", "0\n-100\n");
  EXPECT_EQ(Integers(*load("lanes"), "labels"), (std::vector<std::int32_t>{0, -100}));
  ExpectError([&] { load("leaves"); },
              {"y: the label of sample 1 is -100", "2 classes and ignores no label",
               "expected 0 to 1", "the order \"lanes\" ignores one"});
  folder_.Write("y", "0\n7\n");
  EXPECT_EQ(Integers(*load("lanes", "ignore_label = 7"), "labels"),
            (std::vector<std::int32_t>{0, -100}));
  ExpectError([&] { load("leaves", "ignore_label = 7"); },
              {"data.ignore_label = 7: the loss of this job's model ignores no label"});
}

TEST_F(ImageTest, RowsOfNumbersIgnoreNoLabel) {
  folder_.Write("x", "1,2,3,4\n5,6,7,8\n");
  EXPECT_EQ(LoadByGraph(folder_, "x", "lanes", kImageFiles).train->samples(), 2);
  ExpectError(
      [&] { LoadByGraph(folder_, "x", "lanes", kImageFiles + std::string("ignore_label = 1")); },
      {"data.ignore_label = 1: rows of numbers need a class for each sample"});
}

// Further rows would be labels of the following images.
TEST_F(ImageTest, AModelOfImagesHasOneLabelEach) {
  std::vector<WantedInput> wanted = ImageInputs(2, 3, 4, 2);
  for (WantedInput& input : wanted) {
    if (input.name == "labels") input.positions = 6;
  }
  Refused(ChannelsFirst(), {"\"labels\" has 6 rows", "images have one label each", "one row"}, "",
          wanted);
}

}  // namespace
}  // namespace acan
