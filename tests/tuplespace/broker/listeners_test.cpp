// Listeners: what they say of the files of their ipc addresses.
#include "listeners.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>
#include <zmq.hpp>

#include "broker_fixture.h"

namespace tuplespace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class ListenersTest : public ::testing::Test {
 protected:
  ListenersTest() { listeners_.Bind(folder_.Ipc()); }
  ~ListenersTest() override { listeners_.Close(); }

  std::vector<std::string> Look() { return listeners_.BindLost(listeners_.NextLookUs()); }
  // The socket remains under another name, and its path is never free meanwhile.
  void TakePlace() {
    std::filesystem::create_hard_link(path_, folder_.Path("aside"));
    std::ofstream(folder_.Path("other")) << "precious";
    std::filesystem::rename(folder_.Path("other"), path_);
  }
  void MoveBack() { std::filesystem::rename(folder_.Path("aside"), path_); }

  TemporaryFolder folder_;
  const std::string path_ = folder_.Path("s");
  zmq::context_t context_;
  zmq::socket_t router_{context_, zmq::socket_type::router};
  Monitor monitor_{context_, router_};
  Listeners listeners_{router_, monitor_};
};

TEST_F(ListenersTest, AFileThatTakesThePlaceAgainIsSpokenOfAgain) {
  const auto is_taken = HasSubstr("another file has taken the place of the socket " + path_);
  EXPECT_THAT(Look(), IsEmpty());
  for (int times = 0; times < 2; ++times) {
    TakePlace();
    EXPECT_THAT(Look(), ElementsAre(is_taken));
    EXPECT_THAT(Look(), IsEmpty());
    MoveBack();
    EXPECT_THAT(Look(), IsEmpty());
  }
}

}  // namespace
}  // namespace tuplespace
