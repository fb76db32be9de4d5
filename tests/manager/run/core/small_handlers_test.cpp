#include "acan/manager/small_handlers.h"

#include <gmock/gmock.h>

#include "manager_shell.h"

namespace acan {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr std::int64_t kLaterUs = 40'000'000;

std::map<std::string, Capacity> SmallOnes(const std::vector<std::string>& ids) {
  std::map<std::string, Capacity> present;
  for (const std::string& id : ids) {
    present[id].name = "the handler " + id;
    present[id].memory_bytes = 1000;
  }
  return present;
}

TEST(SmallHandlersTest, EachIsNamedOnce) {
  SmallHandlers small;
  EXPECT_THAT(small.Name(SmallOnes({"a", "b"}), 1000), IsEmpty());
  EXPECT_THAT(small.Name(SmallOnes({"a", "b"}), 1001),
              ElementsAre(HasSubstr("the handler a"), HasSubstr("the handler b")));
  EXPECT_THAT(small.Name(SmallOnes({"a", "b", "c"}), 1002),
              ElementsAre(HasSubstr("the handler c")));
}

TEST(SmallHandlersTest, TheHandlersOfAKeyShareALine) {
  SmallHandlers small;
  EXPECT_THAT(small.Name(SmallOnes({"k/1", "k/2", "k/3", "other/1"}), 2000),
              ElementsAre(HasSubstr("the handler k/1 takes only smaller ones (as do 2 more"),
                          HasSubstr("the handler other/1")));
  const auto more = SmallOnes({"k/1", "k/2", "k/3", "k/4", "k/5"});
  EXPECT_THAT(small.Name(more, 2000), IsEmpty());
  small.SetTime(kLaterUs);
  EXPECT_THAT(small.Name(more, 2000), ElementsAre(HasSubstr("the handler k/4")));
}

// The name is a text of the client's choice, and each of its ids is a new handler.
TEST(SmallHandlersTest, NewIdsOfOneKeyDoNotFillTheLog) {
  Shell shell(SmallJob());
  for (int i = 0; i < 1000; ++i) {
    HandlersSeen seen = Handlers({1 << 30});
    Capacity tiny = seen.handlers.begin()->second;
    tiny.memory_bytes = 1;
    seen.handlers.emplace("evil/" + std::to_string(i), tiny);
    shell.Send(seen, i);
  }
  EXPECT_TRUE(shell.core.plan());
  EXPECT_THAT(shell.said, SizeIs(::testing::Le(2u))) << shell.Said();
}

}  // namespace
}  // namespace acan
