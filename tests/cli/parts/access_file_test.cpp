// Key files while they are changed.
#include "access_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <optional>

#include "acan/core/error.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "program.h"

namespace acan::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::ReadFile;
using testing::TestFolder;
using ::testing::ThrowsMessage;

class KeyFileChangeTest : public ::testing::Test {
 protected:
  KeyFileChangeTest() { WriteBrokerFile(path_, file_, Existing::kRefuse); }
  bool HasNew() const { return ::access((path_ + ".new").c_str(), F_OK) == 0; }
  tuplespace::AllowedPeer Peer(const std::string& name) const {
    return {name, tuplespace::MakeKeyPair().public_key, "handler"};
  }

  const TestFolder folder_;
  const std::string path_ = folder_ / "broker.key";
  BrokerFile file_{tuplespace::MakeKeyPair(), {}};
};

TEST_F(KeyFileChangeTest, OfTwoAtATimeTheSecondIsRefusedFromBeforeTheFirstHasRead) {
  std::optional<KeyFileChange> first(std::in_place, path_);
  EXPECT_THAT([&] { KeyFileChange second(path_); },
              ThrowsMessage<Error>(HasSubstr("another acan keygen is running")));
  EXPECT_TRUE(HasNew()) << "who was refused removes nothing";
  file_.peers.push_back(Peer("gpu7"));
  first->Write(file_);
  first->Finish(Existing::kReplace);
  // A finished change blocks nobody, and removes no file of another change.
  std::optional<KeyFileChange> second(std::in_place, path_);
  first.reset();
  EXPECT_TRUE(HasNew());
  EXPECT_EQ(ReadBrokerFile(path_).peers.size(), 1u);
  second.reset();
  EXPECT_FALSE(HasNew()) << "what is not finished is dropped";
  EXPECT_EQ(ReadBrokerFile(path_).peers.size(), 1u);
}

TEST_F(KeyFileChangeTest, WhatCouldNotBeReadAgainDoesNotTakeThePlaceOfWhatCan) {
  const std::string before = ReadFile(path_);
  file_.peers.push_back(Peer("gpu\"7"));
  EXPECT_THAT([&] { WriteBrokerFile(path_, file_, Existing::kReplace); },
              ThrowsMessage<Error>(AllOf(HasSubstr(path_), HasSubstr("not valid TOML"))));
  EXPECT_EQ(ReadFile(path_), before);
  EXPECT_FALSE(HasNew());
}

// In a file written by hand, a time may end in a year that TOML cannot represent.
TEST_F(KeyFileChangeTest, ATimeThatCannotBeWrittenIsRefusedByTheNameOfItsKey) {
  const tuplespace::AllowedPeer peer = Peer("gpu7");
  const std::string path = folder_.Write(
      "by_hand.key", ReadFile(path_) +
                         "[[allowed]]\nname = \"gpu7\"\nrole = \"handler\"\npublic_key = \"" +
                         peer.public_key + "\"\nuntil = 9999-12-31\n");
  ASSERT_EQ(::chmod(path.c_str(), 0600), 0);
  const std::string before = ReadFile(path);
  const BrokerFile read = ReadBrokerFile(path);
  EXPECT_THAT([&] { WriteBrokerFile(path, read, Existing::kReplace); },
              ThrowsMessage<Error>(AllOf(HasSubstr("\"gpu7\""), HasSubstr("0000 to 9999"))));
  EXPECT_EQ(ReadFile(path), before);
}

}  // namespace
}  // namespace acan::cli
