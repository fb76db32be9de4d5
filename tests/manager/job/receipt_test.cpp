// Receipts are written and read back, and errors are named.
#include "acan/manager/receipt.h"

#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <set>
#include <string>

#include "acan/manager/job.h"
#include "test_files.h"

namespace acan {
namespace {

using nlohmann::json;

Receipt Sample() {
  Receipt receipt;
  receipt.job = JobToJson(
      ParseJob("[model]\nlayers = [4, 3]\n[data]\ntrain_inputs = \"x\"\ntrain_labels = \"y\"\n",
               "job.toml", "/jobs", {}));
  receipt.train_sha256 = std::string(64, 'a');
  receipt.test_sha256 = std::string(64, '0');
  receipt.train_samples = 300;
  receipt.code_version = "0.1.0";
  receipt.numerics_revision = 7;
  receipt.weights_sha256 = std::string(64, '9');
  receipt.handlers = {{"one", "cpu:1", 1 << 20, 1 << 19, 17}, {"two", "opencl:0", 5, 4, 0}};
  receipt.steps = 100;
  receipt.epochs = 5;
  receipt.seconds = 1.5;
  receipt.tasks_done = 1000;
  receipt.tasks_reissued = 3;
  receipt.tasks_duplicated = 2;
  receipt.audits = {0.05, 40, 2, {{"id7", "it computed something else"}}};
  receipt.audit_log_head = std::string(64, 'b');
  receipt.test_accuracy = 0.9;
  receipt.test_loss = 0.25;
  receipt.test_perplexity = 1.25;
  receipt.not_finite = NotFinite{NotFinite::What::kWeights, 12, 0.5, 12};
  receipt.metrics_missing = {{0, 3}, {7, 7}};
  receipt.conflicts = {{"(\"run\", 3)", "a second put by \"b\" differs from the first by \"a\""}};
  return receipt;
}

TEST(ReceiptTest, ReadsWhatItWrites) {
  const TestFolder folder;
  const std::string path = folder.Path("receipt.json");
  WriteReceipt(path, Sample());
  const Receipt read = ReadReceipt(path);
  EXPECT_EQ(ReceiptToJson(read), ReceiptToJson(Sample()));
  EXPECT_EQ(read.handlers[1].device, "opencl:0");
  EXPECT_EQ(read.test_accuracy, 0.9);
  EXPECT_EQ(read.train_samples, 300);
  EXPECT_FALSE(read.final_train_loss.has_value());
  EXPECT_EQ(folder.FileCount(), 1u);
}

TEST(ReceiptTest, NoTestSetAndLossesThatAreNotFinite) {
  Receipt receipt = Sample();
  receipt.test_sha256 = "";
  receipt.test_accuracy.reset();
  receipt.final_train_loss = std::numeric_limits<double>::quiet_NaN();
  const Receipt read = ReceiptFromJson(json::parse(ReceiptToJson(receipt).dump()), "r");
  EXPECT_EQ(read.test_sha256, "");
  EXPECT_FALSE(read.test_accuracy.has_value());
  EXPECT_FALSE(read.final_train_loss.has_value());
}

TEST(ReceiptTest, NamesOfHandlersNeedNotBeText) {
  const TestFolder folder;
  Receipt receipt = Sample();
  receipt.handlers[0].name = "\xff\xfe";
  WriteReceipt(folder.Path("receipt.json"), receipt);
  EXPECT_EQ(ReadReceipt(folder.Path("receipt.json")).handlers.size(), 2u);
}

TEST(ReceiptTest, HasAHashOfItself) {
  const TestFolder folder;
  const std::string path = folder.Path("receipt.json");
  Receipt receipt = Sample();
  receipt.handlers[0].name = "\xff no UTF-8";
  WriteReceipt(path, receipt);
  const json written = ReadReceiptJson(path);
  EXPECT_EQ(CheckReceiptHash(written), ReceiptHash::kRight);
  // Changes each value, including those in nested objects and arrays.
  const json flat = written.flatten();
  for (auto at = flat.begin(); at != flat.end(); ++at) {
    json changed = written;
    json& field = changed[json::json_pointer(at.key())];
    field = field.is_number() ? json(field.get<double>() + 1) : json("something else");
    EXPECT_EQ(CheckReceiptHash(changed), ReceiptHash::kWrong) << at.key();
  }
  json more = written;
  more["more"] = 1;
  EXPECT_EQ(CheckReceiptHash(more), ReceiptHash::kWrong);
  json earlier = written;
  earlier.erase("receipt_sha256");
  EXPECT_EQ(CheckReceiptHash(earlier), ReceiptHash::kNone);
  earlier.erase("numerics_revision");
  EXPECT_EQ(ReceiptFromJson(earlier, "earlier").numerics_revision, 1u);
}

TEST(ReceiptTest, WrongFieldsAreNamed) {
  const auto refused = [](const std::string& pointer, const json& value,
                          std::vector<std::string> parts) {
    json changed = ReceiptToJson(Sample());
    changed[json::json_pointer(pointer)] = value;
    parts.push_back("receipt.json");
    SCOPED_TRACE(pointer);
    ExpectError([&] { ReceiptFromJson(changed, "receipt.json"); }, parts);
  };
  refused("/format", "acan-receipt-2", {"'format'", "acan-receipt-1"});
  refused("/steps", -1, {"'steps' is -1"});
  refused("/steps", "5", {"'steps' is \"5\""});
  refused("/steps", 1.5, {"'steps' is 1.5"});
  refused("/seconds", nullptr, {"'seconds'"});
  refused("/numerics_revision", 0, {"'numerics_revision' is 0", "at least 1"});
  refused("/weights_sha256", "abc", {"'weights_sha256'", "64 digits"});
  refused("/weights_sha256", std::string(64, 'G'), {"64 digits"});
  refused("/data/train_sha256", nullptr, {"data", "'train_sha256'"});
  refused("/data/train_samples", 0, {"data", "'train_samples' is 0", "above 0"});
  refused("/data/train_samples", -1, {"data", "'train_samples' is -1"});
  refused("/data", 3, {"data", "expected a JSON object"});
  refused("/handlers", 3, {"'handlers'", "an array"});
  refused("/handlers/1/tasks", "x", {"handlers[1]", "'tasks'"});
  refused("/test_accuracy", 1.5, {"'test_accuracy' is 1.5", "from 0 to 1"});
  refused("/test_perplexity", -1, {"'test_perplexity' is -1"});
  refused("/not_finite/what", "luck", {"not_finite", "'what' is \"luck\""});
  refused("/not_finite/step", -1, {"not_finite", "'step' is -1"});
  refused("/conflicts", 3, {"'conflicts'", "an array"});
  refused("/conflicts/0/text", 3, {"conflicts[0]", "'text'"});
  refused("/metrics_missing/1/last", "x", {"metrics_missing[1]", "'last'"});
  refused("/job/train/batch", 0, {"train.batch = 0"});
  const json good = ReceiptToJson(Sample());
  for (const auto& [key, value] : good.items()) {
    const std::set<std::string> earlier_have_none = {
        "audits",          "audit_log_head",    "conflicts",      "not_finite",
        "metrics_missing", "numerics_revision", "receipt_sha256", "test_perplexity"};
    if (earlier_have_none.count(key) != 0) continue;
    json changed = good;
    changed.erase(key);
    ExpectError([&] { ReceiptFromJson(changed, "receipt.json"); },
                {"the field '" + key + "' is missing"});
  }
  json earlier = good;
  earlier["data"].erase("train_samples");
  EXPECT_FALSE(ReceiptFromJson(earlier, "receipt.json").train_samples.has_value());
  ExpectError([] { ReceiptFromJson(json::array(), "receipt.json"); }, {"expected a JSON object"});
}

// Another reader might use the other value, which the hash does not cover.
TEST(ReceiptTest, AFieldThatIsThereTwiceIsRefused) {
  const TestFolder folder;
  const std::string text = ReceiptToJson(Sample()).dump();
  for (const auto& [key, twice] : std::map<std::string, std::string>{
           {"epochs", "{\"epochs\": 4, " + text.substr(1)},
           {"seed", std::string(text).insert(text.find("\"seed\":"), "\"seed\": 7, ")}}) {
    const std::string path = folder.Write(key, twice);
    ExpectError([&, path = path] { ReadReceipt(path); },
                {path, "has '" + key + "' more than once", "changed after it was written"});
    ExpectError([&, path = path] { ReadReceiptJson(path); }, {"'" + key + "'"});
  }
}

// Copying it would take a stack frame for each level.
TEST(ReceiptTest, DeepNestingIsRefusedBeforeItIsCopied) {
  const TestFolder folder;
  constexpr std::size_t kDepth = 500'000;
  const std::string path = folder.Write(
      "deep", "{\"job\": " + std::string(kDepth, '[') + std::string(kDepth, ']') + "}");
  ExpectError([&] { ReadReceiptJson(path); }, {path, "more than 16 deep"});
}

TEST(ReceiptTest, FilesAreNamed) {
  const TestFolder folder;
  ExpectError([&] { ReadReceipt(folder.Path("none")); }, {"/none", "No such file"});
  ExpectError([&] { ReadReceipt(folder.path()); }, {folder.path()});
  ExpectError([&] { ReadReceipt(folder.Write("bad", "{\"a\": ")); }, {"/bad", "not valid JSON"});
  ExpectError(
      [&] { ReadReceipt(folder.Write("cut", ReceiptToJson(Sample()).dump().substr(0, 99))); },
      {"/cut", "not valid JSON"});
  ExpectError([&] { WriteReceipt(folder.Path("no/r.json"), Sample()); },
              {"no/r.json", "No such file"}, Error::Kind::kFailure);
}

}  // namespace
}  // namespace acan
