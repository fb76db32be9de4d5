#include "acan/manager/expected_handlers.h"

#include <gmock/gmock.h>

namespace acan {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr std::uint64_t kKiB = 1 << 10;

std::map<std::string, Capacity> Listed(const std::vector<ExpectedHandler>& handlers) {
  std::map<std::string, Capacity> listed;
  for (const ExpectedHandler& each : handlers) {
    Capacity& capacity = listed["id" + std::to_string(listed.size())];
    capacity.device = each.device;
    capacity.limit_bytes = each.limit_bytes;
  }
  return listed;
}

// All that were started will come.
std::vector<ExpectedHandler> Missing(const std::vector<ExpectedHandler>& all,
                                     const std::map<std::string, Capacity>& present) {
  return MissingHandlers(all, all, present);
}

TEST(MissingHandlersTest, EachHandlerPresentFillsOnePlace) {
  const ExpectedHandler small{"cpu:1", kKiB}, large{"cpu:1", 8 * kKiB}, wide{"cpu:2", 4 * kKiB};
  const std::vector<ExpectedHandler> all = {small, large, small, wide};
  EXPECT_THAT(Missing(all, {}), ElementsAre(large, wide, small, small));
  EXPECT_THAT(Missing(all, Listed({small})), ElementsAre(large, wide, small));
  EXPECT_THAT(Missing(all, Listed({large, wide, small})), ElementsAre(small));
  EXPECT_THAT(Missing(all, Listed(all)), IsEmpty());
  EXPECT_THAT(Missing({}, Listed(all)), IsEmpty());
}

// Such as a handler whose death the broker has not noticed yet, beside the one that replaces it.
TEST(MissingHandlersTest, OneMoreOfADeviceDoesNotStandForAnotherDevice) {
  const ExpectedHandler small{"cpu:1", kKiB}, large{"cpu:2", 8 * kKiB};
  EXPECT_THAT(Missing({small, large}, Listed({small, small})), ElementsAre(large));
}

TEST(MissingHandlersTest, NorForALargerOneOfTheSameDevice) {
  const ExpectedHandler small{"cpu:1", kKiB}, large{"cpu:1", 8 * kKiB};
  EXPECT_THAT(Missing({small, large}, Listed({small, small})), ElementsAre(large));
}

// The broker may list it for a while.
TEST(MissingHandlersTest, OneThatWillNotComeBackDoesNotStandForAnother) {
  const ExpectedHandler gone{"cpu:1", kKiB};
  for (const ExpectedHandler& large :
       {ExpectedHandler{"cpu:1", 8 * kKiB}, ExpectedHandler{"cpu:2", 8 * kKiB}}) {
    SCOPED_TRACE(large.device);
    EXPECT_THAT(MissingHandlers({large}, {gone, large}, Listed({gone})), ElementsAre(large));
  }
}

TEST(MissingHandlersTest, ADeviceThatHasLessMemoryLeftThanWasAskedForIsThere) {
  const ExpectedHandler given{"cuda:0", 8 * kKiB}, left{"cuda:0", 6 * kKiB};
  EXPECT_THAT(Missing({given}, Listed({left})), IsEmpty());
  const ExpectedHandler small{"cuda:0", kKiB};
  EXPECT_THAT(Missing({given, small}, Listed({left})), ElementsAre(small));
}

// Otherwise a run would wait for a handler that is there.
TEST(MissingHandlersTest, ADeviceThatItsDriverCallsOtherwiseIsThere) {
  const ExpectedHandler given{"other:0", kKiB}, cpu{"cpu:1", kKiB};
  EXPECT_THAT(Missing({given, cpu}, Listed({{"a device", kKiB}, cpu})), IsEmpty());
}

TEST(HandlersTextTest, NamesTheFirstOnes) {
  const ExpectedHandler one{"cpu:1", kKiB}, two{"cpu:2", 2 * kKiB};
  EXPECT_EQ(HandlersText({two, one}), "cpu:2 with 2KiB, cpu:1 with 1KiB");
  EXPECT_EQ(HandlersText({two, one, one, one, one}),
            "cpu:2 with 2KiB, cpu:1 with 1KiB, cpu:1 with 1KiB and 2 more");
}

}  // namespace
}  // namespace acan
