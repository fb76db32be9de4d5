// A receipt still names two results that differ after the run was resumed.
#include <exception>
#include <filesystem>

#include "acan/core/names.h"
#include "acan/manager/load_data.h"
#include "acan/manager/training_id.h"
#include "cluster_fixture.h"
#include "tuplespace/client.h"

namespace acan {
namespace {

using tuplespace::FieldPattern;

tuplespace::Pattern MetricsOf(const std::string& job_id) {
  return {{FieldPattern::Exact("metrics"), FieldPattern::Exact(job_id)}, true};
}

// A client that puts a tuple of a manager again, with other bytes.
class Liar {
 public:
  explicit Liar(const std::string& endpoint)
      : client_({.endpoint = endpoint, .name = "a liar", .id = {}}) {}

  // Returns false if there is no such tuple yet, or if the space reports no conflict.
  bool Lie(const tuplespace::Pattern& pattern) {
    const auto found = client_.ListAll(pattern, /*metadata_only=*/true);
    if (found.empty()) return false;
    tuplespace::Tuple other;
    other.key = found.front().key;
    other.payload = tuplespace::Payload::Copy("a lie");
    return client_.Put({std::move(other)}) == std::vector{tuplespace::PutStatus::kConflict};
  }

 private:
  tuplespace::Client client_;
};

class ConflictTest : public ClusterTest {
 protected:
  ManagerOptions Options(bool resume) {
    ManagerOptions options;
    options.endpoint = endpoint_;
    options.source = "test";
    options.out_dir = folder_ + "/out";
    options.resume = resume;
    options.log = [this](const std::string& line) { log_ += line + "\n"; };
    return options;
  }
  bool HasLog(const std::string& text) const { return log_.find(text) != std::string::npos; }
};

TEST_F(ConflictTest, IsInTheReceiptOfARunThatWentOnFromASnapshot) {
  const Job job = SmallJob("[snapshots]\nevery_steps = 1\n");
  const Data data = LoadData(job);
  const std::string job_id = TrainingId(job, data.train_sha256(), data.test_sha256());
  AddHandler(1 << 20);
  Liar liar(endpoint_);
  bool lied = false;
  std::unique_ptr<Manager> manager;
  ManagerOptions options = Options(/*resume=*/false);
  options.progress = [&](const Progress&) {
    if (!lied) lied = liar.Lie(MetricsOf(job_id));
    if (HasLog("corruption")) manager->Stop(std::chrono::seconds(60));
  };
  manager = std::make_unique<Manager>(std::move(options), job, LoadData(job));
  ASSERT_FALSE(manager->Run().has_value()) << log_;
  ASSERT_TRUE(lied && HasLog("no work is lost")) << log_;
  manager.reset();

  const std::optional<Receipt> receipt =
      Manager(Options(/*resume=*/true), job, LoadData(job)).Run();
  ASSERT_TRUE(receipt.has_value()) << log_;
  EXPECT_TRUE(HasLog("continuing from snapshot")) << log_;
  ASSERT_EQ(receipt->conflicts.size(), 1u);
  EXPECT_NE(receipt->conflicts[0].key.find("metrics"), std::string::npos)
      << receipt->conflicts[0].key;
  EXPECT_FALSE(receipt->conflicts[0].text.empty());
  EXPECT_EQ(receipt->weights_sha256, PlainHash(job));
}

// The manager dies before it takes a snapshot, so the conflict is recorded only in conflicts.jsonl.
TEST_F(ConflictTest, IsInTheReceiptOfARunWhoseManagerDiedAtOnce) {
  struct Died : std::exception {};
  const Job job = SmallJob("[snapshots]\nevery_steps = 1000\n");
  const Data data = LoadData(job);
  const std::string job_id = TrainingId(job, data.train_sha256(), data.test_sha256());
  AddHandler(1 << 20);
  Liar liar(endpoint_);
  bool lied = false;
  ManagerOptions options = Options(/*resume=*/false);
  options.progress = [&](const Progress&) {
    if (!lied) lied = liar.Lie(MetricsOf(job_id));
    if (HasLog("corruption")) throw Died();
  };
  EXPECT_THROW(Manager(std::move(options), job, LoadData(job)).Run(), Died) << log_;

  const std::optional<Receipt> receipt =
      Manager(Options(/*resume=*/true), job, LoadData(job)).Run();
  ASSERT_TRUE(receipt.has_value()) << log_;
  EXPECT_FALSE(HasLog("continuing from snapshot")) << log_;
  EXPECT_EQ(receipt->conflicts.size(), 1u);
  EXPECT_EQ(receipt->weights_sha256, PlainHash(job));
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/out/conflicts.jsonl"));
}

// Neither of the two managers has a folder, so the conflict is recorded only in the space.
TEST_F(ConflictTest, IsInTheReceiptOfARunThatWentOnFromTheSpace) {
  struct Died : std::exception {};
  const Job job = SmallJob("");
  const Data data = LoadData(job);
  const std::string job_id = TrainingId(job, data.train_sha256(), data.test_sha256());
  AddHandler(1 << 20);
  Liar liar(endpoint_);
  bool lied = false;
  int steps_since = 0;
  ManagerOptions options = Options(/*resume=*/false);
  options.out_dir.clear();
  options.progress = [&](const Progress&) {
    if (!lied) lied = liar.Lie(AllRuns(job_id));
    if (HasLog("corruption") && ++steps_since == 3) throw Died();
  };
  EXPECT_THROW(Manager(std::move(options), job, LoadData(job)).Run(), Died) << log_;

  options = Options(/*resume=*/true);
  options.out_dir.clear();
  const std::optional<Receipt> receipt = Manager(std::move(options), job, LoadData(job)).Run();
  ASSERT_TRUE(receipt.has_value()) << log_;
  EXPECT_TRUE(HasLog("continuing from the weights in the space")) << log_;
  EXPECT_EQ(receipt->conflicts.size(), 1u);
  EXPECT_EQ(receipt->weights_sha256, PlainHash(job));
}

}  // namespace
}  // namespace acan
