// Shared memory without a broker: blocks of a pool, files in memory, and who may open them.
#include "tuplespace/shared_pool.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <string>

#include "blocks.h"
#include "broker_fixture.h"
#include "mac.h"
#include "memfd.h"
#include "segment_table.h"
#include "sharing_proof.h"

namespace tuplespace {
namespace {

TEST(SharedPool, GivesFreeBlocksOutAgain) {
  const auto pool = SharedPool::Make();
  EXPECT_EQ(pool->Allocate(SharedPool::kMinBytes - 1), nullptr);
  auto first = pool->Allocate(kLarge);
  ASSERT_NE(first, nullptr);
  const std::uint64_t id = first->id;
  std::memset(first->data, 1, first->capacity_bytes);
  EXPECT_NE(pool->Allocate(kLarge)->id, id);
  EXPECT_EQ(pool->counts().free_bytes, kLarge);
  first.reset();
  EXPECT_EQ(pool->counts().free_bytes, 2 * kLarge);
  // A block is not reused for a much smaller size.
  EXPECT_EQ(pool->Allocate(kLarge / 4)->capacity_bytes, kLarge / 4);
  EXPECT_EQ(pool->Allocate(kLarge - 100)->capacity_bytes, kLarge);
  pool->TrimFree(0);
  EXPECT_EQ(pool->counts().segments, 0u);
  EXPECT_EQ(pool->counts().free_bytes, 0u);
}

TEST(SharedPool, KeepsNoMoreThanItMay) {
  const auto pool = SharedPool::Make({.segments = 2, .free_bytes = kLarge});
  auto one = pool->Allocate(kLarge);
  auto two = pool->Allocate(kLarge);
  EXPECT_EQ(pool->Allocate(kLarge), nullptr);
  EXPECT_EQ(pool->counts().refused, 1u);
  one.reset();
  two.reset();
  EXPECT_EQ(pool->counts().free_bytes, kLarge);
  pool->SetFreeLimit([] { return std::uint64_t{0}; });
  pool->Allocate(kLarge).reset();
  EXPECT_EQ(pool->counts().free_bytes, 0u);
}

TEST(SharedPool, GivesBackWhatIsNotNeeded) {
  const auto pool = SharedPool::Make();
  const auto use = [&](std::size_t blocks) {
    std::vector<SharedPool::Block> held;
    for (std::size_t i = 0; i < blocks; ++i) held.push_back(pool->Allocate(kLarge));
  };
  use(6);
  EXPECT_EQ(pool->counts().segments, 6u);
  for (int i = 0; i < 100; ++i) use(2);
  EXPECT_EQ(pool->counts().segments, 2u);
  // Blocks that are needed now and then are kept.
  for (int i = 0; i < 100; ++i) {
    use(2);
    use(3);
  }
  EXPECT_EQ(pool->counts().segments, 3u);
  EXPECT_EQ(pool->counts().created, 7u);
}

TEST(SharedPool, BlocksOutliveTheirPoolObject) {
  SharedPool::Block block = SharedPool::Make()->Allocate(kLarge);
  std::memset(block->data, 7, kLarge);
  EXPECT_EQ(block->data[kLarge - 1], std::byte{7});
}

TEST(SharedPool, LimitsOfTheProcessMakeItGiveNothing) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit tiny = before;
  tiny.rlim_cur = kLarge / 2;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &tiny), 0);
  const auto pool = SharedPool::Make();
  EXPECT_EQ(pool->Allocate(kLarge), nullptr);  // and without a SIGXFSZ
  EXPECT_NE(pool->Allocate(kLarge / 4), nullptr);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  tiny = before;
  tiny.rlim_cur = 3;  // all three are in use
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &tiny), 0);
  const SharedPool::Block none = pool->Allocate(kLarge);
  const Payload payload = pool->CopyOf(Payload::Copy(Bytes('x')));
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(none, nullptr);
  EXPECT_EQ(payload.region(), nullptr);
  EXPECT_EQ(payload.text(), Bytes('x'));
}

TEST(SharedPool, CopiesAreEqualWhateverTheirSizeAndWhereTheyComeFrom) {
  const auto pool = SharedPool::Make();
  std::string text(kLarge + 4096, ' ');
  for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i * 2654435761u >> 13);
  for (const std::size_t size :
       {kLarge / 2 + 3, kLarge - 1, kLarge, kLarge + 1, kLarge + 63, kLarge + 64, kLarge + 4000}) {
    for (const std::size_t offset : {0, 1, 16, 33}) {
      const std::string_view part = std::string_view(text).substr(offset, size);
      const Payload copy = pool->CopyOf(Payload(nullptr, part.data(), part.size()));
      ASSERT_TRUE(copy.text() == part) << size << " bytes from " << offset;
      EXPECT_EQ(copy.hash(), HashOf(copy.bytes()));
    }
  }
}

TEST(MemoryFile, NobodyElseCanChangeIt) {
  const auto file = MakeMemoryFile(kLarge);
  ASSERT_TRUE(file.has_value());
  EXPECT_NE(ftruncate(file->fd.get(), 0), 0);
  EXPECT_NE(ftruncate(file->fd.get(), 2 * kLarge), 0);
  const auto self = PeerFiles::Of(getpid());
  ASSERT_TRUE(self.has_value());
  const auto opened = self->Open(file->fd.get());
  ASSERT_TRUE(opened.has_value());
  EXPECT_EQ(mmap(nullptr, kLarge, PROT_READ | PROT_WRITE, MAP_SHARED, opened->get(), 0),
            MAP_FAILED);
  const std::string path = "/proc/self/fd/" + std::to_string(file->fd.get());
  const UniqueFd writable(open(path.c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_TRUE(writable.valid());
  EXPECT_EQ(mmap(nullptr, kLarge, PROT_READ | PROT_WRITE, MAP_SHARED, writable.get(), 0),
            MAP_FAILED);
  EXPECT_EQ(write(writable.get(), "x", 1), -1);
}

TEST(PeerFiles, OpensNothingButSealedMemory) {
  const auto self = PeerFiles::Of(getpid());
  ASSERT_TRUE(self.has_value());
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  EXPECT_FALSE(self->Open(ends[0]).has_value());
  close(ends[0]);
  close(ends[1]);
  EXPECT_FALSE(self->Open(-1).has_value());
  EXPECT_FALSE(self->Open(1 << 20).has_value());
  const UniqueFd other(memfd_create("other", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  EXPECT_FALSE(self->Open(other.get()).has_value());
  const UniqueFd unsealed(memfd_create("tuplespace", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(ftruncate(unsealed.get(), 4096), 0);
  EXPECT_FALSE(self->Open(unsealed.get()).has_value());
  EXPECT_FALSE(PeerFiles::Of(0).has_value());
  EXPECT_FALSE(PeerFiles::Of(-1).has_value());
}

TEST(PeerFiles, TakesNothingElseForAProbe) {
  const auto self = PeerFiles::Of(getpid());
  ASSERT_TRUE(self.has_value());
  const auto probe = SharingProbe::Make();
  ASSERT_TRUE(probe.has_value());
  EXPECT_EQ(SharingProbe::Read(*self, probe->fd()), probe->secret());
  EXPECT_FALSE(self->Open(probe->fd()).has_value()) << "it holds no payload";
  const std::uint64_t page = RoundToPages(1);
  const auto payload = MakeMemoryFile(page);
  EXPECT_FALSE(SharingProbe::Read(*self, payload->fd.get()).has_value());
  const auto large = MakeMemoryFile(2 * page, MemoryKind::kProbe);
  EXPECT_FALSE(SharingProbe::Read(*self, large->fd.get()).has_value());
  const UniqueFd unsealed(memfd_create("tuplespace-probe", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(ftruncate(unsealed.get(), static_cast<off_t>(page)), 0);
  EXPECT_FALSE(SharingProbe::Read(*self, unsealed.get()).has_value());
  // A regular file with such a name, whose content others may know.
  const TemporaryFolder folder;
  const std::string path = folder.Path("memfd:tuplespace-probe");
  const UniqueFd file(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  ASSERT_EQ(ftruncate(file.get(), static_cast<off_t>(page)), 0);
  EXPECT_FALSE(SharingProbe::Read(*self, file.get()).has_value());
}

// The offer of a client that owns this probe.
Sharing OfferOf(const SharingProbe& probe, std::uint64_t nonce) {
  Sharing offer{getpid(), probe.fd(), {}, {}};
  offer.proof = HelloProof(probe.secret(), nonce, offer);
  return offer;
}

class SharingTable : public testing::Test {
 protected:
  std::vector<std::uint64_t> Refused() {
    const auto output = table_.TakeOutput();
    return output.size() == 1 ? output[0].message.refused : std::vector<std::uint64_t>{};
  }
  SegmentTable table_{100};
  const std::optional<SharingProbe> probe_ = SharingProbe::Make();
  const std::optional<MemoryFile> segment_ = MakeMemoryFile(kLarge);
};

TEST_F(SharingTable, WhoCannotProveThatTheProbeIsItsOwnSharesNothing) {
  const std::uint64_t nonce = 7;
  const Sharing good = OfferOf(*probe_, nonce);
  const auto told = table_.Joined("asks", 1, nonce, Sharing{getpid(), 1 << 20, {}, {}});
  ASSERT_TRUE(told.has_value());
  Sharing of_the_broker = *told;
  of_the_broker.sees.clear();
  std::vector<Sharing> offers = {
      {getpid(), 1 << 20, good.proof, {}},  // as if from another host: no such descriptor here
      {getpid(), probe_->fd(), {}, {}},
      {getpid(), probe_->fd(), std::string(kMacBytes, 'x'), {}},
      {getpid(), probe_->fd(), probe_->secret(), {}},
      {getppid(), probe_->fd(), good.proof, {}},
      {getpid(), segment_->fd.get(), HelloProof(std::string(32, '\0'), nonce, good), {}},
      OfferOf(*probe_, nonce + 1),  // seen in another Hello
      of_the_broker};
  std::uint64_t session = 1;
  for (const Sharing& offer : offers) {
    const std::string client = "far " + std::to_string(++session);
    const auto answer = table_.Joined(client, session, nonce, offer);
    ASSERT_TRUE(answer.has_value());
    EXPECT_EQ(answer->sees, "") << client;
    for (const std::string& sees : {answer->proof, std::string(kMacBytes, 'x')}) {
      table_.Receive(client, session, {.sees = sees, .returned = {}, .dropped = {}});
      EXPECT_EQ(table_.To(client), nullptr) << client;
    }
    for (const int fd : {segment_->fd.get(), answer->fd}) {
      EXPECT_FALSE(table_.From(client)->Open(session, {1, 100, fd}).has_value()) << client;
    }
    EXPECT_EQ(Refused(), (std::vector<std::uint64_t>{1, 1})) << client;
  }
}

TEST_F(SharingTable, WhoProvesItSharesItsSegmentsAndNothingElse) {
  const auto agreed = table_.Joined("near", 2, 7, OfferOf(*probe_, 7));
  ASSERT_TRUE(agreed.has_value());
  EXPECT_EQ(agreed->sees, BrokerSeesProof(probe_->secret(), 7));
  const auto secret = SharingProbe::Read(*PeerFiles::Of(agreed->pid), agreed->fd);
  ASSERT_TRUE(secret.has_value());
  EXPECT_EQ(agreed->proof, WelcomeProof(*secret, 7, *agreed));
  table_.Receive("near", 2, {.sees = ClientSeesProof(*secret, 3), .returned = {}, .dropped = {}});
  EXPECT_EQ(table_.To("near"), nullptr) << "it is the proof of another session";
  table_.Receive("near", 2, {.sees = ClientSeesProof(*secret, 2), .returned = {}, .dropped = {}});
  EXPECT_NE(table_.To("near"), nullptr);
  SegmentOpener& opener = *table_.From("near");
  EXPECT_FALSE(opener.Open(2, {1, 100, probe_->fd()}).has_value());
  EXPECT_FALSE(opener.Open(2, {2, kLarge + 1, segment_->fd.get()}).has_value());
  EXPECT_TRUE(opener.Open(2, {3, 100, segment_->fd.get()}).has_value());
}

TEST_F(SharingTable, NothingIsSharedWhereEitherSideDoesNotOffer) {
  EXPECT_EQ(table_.Joined("nobody", 3, 7, std::nullopt), std::nullopt);
  EXPECT_EQ(SegmentTable(0).Joined("off", 1, 7, OfferOf(*probe_, 7)), std::nullopt);
}

TEST(SharedPool, FindsABlockByTheHashOfItsBytes) {
  const auto pool = SharedPool::Make();
  const Payload first = InBlock(*pool, 'x'), second = InBlock(*pool, 'x');
  const PayloadHash hash = *first.hash();
  EXPECT_EQ(pool->Find(hash, kLarge), nullptr) << "it was not put";
  for (const Payload& payload : {first, second}) {
    pool->Lend(*payload.region());
    pool->RememberHash(payload);
  }
  EXPECT_EQ(pool->Find(hash, kLarge)->data, second.data());
  EXPECT_EQ(pool->Find(hash, kLarge - 1), nullptr);
  EXPECT_EQ(pool->Find({hash.low, hash.high + 1}, kLarge), nullptr);
  EXPECT_EQ(pool->Find({hash.low + 1, hash.high}, kLarge), nullptr);
  pool->SessionEnded();
  EXPECT_NE(pool->Find(hash, kLarge), nullptr) << "this process still has it";
}

}  // namespace
}  // namespace tuplespace
