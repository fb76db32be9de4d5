// The messages that several peers have begun to send, and the limit for those of one user.
#include "unfinished_messages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <variant>
#include <vector>

namespace tuplespace {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

constexpr std::uint64_t kLimit = 8 * kPartBytes;

// A message with one payload of some parts, of which the next one is sent.
class Sending {
 public:
  Sending() : progress_{.number = 1, .bytes = 0} {}

  Assembly::Result To(UnfinishedMessages& messages, const std::string& peer,
                      const std::string& user) {
    Packer packer({}, payloads_, progress_);
    std::vector<std::byte> part(packer.PartBytes());
    packer.CopyPart(part);
    packer.Advance();
    return messages.Add(peer, user, part);
  }

 private:
  std::vector<Payload> payloads_{Payload::Copy(std::string(6 * kPartBytes, 'p'))};
  SendProgress progress_;
};

TEST(UnfinishedMessages, OfOneUserHaveALimitAndTheLargestIsDropped) {
  UnfinishedMessages messages({}, kLimit);
  Sending large, small, stranger;
  for (int i = 0; i < 5; ++i) large.To(messages, "large", "key");
  for (int i = 0; i < 5; ++i) stranger.To(messages, "stranger", "other key");
  for (int i = 0; i < 3; ++i) small.To(messages, "small", "key");
  EXPECT_THAT(messages.TakeDropped(), IsEmpty());
  small.To(messages, "small", "key");
  EXPECT_THAT(messages.TakeDropped(), ElementsAre("large"));
  // What follows of it is ignored, and the others are complete when their last part has come.
  EXPECT_TRUE(std::holds_alternative<Assembly::More>(large.To(messages, "large", "key")));
  EXPECT_THAT(messages.TakeDropped(), IsEmpty());
  for (Sending* sending : {&small, &stranger}) {
    const std::string peer = sending == &small ? "small" : "stranger";
    const std::string user = sending == &small ? "key" : "other key";
    Assembly::Result result;
    while (std::holds_alternative<Assembly::More>(result)) {
      result = sending->To(messages, peer, user);
    }
    EXPECT_TRUE(std::holds_alternative<Assembled>(result)) << peer;
  }
}

TEST(UnfinishedMessages, ThatAreCompleteOrForgottenTakeNothingOfTheLimit) {
  UnfinishedMessages messages({}, kLimit);
  for (int i = 0; i < 4; ++i) {
    Sending sending;
    const std::string peer = "peer " + std::to_string(i);
    if (i % 2 == 0) {
      Assembly::Result result;
      while (std::holds_alternative<Assembly::More>(result)) {
        result = sending.To(messages, peer, "key");
      }
    } else {
      for (int part = 0; part < 5; ++part) sending.To(messages, peer, "key");
      messages.Forget(peer);
    }
  }
  EXPECT_THAT(messages.TakeDropped(), IsEmpty());
}

// A broker lowers the limit when its space fills up, although the sender pauses.
TEST(UnfinishedMessages, AreDroppedWhenTheLimitBecomesSmaller) {
  UnfinishedMessages messages({}, kLimit);
  Sending large, small, stranger, nobody;
  for (int i = 0; i < 5; ++i) large.To(messages, "large", "key");
  for (int i = 0; i < 2; ++i) small.To(messages, "small", "key");
  for (int i = 0; i < 2; ++i) stranger.To(messages, "stranger", "other key");
  for (int i = 0; i < 5; ++i) nobody.To(messages, "nobody", "");
  messages.SetBytesOfUser(kLimit - 1);
  EXPECT_THAT(messages.TakeDropped(), IsEmpty());
  messages.SetBytesOfUser(2 * kPartBytes);
  EXPECT_THAT(messages.TakeDropped(), ElementsAre("large"));
  messages.SetBytesOfUser(kPartBytes);
  EXPECT_THAT(messages.TakeDropped(), UnorderedElementsAre("small", "stranger"));
  // A larger limit admits more again.
  messages.SetBytesOfUser(kLimit);
  Sending next;
  for (int i = 0; i < 5; ++i) next.To(messages, "next", "key");
  EXPECT_THAT(messages.TakeDropped(), IsEmpty());
}

TEST(UnfinishedMessages, WithoutUsersHaveNoLimitTogether) {
  UnfinishedMessages messages({}, kLimit);
  std::vector<Sending> many(4);
  for (std::size_t i = 0; i < many.size(); ++i) {
    for (int part = 0; part < 5; ++part) many[i].To(messages, "peer " + std::to_string(i), "");
  }
  EXPECT_THAT(messages.TakeDropped(), IsEmpty());
}

}  // namespace
}  // namespace tuplespace
