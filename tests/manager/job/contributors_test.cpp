// Contributors: the names of a key's clients are limited, and one name stands for more of them.
#include "acan/manager/contributors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <string>

namespace acan {
namespace {

using ::testing::ElementsAre;

void AddMany(const std::string& prefix, std::size_t count, Contributors* contributors) {
  for (std::size_t i = 0; i < count; ++i) contributors->Add(prefix + std::to_string(i));
}

TEST(ContributorsTest, AKeyWithTooManyClientsHasOneName) {
  const std::string all = Contributors::AllClientsOf("evil/0");
  Contributors contributors;
  contributors.AddAll({"a/1", "evil/"});
  AddMany("evil/", Contributors::kMostOfKey, &contributors);
  AddMany("evil/", Contributors::kMostOfKey, &contributors);  // the same
  EXPECT_EQ(contributors.names().size(), Contributors::kMostOfKey + 2);
  contributors.Add("evil/another");
  EXPECT_THAT(contributors.names(), ElementsAre("a/1", "evil/", all));
  contributors.AddAll({"a/1", "a/2", "evil/0", "evil/", all});
  EXPECT_THAT(contributors.names(), ElementsAre("a/1", "a/2", "evil/", all));
}

TEST(ContributorsTest, ANameThatStandsForAllReplacesTheOthers) {
  const std::string all = Contributors::AllClientsOf("k/1");
  Contributors contributors;
  contributors.AddAll({"j/1", "k/", "k/1", "k/2", "l/1"});
  contributors.Add(all);
  EXPECT_THAT(contributors.names(), ElementsAre("j/1", "k/", all, "l/1"));
}

TEST(ContributorsTest, ClientsWithoutAKeyAreLimitedTogether) {
  Contributors contributors;
  contributors.AddAll({"k/", "k/1"});
  AddMany("", Contributors::kMostOfKey + 1, &contributors);
  EXPECT_THAT(contributors.names(), ElementsAre(Contributors::AllClientsOf("1"), "k/", "k/1"));
}

}  // namespace
}  // namespace acan
