// If a snapshot cannot be written, it fails and the run continues without it.
#include "acan/manager/snapshot_writer.h"

#include <gmock/gmock.h>

#include <future>

#include "test_files.h"

namespace acan {
namespace {

using ::testing::HasSubstr;

// The run's own connection may survive the removal of the socket's file.
TEST(SnapshotWriterTest, WithoutTheBrokersSocketItFails) {
  const TestFolder folder;
  const std::shared_ptr<const TrainedModel> model = BuildModel(Perceptron{{5, 7, 3}});
  const SnapshotFolder snapshots(folder.Path("snapshots"), "training", model, 0);
  const std::string endpoint = "ipc://" + folder.Path("space");
  std::promise<void> done;
  SnapshotWriter writer(
      snapshots, {.endpoint = endpoint, .name = "test", .id = {}}, [] { return true; },
      [&] { done.set_value(); });
  RunState state;
  state.version = 4;
  const TileCell tile{tuplespace::Key{"run", 4, "tile"}, {}, {0, 7}, {0, 5}};
  writer.Start(state, ModelTensors(*model), {tile}, /*only_finite=*/true, endpoint);
  done.get_future().wait();
  const auto failed = writer.TakeDone();
  ASSERT_TRUE(failed);
  EXPECT_EQ(failed->version, 4);
  EXPECT_THAT(failed->problem, HasSubstr("cannot connect to " + endpoint));
  EXPECT_THAT(failed->problem, HasSubstr("the socket is gone"));
}

}  // namespace
}  // namespace acan
