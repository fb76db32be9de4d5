// Large messages over a link so slow that each takes longer than a wait, a lease or the time after
// which a silent client or broker counts as lost.
#include <gmock/gmock.h>

#include "broker_fixture.h"
#include "cutting_relay.h"

namespace tuplespace {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;

constexpr std::uint64_t kBytesPerSecond = 3'000'000;
constexpr std::size_t kLargeBytes = 12'000'000;

class SlowLink : public ::testing::Test {
 protected:
  void Begin(std::int64_t silence_us = 10'000'000) {
    BrokerOptions options = BrokerThread::Options("tcp://127.0.0.1:*");
    options.client_silence_us = silence_us;
    broker_ = std::make_unique<BrokerThread>(options);
    near_ = std::make_unique<Client>(ClientAt(broker_->endpoint(), "near"));
    relay_ = std::make_unique<CuttingRelay>(broker_->endpoint());
    ClientOptions far = ClientAt(relay_->endpoint(), "far");
    far.shared_memory = false;  // shared memory would bypass the relay
    far_ = std::make_unique<Client>(far);
    far_->OnConnection([this](bool connected, const std::string&) { lost_ += !connected; });
    // A message that is sent again and again would never arrive.
    far_->SetInterrupt([this] {
      if (lost_ > 0 || relay_->passed() > 2 * kLargeBytes)
        throw std::runtime_error("it is repeated");
    });
    ASSERT_TRUE(far_->GetStatistics(kGenerous));
    relay_->LimitTo(kBytesPerSecond);
  }
  static Tuple Tile() { return PlainTuple({"tile"}, std::string(kLargeBytes, 't')); }

  std::unique_ptr<BrokerThread> broker_;
  std::unique_ptr<Client> near_;
  std::unique_ptr<CuttingRelay> relay_;
  std::unique_ptr<Client> far_;
  int lost_ = 0;
};

TEST_F(SlowLink, AnAnswerThatArrivesIsAwaitedLongerThanTheWait) {
  Begin();
  ASSERT_TRUE(near_->Put({Tile()}, kGenerous));
  const auto found = far_->ReadOne(AnyOf("tile"), std::chrono::seconds(1));
  ASSERT_TRUE(found);
  EXPECT_THAT(found->payload.bytes(), SizeIs(kLargeBytes));
}

TEST_F(SlowLink, ALargeMessageIsNotTakenForSilence) {
  Begin(/*silence_us=*/2'000'000);
  EXPECT_THAT(far_->Put({Tile()}).value(), ElementsAre(PutStatus::kStored));
  EXPECT_EQ(lost_, 0);
}

TEST_F(SlowLink, ALockIsKeptWhileItsHolderSendsALargeMessage) {
  Begin();
  Get get;
  get.pattern = Pattern::Of({"lock"});
  get.lease_us = 2'000'000;
  ASSERT_TRUE(far_->Put({PlainTuple({"lock"}, "")}));
  const std::vector<Grant> grants = far_->GetSome(get);
  ASSERT_THAT(grants, SizeIs(1));
  far_->ChangeUnder(LeaseRef{grants[0].key, grants[0].fence});
  EXPECT_THAT(far_->Put({Tile()}).value(), ElementsAre(PutStatus::kStored));
}

}  // namespace
}  // namespace tuplespace
