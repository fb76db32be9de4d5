// AuditTrail: whose results the weights may contain.
#include "audit_trail.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

namespace acan {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class AuditTrailTest : public ::testing::Test {
 protected:
  AuditTrail& Trail(double audit) {
    job_.model = Perceptron{{2, 2}};
    job_.tasks.audit = audit;
    trail_.reset();
    context_ = std::make_unique<RunContext>(
        RunSettings(),
        tuplespace::ClientOptions{.endpoint = "ipc:///nobody-is-there", .name = "test", .id = {}},
        job_, BuildModel(job_), data_);
    trail_ = std::make_unique<AuditTrail>(*context_, "", AuditTrail::Handlers(),
                                          [](const AuditTrail::Handlers&) {});
    return *trail_;
  }

  Job job_;
  Data data_;
  std::unique_ptr<RunContext> context_;
  std::unique_ptr<AuditTrail> trail_;
};

// A later life may have audits, and must know which snapshots depend on a handler that it finds.
TEST_F(AuditTrailTest, NamesAllContributorsWithoutAudits) {
  AuditTrail& trail = Trail(0);
  trail.OnContributors({"b", "a"});
  trail.OnContributors({"b"});
  EXPECT_THAT(trail.contributors(), ElementsAre("a", "b"));
  EXPECT_FALSE(trail.has_unnamed_contributors());
}

TEST_F(AuditTrailTest, NamesAllContributorsIfAShareIsAudited) {
  AuditTrail& trail = Trail(0.5);
  trail.OnContributors({"a"});
  EXPECT_THAT(trail.contributors(), ElementsAre("a"));
}

TEST_F(AuditTrailTest, NamesOnlyThoseOfEarlierLivesIfAllIsAudited) {
  AuditTrail& trail = Trail(1);
  RunState past;
  past.version = 3;
  past.contributors = {"earlier"};
  past.unnamed_contributors = true;
  trail.Begin(past);
  trail.OnContributors({"a"});
  EXPECT_THAT(trail.contributors(), ElementsAre("earlier"));
  EXPECT_TRUE(trail.has_unnamed_contributors());
}

// A handler has a new name after each restart, and every snapshot has the names.
TEST_F(AuditTrailTest, NamesALimitedNumberWithoutAudits) {
  AuditTrail& trail = Trail(0);
  constexpr int kMany = 1000;
  for (int i = 0; i < kMany; ++i) trail.OnContributors({std::to_string(i)});
  trail.OnContributors({"0"});
  EXPECT_FALSE(trail.has_unnamed_contributors());
  trail.OnContributors({"another"});
  EXPECT_TRUE(trail.has_unnamed_contributors());
  EXPECT_EQ(trail.contributors().size(), std::size_t{kMany});
  EXPECT_THAT(Trail(0).contributors(), IsEmpty());
}

}  // namespace
}  // namespace acan
