// acan verify reads files of others, who may have made them to deceive or to harm.
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "acan/manager/sha256.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "ragged_job.h"

namespace acan::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class HostileFiles : public ::testing::Test {
 protected:
  HostileFiles() {
    receipt_ = Train(WriteRaggedJob(folder_), out_,
                     {"--handlers", "cpu:1@64MiB", "--set", "train.epochs=1"});
  }
  // Adds a tensor of one value to the model.
  void AddTensor(const std::string& name) const {
    const std::string model = ReadFile(out_ + "/model.safetensors");
    std::uint64_t length = 0;
    std::memcpy(&length, model.data(), sizeof(length));
    auto header = nlohmann::json::parse(model.substr(8, length));
    const std::size_t data_bytes = model.size() - 8 - length;
    header[name] = {
        {"dtype", "F32"}, {"shape", {1}}, {"data_offsets", {data_bytes, data_bytes + 4}}};
    const std::string text = header.dump();
    length = text.size();
    std::string more(8, '\0');
    std::memcpy(more.data(), &length, sizeof(length));
    more += text + model.substr(model.size() - data_bytes) + std::string(4, '\0');
    folder_.Write("out/model.safetensors", more);
  }

  TestFolder folder_;
  std::string out_ = folder_ / "out";
  nlohmann::json receipt_;
};

TEST_F(HostileFiles, ANameOfATensorForgesNoLine) {
  ASSERT_TRUE(receipt_.is_object());
  const std::string sha256 = receipt_["weights_sha256"];
  AddTensor("x\x1b[2K\requal      tensors of M: 6\nequal      weights_sha256 of M: " + sha256 +
            "\xC2\x9B" + "8m");
  const Result result = RunAcan({"verify", out_});
  EXPECT_EQ(result.code, 1) << result.out << result.err;
  EXPECT_THAT(result.out, AllOf(HasSubstr("DIFFERENT  tensors of " + out_),
                                Not(HasSubstr("\nequal      weights_sha256 of M")),
                                Not(HasSubstr("\xC2\x9B"))));
  EXPECT_EQ(result.out.find_first_of("\x1b\r"), std::string::npos);
}

// Anybody can compute the chain of a log.
TEST_F(HostileFiles, ADeeplyNestedRecordOfALogIsRead) {
  ASSERT_TRUE(receipt_.is_object());
  constexpr std::size_t kDepth = 500'000;
  const std::string record =
      R"({"what":"begin","job":)" + std::string(kDepth, '[') + std::string(kDepth, ']') + "}";
  const std::string text = std::string(64, '0') + record;
  Sha256 hash;
  hash.Add(text.data(), text.size());
  const std::string log =
      folder_.Write("log", R"({"chain":")" + hash.Hex() + R"(","record":)" + record + "}\n");
  const Result result = RunAcan({"verify", out_, "--audit-log", log});
  EXPECT_EQ(result.code, 1) << result.out << result.err;
  EXPECT_THAT(result.out, AllOf(HasSubstr("equal      chain of " + log + ": 1 records"),
                                HasSubstr("DIFFERENT  audit_log_head of " + log)));
}

// Such a file needs no room on a disk, but would fill the memory.
TEST_F(HostileFiles, ALogWithALineWithoutEndIsRefusedAtOnce) {
  ASSERT_TRUE(receipt_.is_object());
  const std::string log = folder_.Write("log", "");
  std::filesystem::resize_file(log, std::uintmax_t{1} << 32);
  const Result result = RunAcan({"verify", out_, "--audit-log", log});
  EXPECT_EQ(result.code, 1) << result.out << result.err;
  EXPECT_THAT(result.out, HasSubstr("line 1 is longer than any record"));
}

}  // namespace
}  // namespace acan::testing
