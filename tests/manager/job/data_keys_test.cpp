// [data] for text, tokens and images: reading, writing, and each mistake.
#include <gtest/gtest.h>

#include "acan/core/text/json_text.h"
#include "acan/manager/job.h"
#include "nlohmann/json.hpp"
#include "test_files.h"

namespace acan {
namespace {

Job ParseData(const std::string& data) {
  return ParseJob("[model]\nlayers = [4, 2]\n[data]\n" + data, "job.toml", "/folder", {});
}

void ExpectDataRefused(const std::string& data, const std::vector<std::string>& parts) {
  ExpectError([&] { ParseData(data); }, parts);
}

// Writes and reads the job again, as TOML and as a receipt's JSON.
void ExpectComesBack(const Job& job) {
  const std::string text = JsonText(JobToJson(job));
  EXPECT_EQ(JsonText(JobToJson(ParseJob(JobToToml(job), "again", "", {}))), text);
  EXPECT_EQ(JsonText(JobToJson(JobFromJson(ParseJson(text), "receipt"))), text);
}

TEST(DataKeysTest, Text) {
  const Job one = ParseData("text = \"input.txt\"\n");
  EXPECT_EQ(one.data.text.text, "/folder/input.txt");
  EXPECT_EQ(one.data.text.test_fraction, 0.1);
  EXPECT_EQ(one.data.text.tokenizer, "characters");
  ExpectComesBack(one);
  const Job two =
      ParseData("train_text = \"a\"\ntest_text = \"/b\"\ntokenizer = \"llama.model\"\n");
  EXPECT_EQ(two.data.text.train_text, "/folder/a");
  EXPECT_EQ(two.data.text.test_text, "/b");
  EXPECT_EQ(two.data.text.tokenizer, "/folder/llama.model");
  ExpectComesBack(two);
  const auto json = JobToJson(two)["data"];
  EXPECT_EQ(json, (nlohmann::json{{"shuffle", true},
                                  {"train_text", "/folder/a"},
                                  {"test_text", "/b"},
                                  {"tokenizer", "/folder/llama.model"}}));
}

TEST(DataKeysTest, Tokens) {
  const Job stream = ParseData("train_tokens = \"train.bin\"\ntokens_type = \"uint16\"\n");
  EXPECT_EQ(stream.data.tokens.train, "/folder/train.bin");
  EXPECT_EQ(stream.data.tokens.type, "uint16");
  ExpectComesBack(stream);
  const Job labelled = ParseData(
      "train_tokens = \"t.npy\"\ntrain_labels = \"l.npy\"\ntrain_lengths = \"n.npy\"\n"
      "train_token_types = \"k.npy\"\ntest_tokens = \"t2.npy\"\ntest_labels = \"l2.npy\"\n"
      "test_lengths = \"n2.npy\"\ntest_token_types = \"k2.npy\"\nshuffle = false\n");
  EXPECT_EQ(labelled.data.train_targets, "/folder/l.npy");
  EXPECT_EQ(labelled.data.tokens.test_types, "/folder/k2.npy");
  EXPECT_FALSE(labelled.training.shuffle);
  ExpectComesBack(labelled);
}

TEST(DataKeysTest, WhatStandsForNoLabel) {
  const std::string labelled = "train_tokens = \"t\"\ntrain_labels = \"l\"\nignore_label = -1\n";
  const Job job =
      ParseJob("[model]\nkind = \"bert\"\ntask = \"masked_language\"\n[data]\n" + labelled,
               "job.toml", "/folder", {});
  EXPECT_EQ(job.data.ignore_label, -1);
  ExpectComesBack(job);
  ExpectDataRefused(labelled, {"data.ignore_label = -1", "need a class for each sample"});
  ExpectDataRefused("train_tokens = \"t\"\nignore_label = 0\n", {"data.train_labels is missing"});
  ExpectDataRefused("text = \"t\"\nignore_label = 0\n", {"data.text does not use it"});
}

constexpr const char* kImages = "train_inputs = \"x\"\ntrain_labels = \"y\"\n";

TEST(DataKeysTest, Images) {
  const Job job = ParseData(std::string(kImages) +
                            "layout = \"HWC\"\nmean = [0.5, 1, 0.1]\nstd = [0.25, 2, 1e-3]\n"
                            "crop_padding = 4\nflip = true\n");
  EXPECT_EQ(job.data.images.layout, "HWC");
  EXPECT_EQ(job.data.images.mean, (std::vector<double>{0.5, 1, 0.1}));
  EXPECT_EQ(job.data.images.deviation, (std::vector<double>{0.25, 2, 1e-3}));
  EXPECT_EQ(job.data.images.crop_padding, 4);
  EXPECT_TRUE(job.data.images.flip);
  ExpectComesBack(job);
  // Jobs without these keys are written as before, because their ids depend on it.
  EXPECT_EQ(JobToJson(ParseData(kImages))["data"],
            (nlohmann::json{
                {"shuffle", true}, {"train_inputs", "/folder/x"}, {"train_labels", "/folder/y"}}));
}

TEST(DataKeysTest, OneKindOfData) {
  ExpectDataRefused("text = \"a\"\ntrain_text = \"b\"\n",
                    {"data.train_text", "line 5", "data.text"});
  ExpectDataRefused("text = \"a\"\ntrain_inputs = \"b\"\n",
                    {"data.train_inputs", "one kind of data, but data.text is also set"});
  ExpectDataRefused("train_tokens = \"a\"\ntest_text = \"b\"\n",
                    {"data.test_text", "data.train_tokens does not use it", "for data.train_text"});
  ExpectDataRefused("train_text = \"a\"\ntest_fraction = 0.1\n", {"it is for data.text"});
  ExpectDataRefused("text = \"a\"\ntrain_labels = \"b\"\n",
                    {"it is for data.train_tokens or data.train_inputs"});
  ExpectDataRefused(std::string(kImages) + "train_lengths = \"b\"\n",
                    {"it is for data.train_tokens"});
  ExpectDataRefused("text = \"a\"\nflip = true\n", {"data.flip", "it is for data.train_inputs"});
}

TEST(DataKeysTest, MistakesAreNamed) {
  ExpectDataRefused(
      "text = \"a\"\ntokenizer = \"chars\"\n",
      {"data.tokenizer = \"chars\"", "line 5", "\"characters\", \"bytes\"", ".model"});
  ExpectDataRefused("text = \"a\"\ntest_fraction = 1\n", {"data.test_fraction", "from 0 to 0.999"});
  ExpectDataRefused("text = \"a\"\ntest_fraction = nan\n", {"data.test_fraction", "finite"});
  ExpectDataRefused("train_tokens = \"a\"\ntokens_type = \"uint8\"\n",
                    {"data.tokens_type", "uint16, uint32"});
  ExpectDataRefused("train_tokens = \"a\"\ntrain_lengths = \"b\"\n",
                    {"data.train_lengths", "data.train_labels is missing"});
  const std::string labelled = "train_tokens = \"a\"\ntrain_labels = \"b\"\n";
  ExpectDataRefused(labelled + "tokens_type = \"uint16\"\n", {"data.tokens_type", "are NPY"});
  ExpectDataRefused(labelled + "test_labels = \"b\"\n", {"data.test_tokens is missing"});
  ExpectDataRefused(labelled + "test_tokens = \"b\"\n", {"data.test_labels is missing"});
  ExpectDataRefused(labelled + "test_tokens = \"b\"\ntest_labels = \"b\"\ntest_lengths = \"b\"\n",
                    {"data.test_lengths", "data.train_lengths is missing"});
  const std::string images = kImages;
  ExpectDataRefused(images + "layout = \"NHWC\"\n", {"data.layout", "CHW, HWC"});
  ExpectDataRefused(images + "mean = []\n", {"data.mean", "from 1 to 16384 entries, found 0"});
  ExpectDataRefused(images + "mean = 0.5\n", {"data.mean", "an array of numbers"});
  ExpectDataRefused(images + "mean = [1, \"x\"]\n", {"data.mean", "entry 1 is the string"});
  ExpectDataRefused(images + "mean = [inf]\n", {"data.mean", "entry 0"});
  ExpectDataRefused(images + "std = [0.5, 0]\n", {"data.std", "entry 1 is the integer 0"});
  ExpectDataRefused(images + "crop_padding = -1\n", {"data.crop_padding", "from 0 to 1024"});
  ExpectDataRefused(images + "flip = 1\n", {"data.flip", "true or false"});
}

}  // namespace
}  // namespace acan
