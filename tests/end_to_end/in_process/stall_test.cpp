// A run whose tasks are lost goes on, whatever other runs do on the same broker.
#include <chrono>
#include <string>
#include <variant>

#include "acan/core/names.h"
#include "acan/manager/training_id.h"
#include "acan/manager/tuple_names.h"
#include "cluster_fixture.h"
#include "tuplespace/client.h"

namespace acan {
namespace {

using tuplespace::FieldPattern;
using tuplespace::Key;
using tuplespace::Pattern;

class StallTest : public ClusterTest {
 protected:
  tuplespace::Client Client(const std::string& name) const {
    return tuplespace::Client({.endpoint = endpoint_, .name = name, .id = {}});
  }
};

// Takes a task of another run and keeps it.
void TakeTaskOfAnotherRun(tuplespace::Client& client) {
  tuplespace::Tuple tuple;
  tuple.key = Key{"a task of another run"};
  tuple.task = tuplespace::TaskSpec{};
  tuple.task->lease_us = 3'000'000'000;
  tuplespace::Get get;
  get.pattern = Pattern::Of(tuple.key);
  ASSERT_EQ(client.Put({std::move(tuple)}), std::vector{tuplespace::PutStatus::kStored});
  ASSERT_EQ(client.GetSome(get, std::chrono::seconds(60)).size(), 1u);
}

TEST_F(StallTest, ARunThatLostItsTasksGoesOnWhileAnotherRunComputes) {
  const Job job = SmallJob();
  const Data data = LoadData(job);
  const std::string job_id = TrainingId(job, data.train_sha256(), data.test_sha256());
  AddHandler(1 << 20);
  tuplespace::Client other = Client("a handler of another run");
  TakeTaskOfAnotherRun(other);
  tuplespace::Client remover = Client("one that removes tasks");
  std::uint64_t removed = 0;
  const Receipt receipt = Run(job, [&](const Progress& progress) {
    if (removed > 0 || progress.step < 3) return;
    const auto runs = remover.ListAll(AllRuns(job_id), /*metadata_only=*/true);
    ASSERT_EQ(runs.size(), 1u);
    const auto run = std::get<std::string>(runs.front().key.Fields().at(2));
    removed = remover.RetireAll(TasksOf(run, FieldPattern::Any()), /*watermark=*/false).value_or(0);
  });
  EXPECT_GT(removed, 0u);
  EXPECT_NE(log_.find("no task can be taken"), std::string::npos) << log_;
  EXPECT_EQ(receipt.weights_sha256, PlainHash(job));
}

}  // namespace
}  // namespace acan
