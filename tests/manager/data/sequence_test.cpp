// Labelled sequences: the inputs of a text encoder, and each mistake.
#include <gtest/gtest.h>

#include <algorithm>

#include "graph_jobs.h"

namespace acan {
namespace {

using Tokens = std::vector<std::int32_t>;
using model::BertTask;

constexpr const char* kTokenFiles = "train_tokens = \"tokens\"\ntrain_labels = \"labels\"\n";

class SequenceTest : public testing::Test {
 protected:
  SequenceTest() {
    folder_.Write("tokens",
                  Npy("<u2", "(2, 3)", Raw(std::vector<std::uint16_t>{1, 2, 3, 4, 5, 6})));
    folder_.Write("labels", Npy("<i8", "(2,)", Raw(std::vector<std::int64_t>{1, 0})));
  }
  Data Load(const std::string& more = "", BertTask task = BertTask::kClassification) const {
    return LoadFrom(folder_, kTokenFiles + more, BertInputs(task, 3, 8, 2));
  }
  void Refused(const std::vector<std::string>& parts, const std::string& more = "",
               BertTask task = BertTask::kClassification) const {
    ExpectError([&] { Load(more, task); }, parts);
  }

  // A causal model of sequences of 3 tokens.
  Job GptJob(const std::string& data, const std::string& kind = "gpt") const {
    const std::string sizes =
        kind == "gpt" ? "n_layer = 1\nn_head = 1\nn_embd = 4\nblock_size = 3\n"
                      : "num_hidden_layers = 1\nnum_attention_heads = 1\nhidden_size = 4\n"
                        "intermediate_size = 4\nmax_position_embeddings = 3\n";
    return ParseJob(
        "[model]\nkind = \"" + kind + "\"\nvocab_size = 8\n" + sizes + "[data]\n" + data, "job",
        folder_.path(), {});
  }

  TestFolder folder_;
};

TEST_F(SequenceTest, OneLabelEach) {
  const auto set = Load().train;
  EXPECT_EQ(set->samples(), 2);
  EXPECT_EQ(Integers(*set, "tokens"), (Tokens{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(Integers(*set, "labels"), (Tokens{1, 0}));
  // Inputs that no file provides.
  EXPECT_EQ(Integers(*set, "lengths"), (Tokens{3, 3}));
  EXPECT_EQ(Integers(*set, "token_type_ids"), Tokens(6, 0));
  std::vector<std::uint32_t> part(2);
  set->Copy({"tokens", 1, 4, {1, 3}, {0, 1}}, part);
  EXPECT_EQ(part, (std::vector<std::uint32_t>{5, 6}));
}

TEST_F(SequenceTest, LengthsTypesAndATestSet) {
  folder_.Write("lengths", "2\n3\n");
  folder_.Write("types", Npy("<i4", "(2, 3)", Raw(std::vector<std::int32_t>{0, 1, 1, 0, 0, 1})));
  folder_.Write("few", Npy("|u1", "(1, 3)", "\1\2\7"));
  folder_.Write("one", Npy("|u1", "(1,)", "\1"));
  const std::string before = Load().train->sha256();
  const Data data = Load(
      "train_lengths = \"lengths\"\ntrain_token_types = \"types\"\ntest_tokens = \"few\"\n"
      "test_labels = \"one\"\ntest_lengths = \"one\"\ntest_token_types = \"few2\"\n" +
      std::string((folder_.Write("few2", Npy("|u1", "(1, 3)", std::string("\1\0\1", 3))), "")));
  EXPECT_EQ(Integers(*data.train, "lengths"), (Tokens{2, 3}));
  EXPECT_EQ(Integers(*data.train, "token_type_ids"), (Tokens{0, 1, 1, 0, 0, 1}));
  EXPECT_NE(data.train->sha256(), before);
  EXPECT_EQ(data.test->samples(), 1);
  EXPECT_EQ(Integers(*data.test, "tokens"), (Tokens{1, 2, 7}));
  EXPECT_EQ(Integers(*data.test, "lengths"), (Tokens{1}));
}

TEST_F(SequenceTest, LengthsAreNeededIfNoSampleMayBeWhole) {
  std::vector<WantedInput> wanted = BertInputs(BertTask::kClassification, 3, 8, 2);
  std::ranges::find(wanted, "lengths", &WantedInput::name)->bound = 2;
  const std::string with = std::string(kTokenFiles) + "train_lengths = \"lengths\"\n";
  ExpectError([&] { LoadFrom(folder_, kTokenFiles, wanted); },
              {"tokens: its samples have 3 positions", "lengths up to 2", "name a file"});
  folder_.Write("lengths", "2\n3\n");
  ExpectError([&] { LoadFrom(folder_, with, wanted); },
              {"lengths: the length of sample 1 is 3", "the model takes lengths up to 2"});
  folder_.Write("lengths", "2\n1\n");
  EXPECT_EQ(Integers(*LoadFrom(folder_, with, wanted).train, "lengths"), (Tokens{2, 1}));
}

// Of such labels, each token is a class.
TEST_F(SequenceTest, LabelsThatAreTokensAreAllClasses) {
  std::vector<WantedInput> wanted = BertInputs(BertTask::kMaskedLanguage, 3, 8, 2);
  WantedInput& labels = *std::ranges::find(wanted, "labels", &WantedInput::name);
  labels.role = model::InputRole::kTokens;
  labels.ignored_label.reset();
  folder_.Write("labels", Npy("<i8", "(2, 3)", Raw(std::vector<std::int64_t>{0, 1, 2, 3, 4, 8})));
  ExpectError([&] { LoadFrom(folder_, kTokenFiles, wanted); },
              {"labels: the label of sample 1, position 2 is 8", "the model has 8 tokens"});
}

TEST_F(SequenceTest, WholeNumbersThatFloatsCannotTellApartAreRefused) {
  folder_.Write("labels", "0\n16777217\n");
  Refused({"labels: sample 1, value 0 is 16777216", "below 16777216", "floats of 32 bits"});
}

TEST_F(SequenceTest, ALabelForEachTokenOrNone) {
  folder_.Write("labels",
                Npy("<i8", "(2, 3)", Raw(std::vector<std::int64_t>{-100, 7, -100, 0, -100, -100})));
  const auto set = Load("", BertTask::kMaskedLanguage).train;
  EXPECT_EQ(Integers(*set, "labels"), (Tokens{-100, 7, -100, 0, -100, -100}));
  EXPECT_EQ(FindInput(set->inputs(), "labels")->ignored_label, -100);
}

TEST_F(SequenceTest, FilesOfEveryIntegerType) {
  const Data expected = Load();
  for (const std::string& tokens :
       {Npy("|i1", "(2, 3)", Raw(std::vector<std::int8_t>{1, 2, 3, 4, 5, 6})),
        Npy("<i2", "(2, 3)", Raw(std::vector<std::int16_t>{1, 2, 3, 4, 5, 6})),
        Npy("<u8", "(2, 3)", Raw(std::vector<std::uint64_t>{1, 2, 3, 4, 5, 6})),
        Gzip(Npy("<u8", "(2, 3)", Raw(std::vector<std::uint64_t>{1, 2, 3, 4, 5, 6})))}) {
    folder_.Write("tokens", tokens);
    const Data found = Load();
    EXPECT_EQ(found.train->sha256(), expected.train->sha256());
    EXPECT_EQ(Integers(*found.train, "tokens"), (Tokens{1, 2, 3, 4, 5, 6}));
  }
  for (const std::string& labels :
       {Npy("|i1", "(2, 3)", Raw(std::vector<std::int8_t>{-100, 7, -100, 0, 1, -100})),
        Npy("<i2", "(2, 3)", Raw(std::vector<std::int16_t>{-100, 7, -100, 0, 1, -100}))}) {
    folder_.Write("labels", labels);
    EXPECT_EQ(Integers(*Load("", BertTask::kMaskedLanguage).train, "labels"),
              (Tokens{-100, 7, -100, 0, 1, -100}));
  }
  // Would be -100 if it were signed.
  const std::uint64_t large = ~std::uint64_t{99};
  folder_.Write("labels",
                Npy("<u8", "(2, 3)", Raw(std::vector<std::uint64_t>{0, 1, large, 2, 3, 4})));
  Refused({"sample 0, value 2 is 18446744073709551516", "below 2^63"}, "",
          BertTask::kMaskedLanguage);
}

TEST_F(SequenceTest, WhatStandsForNoneIsChosen) {
  const auto load = [this](std::optional<std::int64_t> none) {
    std::vector<WantedInput> wanted = BertInputs(BertTask::kMaskedLanguage, 3, 8, 2);
    for (WantedInput& input : wanted) {
      if (input.ignored_label) input.ignored_in_files = none;
    }
    return LoadFrom(folder_, kTokenFiles, wanted).train;
  };
  folder_.Write("labels", Npy("<i8", "(2, 3)", Raw(std::vector<std::int64_t>{0, 7, 0, 1, 0, 0})));
  const auto all = load(std::nullopt), some = load(0);
  EXPECT_EQ(Integers(*all, "labels"), (Tokens{0, 7, 0, 1, 0, 0}));
  EXPECT_FALSE(FindInput(all->inputs(), "labels")->ignored_label);
  EXPECT_EQ(Integers(*some, "labels"), (Tokens{-100, 7, -100, 1, -100, -100}));
  EXPECT_EQ(FindInput(some->inputs(), "labels")->ignored_label, -100);
  EXPECT_NE(some->sha256(), all->sha256());
}

TEST_F(SequenceTest, SomeLabelIsAClass) {
  folder_.Write("labels", Npy("<i8", "(2,)", Raw(std::vector<std::int64_t>{-100, -100})));
  Refused({"labels: all labels are -100, which stands for no class"});
}

TEST_F(SequenceTest, ValuesOutOfBoundsAreNamed) {
  folder_.Write("tokens", Npy("|u1", "(2, 3)", "\1\2\3\4\5\10"));
  Refused({"tokens: the token of sample 1, position 2 is 8", "8 tokens (model.vocab_size)",
           "expected 0 to 7"});
  folder_.Write("tokens", Npy("|u1", "(2, 3)", "\1\2\3\4\5\6"));
  folder_.Write("labels", "0\n2\n");
  Refused({"labels: the label of sample 1 is 2", "2 classes", "expected 0 to 1, or -100 for none"});
  folder_.Write("labels", "0\n0.5\n");
  Refused({"labels: sample 1, value 0 is 0.5, expected a whole number"});
  folder_.Write("labels", "0\n1\n");
  folder_.Write("lengths", "0\n3\n");
  Refused({"lengths: the length of sample 0 is 0", "expected 1 to 3"},
          "train_lengths = \"lengths\"");
  folder_.Write("types", Npy("|u1", "(2, 3)", std::string("\0\0\2\0\0\0", 6)));
  Refused({"types: the token type of sample 0, position 2 is 2", "2 types of tokens"},
          "train_token_types = \"types\"");
}

TEST_F(SequenceTest, ShapesThatDoNotFitAreNamed) {
  folder_.Write("labels", "0\n1\n1\n");
  Refused({"labels: has 3 samples, but", "tokens has 2"});
  folder_.Write("labels", "0,1\n1,1\n");
  Refused({"labels: has shape [2, 2], but the model takes [samples], one number each"});
  Refused({"labels: has shape [2, 2], but the model takes [samples, 3]"}, "",
          BertTask::kMaskedLanguage);
  folder_.Write("tokens", Npy("|u1", "(2, 2)", "\1\2\3\4"));
  Refused(
      {"tokens: has shape [2, 2], but the model takes [samples, 3], one sequence each; set "
       "model.sequence_length = 2, or pad the sequences"});
  folder_.Write("tokens", Npy("|u1", "(1, 4)", "\1\2\3\4"));
  Refused({"one sequence each; set model.sequence_length = 4, or cut the sequences"});
}

// The length of a graph file's sequences has no key, nor has that of a trained model.
TEST_F(SequenceTest, NotAllLengthsHaveAKey) {
  folder_.Write("tokens", Npy("|u1", "(2, 2)", "\1\2\3\4"));
  const std::vector<WantedInput> wanted = BertInputs(BertTask::kClassification, 3, 8, 2);
  Job job;
  job.data.tokens.train = folder_.Path("tokens");
  job.data.train_targets = folder_.Path("labels");
  job.model = GraphFile();
  ExpectError([&] { LoadData(job, wanted); },
              {"tokens: has shape [2, 2]", "one sequence each; pad the sequences"});
  job = GptJob("train_tokens = \"tokens\"\ntrain_labels = \"labels\"\n");
  ExpectError(
      [&] {
        LoadInputs(job,
                   model::Gpt(std::get<model::GptOptions>(job.model), model::Mode::kEvaluation),
                   {folder_.Path("tokens"), "", ""});
      },
      {"the model takes [samples, 3], one sequence each; pad the sequences"});
}

TEST_F(SequenceTest, LabelsThatAreNotShiftedAreNoticed) {
  constexpr const char* kFiles = "train_tokens = \"tokens\"\ntrain_labels = \"labels\"\n";
  const auto labels = [this](const std::vector<std::int64_t>& values) {
    folder_.Write("labels", Npy("<i8", "(2, 3)", Raw(values)));
  };
  const auto warnings = [this](const Job& job) { return LoadData(job).warnings; };
  const std::string text = folder_.Path("labels") +
                           ": the labels equal the tokens; acan does not shift labels: label i "
                           "must be token i + 1";
  labels({1, 2, 3, 4, 5, 6});
  EXPECT_EQ(warnings(GptJob(kFiles)), std::vector<std::string>{text});
  EXPECT_EQ(warnings(GptJob(kFiles, "llama")), std::vector<std::string>{text});
  labels({-100, 2, 3, 4, -100, -100});
  EXPECT_EQ(warnings(GptJob(kFiles)), std::vector<std::string>{text}) << "some do not count";
  labels({0, 2, 0, 4, 0, 0});
  EXPECT_EQ(warnings(GptJob(std::string(kFiles) + "ignore_label = 0\n")),
            std::vector<std::string>{text});
  labels({1, 2, 3, 4, 5, 7});
  EXPECT_TRUE(warnings(GptJob(kFiles)).empty()) << "5 of 6";
  labels({2, 3, 4, 5, 6, 7});
  EXPECT_TRUE(warnings(GptJob(kFiles)).empty());
  // Test labels count, too.
  const std::string test = "test_tokens = \"tokens\"\ntest_labels = \"test\"\n";
  folder_.Write("test", Npy("<i8", "(2, 3)", Raw(std::vector<std::int64_t>{1, 2, 3, 4, 5, 6})));
  const std::vector<std::string> of_test = warnings(GptJob(kFiles + test));
  ASSERT_EQ(of_test.size(), 1u);
  EXPECT_EQ(of_test[0].find(folder_.Path("test") + ": the labels equal"), 0u) << of_test[0];
  EXPECT_EQ(LoadTestData(GptJob(kFiles + test), nullptr).warnings, of_test);
  // A masked language model predicts its own tokens.
  labels({1, 2, 3, 4, 5, 6});
  Job bert = GptJob(kFiles);
  bert.model = model::BertOptions();
  const std::vector<WantedInput> wanted = BertInputs(BertTask::kMaskedLanguage, 3, 8, 2);
  EXPECT_TRUE(LoadData(bert, wanted).warnings.empty());
}

TEST_F(SequenceTest, LabelsThatCountBeyondTheLengthsAreNoticed) {
  const std::string lengths = "train_lengths = \"lengths\"\n";
  const auto warnings = [this](const std::string& more,
                               std::optional<std::int64_t> none = std::nullopt) {
    std::vector<WantedInput> wanted = BertInputs(BertTask::kMaskedLanguage, 3, 8, 2);
    std::ranges::find(wanted, "labels", &WantedInput::name)->ignored_in_files = none;
    return LoadFrom(folder_, kTokenFiles + more, wanted).warnings;
  };
  const auto labels = [this](const std::vector<std::int64_t>& values) {
    folder_.Write("labels", Npy("<i8", "(2, 3)", Raw(values)));
  };
  const std::string advice =
      " count them; where the tokens are only padding, the label must be -100";
  folder_.Write("lengths", "2\n1\n");
  labels({1, 2, 0, 4, 0, 0});
  EXPECT_EQ(warnings(lengths),
            std::vector<std::string>{folder_.Path("labels") +
                                     ": 3 labels are beyond the lengths of their sequences, and "
                                     "the loss and the accuracy" +
                                     advice});
  EXPECT_TRUE(warnings("").empty()) << "without lengths";
  EXPECT_TRUE(warnings(lengths, 0).empty()) << "zeros do not count";
  labels({-100, 2, -100, 4, -100, -100});
  EXPECT_TRUE(warnings(lengths).empty());
  labels({1, 2, -100, 4, -100, 5});
  ASSERT_EQ(warnings(lengths).size(), 1u);
  EXPECT_NE(warnings(lengths)[0].find(": 1 label is beyond the lengths"), std::string::npos);
  // Test labels count, too.
  folder_.Write("test", Npy("<i8", "(2, 3)", Raw(std::vector<std::int64_t>{1, 1, 1, 1, 1, 1})));
  labels({1, 2, -100, 4, -100, -100});
  const std::vector<std::string> of_test = warnings(
      lengths + "test_tokens = \"tokens\"\ntest_labels = \"test\"\ntest_lengths = \"lengths\"\n");
  ASSERT_EQ(of_test.size(), 1u);
  EXPECT_EQ(of_test[0].find(folder_.Path("test") + ": 3 labels are beyond"), 0u) << of_test[0];
  // One label for each sequence.
  folder_.Write("labels", "1\n0\n");
  EXPECT_TRUE(Load(lengths).warnings.empty());
}

// More than 1,000 sequences, of which the first 1,000 decide.
TEST_F(SequenceTest, TheFirstThousandSequencesAreChecked) {
  std::vector<std::int64_t> tokens(1100 * 3, 5);
  folder_.Write("tokens", Npy("<i8", "(1100, 3)", Raw(tokens)));
  const auto count = [this, &tokens](std::size_t first, std::size_t others) {
    std::vector<std::int64_t> labels = tokens;
    std::fill_n(labels.begin() + static_cast<std::ptrdiff_t>(first), others, 6);
    folder_.Write("labels", Npy("<i8", "(1100, 3)", Raw(labels)));
    return LoadData(GptJob("train_tokens = \"tokens\"\ntrain_labels = \"labels\"\n"))
        .warnings.size();
  };
  EXPECT_EQ(count(3000, 300), 1u);
  EXPECT_EQ(count(0, 30), 1u) << "99 % of 3,000";
  EXPECT_EQ(count(0, 31), 0u);
}

// Inputs with wrong roles are refused. Otherwise, without a file, `lengths` as tokens would be 0.
TEST_F(SequenceTest, InputsHaveTheRolesOfTheirNames) {
  const auto with = [](const std::string& name, model::InputRole role) {
    std::vector<WantedInput> wanted = BertInputs(BertTask::kClassification, 3, 8, 2);
    for (WantedInput& input : wanted) {
      if (input.name == name) input.role = role;
    }
    return wanted;
  };
  using enum model::InputRole;
  const auto refused = [&](const std::string& name, model::InputRole role,
                           const std::vector<std::string>& parts) {
    ExpectError([&] { LoadFrom(folder_, kTokenFiles, with(name, role)); }, parts);
  };
  refused("lengths", kTokens,
          {"the input \"lengths\" of the model has the role \"tokens\"", "role \"lengths\""});
  refused("tokens", kNumbers, {"\"tokens\" of the model has the role \"numbers\""});
  refused("token_type_ids", kLabels, {"\"token_type_ids\"", "the role \"tokens\""});
  refused("labels", kTargets, {"\"labels\" of the model has the role \"targets\""});
  EXPECT_EQ(LoadFrom(folder_, kTokenFiles, with("labels", kTokens)).train->sha256(),
            Load().train->sha256());
}

TEST_F(SequenceTest, FilesThatTheModelDoesNotTakeAreNamed) {
  folder_.Write("lengths", "2\n3\n");
  std::vector<WantedInput> wanted = BertInputs(BertTask::kClassification, 3, 8, 2);
  std::erase_if(wanted, [](const WantedInput& input) { return input.name == "lengths"; });
  ExpectError(
      [&] { LoadFrom(folder_, std::string(kTokenFiles) + "train_lengths = \"lengths\"", wanted); },
      {"lengths: the model has no input \"lengths\""});
  ExpectError([&] { LoadFrom(folder_, kTokenFiles, ImageInputs(1, 3, 1, 2)); },
              {"data.train_tokens is for models of sequences", "\"images\", \"labels\""});
}

}  // namespace
}  // namespace acan
