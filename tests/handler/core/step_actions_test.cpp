// What one step of a handler's decisions results in.
#include "acan/handler/step_actions.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <variant>

namespace acan {
namespace {

using tuplespace::Key;

// As when the handler joins another broker: a request that names more would be refused.
TEST(StepActionsTest, ManyTuplesAreAnnouncedInSeveralRequests) {
  constexpr std::size_t kMany = 10'000;
  StepActions step;
  for (std::size_t i = 0; i < kMany; ++i) {
    step.NoteHeld(Key{"held", static_cast<std::int64_t>(i)});
    step.NoteDropped(Key{"dropped", static_cast<std::int64_t>(i)});
  }
  std::size_t held = 0;
  std::size_t dropped = 0;
  for (const HandlerAction& action : step.Take()) {
    const auto& said = std::get<AnnounceHeld>(action);
    EXPECT_LE(said.held.size() + said.dropped.size(), 4096u);
    EXPECT_TRUE(held == 0 || said.dropped.empty()) << "what is dropped comes first";
    held += said.held.size();
    dropped += said.dropped.size();
  }
  EXPECT_EQ(held, kMany);
  EXPECT_EQ(dropped, kMany);
  EXPECT_TRUE(step.Take().empty());
}

}  // namespace
}  // namespace acan
