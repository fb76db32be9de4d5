// Payloads in shared memory at a broker: when memory may be reused, and what remains when a process
// dies at any point.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <string>

#include "blocks.h"
#include "broker_fixture.h"

namespace tuplespace {
namespace {

std::vector<Tuple> One(const Key& key, Payload payload) {
  std::vector<Tuple> tuples(1);
  tuples[0].key = key;
  tuples[0].payload = std::move(payload);
  return tuples;
}

// Returns a client that is connected and knows whether it shares memory.
std::unique_ptr<Client> Joined(const std::string& endpoint, std::shared_ptr<SharedPool> pool = {}) {
  ClientOptions options = ClientAt(endpoint);
  options.pool = std::move(pool);
  auto client = std::make_unique<Client>(std::move(options));
  EXPECT_TRUE(client->GetStatistics(kGenerous).has_value());
  return client;
}

// Waits until the client has heard that neither the space nor readers use memory of the pool.
bool AwaitNothingLent(Client& client, const SharedPool& pool) {
  return PollUntil(client, [&] {
    client.GetStatistics();
    return pool.counts().lent == 0;
  });
}

// Each refused Put costs an error and is sent again.
TEST(SharedPool, TriesNewBlocksEverMoreRarelyWhereTheBrokerRefusesThem) {
  const auto pool = SharedPool::Make();
  int without = 0;
  const auto next = [&] {
    SharedPool::Block block = pool->Allocate(SharedPool::kMinBytes);
    for (without = 0; !block; ++without) block = pool->Allocate(SharedPool::kMinBytes);
    pool->Lend(*block);
    return block;
  };
  std::vector<SharedPool::Block> known = {next(), next()};
  pool->Refused(next()->id);
  const SharedPool::Block late = next();
  EXPECT_EQ(without, 64);
  pool->Refused(late->id);
  for (const SharedPool::Block& block : known) pool->Refused(block->id);  // sent before the refusal
  known = {next()};
  EXPECT_EQ(without, 128);
  // Meanwhile a block that the broker has is reused.
  const std::uint64_t id = known.front()->id;
  pool->Refused(next()->id);
  known.clear();
  pool->Freed(id, 1);
  known = {next()};
  EXPECT_EQ(known.front()->id, id);
  // The broker accepts blocks again.
  for (int i = 0; i < 257; ++i) known.push_back(next());
  pool->Refused(next()->id);
  next();
  EXPECT_EQ(without, 64);
}

class SharedMemory : public testing::Test {
 protected:
  TemporaryFolder folder_;
};

TEST_F(SharedMemory, BlocksAreWrittenAgainWhenNobodyReadsThem) {
  BrokerThread broker(folder_.Ipc());
  const auto pool = SharedPool::Make();
  const auto writer = Joined(broker.endpoint(), pool);
  const auto reader = Joined(broker.endpoint());
  ASSERT_TRUE(writer->shares_memory());
  ASSERT_TRUE(reader->shares_memory());
  writer->Put(One(Key{"a", 1}, InBlock(*pool, 'a')));
  EXPECT_EQ(pool->counts().lent, 1u);
  auto found = reader->ReadOne(AnyOf("a"), kGenerous);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->payload.text(), Bytes('a'));
  writer->RetireAll(AnyOf("a"), false);
  // The tuple is gone, but a reader still has its payload.
  const Payload other = InBlock(*pool, 'b');
  reader->GetStatistics();
  writer->GetStatistics();
  EXPECT_EQ(pool->counts().lent, 1u);
  EXPECT_EQ(found->payload.text(), Bytes('a'));
  found.reset();
  reader->GetStatistics();
  EXPECT_TRUE(AwaitNothingLent(*writer, *pool));
  EXPECT_EQ(pool->counts().free_bytes, kLarge);
  const std::uint64_t reused = pool->counts().reused;
  writer->Put(One(Key{"c", 1}, InBlock(*pool, 'c')));
  EXPECT_EQ(pool->counts().reused, reused + 1);
  EXPECT_EQ(reader->ReadOne(AnyOf("c"), kGenerous)->payload.text(), Bytes('c'));
}

// Code that makes payloads for a client may use the client's pool, as long as the broker can open
// its blocks.
TEST_F(SharedMemory, WhatIsMadeInTheClientsPoolIsNotCopied) {
  BrokerThread broker(folder_.Ipc());
  Client stranger(ClientAt(broker.endpoint()));
  EXPECT_EQ(stranger.pool(), nullptr);  // it has not joined
  const auto writer = Joined(broker.endpoint());
  SharedPool* const pool = writer->pool();
  ASSERT_NE(pool, nullptr);
  const Payload made = InBlock(*pool, 'a');
  const std::uint64_t copied = pool->counts().copied;
  writer->Put(One(Key{"a", 1}, made));
  EXPECT_EQ(pool->counts().lent, 1u);
  EXPECT_EQ(pool->counts().copied, copied);
  writer->Put(One(Key{"a", 2}, Payload::Copy(Bytes('b'))));
  EXPECT_EQ(pool->counts().copied, copied + 1);
}

// A maker that reads its own payload knows its own hash of the bytes and needs no second check.
TEST_F(SharedMemory, WhatIsReadByItsMakerIsNotHashedAgain) {
  BrokerThread broker(folder_.Ipc());
  const auto pool = SharedPool::Make();
  const auto maker = Joined(broker.endpoint(), pool);
  const auto other = Joined(broker.endpoint(), SharedPool::Make());
  Payload made = InBlock(*pool, 'a');
  const std::byte* data = made.data();
  maker->Put(One(Key{"a", 1}, std::move(made)));
  auto found = maker->ReadOne(AnyOf("a"), kGenerous);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->payload.data(), data) << "its own memory, not a second mapping of it";
  EXPECT_EQ(found->payload.hash(), HashOf(found->payload.bytes()));
  // A change after hashing is detected by other clients; the maker does not check.
  pool->Find(*found->payload.hash(), kLarge)->data[7] = std::byte{'b'};
  EXPECT_EQ(maker->ReadOne(AnyOf("a"), kGenerous)->payload.text()[7], 'b');
  EXPECT_THROW(other->ReadOne(AnyOf("a"), kGenerous), std::runtime_error);
  // The block is not reused while its maker reads it; afterwards its hash is forgotten.
  const PayloadHash hash = *found->payload.hash();
  maker->RetireAll(AnyOf("a"), false);
  maker->GetStatistics();
  EXPECT_EQ(pool->counts().lent, 1u);
  EXPECT_EQ(pool->counts().free_bytes, 0u);
  found.reset();
  other->GetStatistics();
  EXPECT_TRUE(AwaitNothingLent(*maker, *pool));
  EXPECT_EQ(pool->counts().free_bytes, kLarge);
  EXPECT_EQ(pool->Find(hash, kLarge), nullptr);
}

TEST_F(SharedMemory, OnePayloadUnderSeveralKeysIsFreeAfterTheLast) {
  BrokerThread broker(folder_.Ipc());
  const auto pool = SharedPool::Make();
  const auto writer = Joined(broker.endpoint(), pool);
  Payload payload = InBlock(*pool, 'p');
  for (int i = 0; i < 3; ++i) writer->Put(One(Key{"k", i}, payload));
  writer->Put(One(Key{"k", 0}, payload));  // a duplicate
  payload = {};
  for (int i = 0; i < 3; ++i) {
    writer->GetStatistics();
    EXPECT_EQ(pool->counts().lent, 1u) << i;
    writer->RetireAll(Pattern::Of(Key{"k", i}), false);
  }
  EXPECT_TRUE(AwaitNothingLent(*writer, *pool));
}

TEST_F(SharedMemory, AReaderThatWasGivenUpMayReadOn) {
  BrokerThread broker(folder_.Ipc());
  const auto pool = SharedPool::Make();
  const auto writer = Joined(broker.endpoint(), pool);
  auto reader = Joined(broker.endpoint());
  writer->Put(One(Key{"a", 1}, InBlock(*pool, 'a')));
  const auto found = reader->ReadOne(AnyOf("a"), kGenerous);
  ASSERT_TRUE(found.has_value());
  reader.reset();  // its session ends, but the payload stays mapped
  writer->RetireAll(AnyOf("a"), false);
  EXPECT_TRUE(AwaitNothingLent(*writer, *pool));
  const std::uint64_t reused = pool->counts().reused;
  const Payload next = InBlock(*pool, 'b');
  EXPECT_EQ(pool->counts().reused, reused);  // that memory is never reused
  EXPECT_EQ(found->payload.text(), Bytes('a'));
}

TEST_F(SharedMemory, PlainPayloadsAreCopiedOnce) {
  BrokerThread broker(folder_.Ipc());
  const auto pool = SharedPool::Make();
  const auto writer = Joined(broker.endpoint(), pool);
  const auto reader = Joined(broker.endpoint());
  writer->Put(One(Key{"a", 1}, Payload::Copy(Bytes('x'))));
  writer->Put(One(Key{"a", 2}, Payload::Copy(std::string(600, 's'))));
  EXPECT_EQ(pool->counts().created, 1u);
  EXPECT_EQ(reader->ReadOne(Pattern::Of(Key{"a", 1}), kGenerous)->payload.text(), Bytes('x'));
  EXPECT_EQ(reader->ReadOne(Pattern::Of(Key{"a", 2}), kGenerous)->payload.text(),
            std::string(600, 's'));
}

TEST_F(SharedMemory, WhereEitherSideDoesNotShareBytesTravel) {
  BrokerOptions options = BrokerThread::Options(folder_.Ipc());
  options.shared_segments = 0;
  BrokerThread closed(options);
  BrokerThread open(folder_.Ipc("open"));
  for (BrokerThread* broker : {&closed, &open}) {
    ClientOptions alone = ClientAt(broker->endpoint());
    alone.shared_memory = broker == &closed;
    Client client(alone);
    const auto pool = SharedPool::Make();
    const auto other = Joined(broker->endpoint(), pool);
    other->Put(One(Key{"a", 1}, InBlock(*pool, 'a')));
    EXPECT_EQ(client.ReadOne(AnyOf("a"), kGenerous)->payload.text(), Bytes('a'));
    client.Put(One(Key{"b", 1}, Payload::Copy(Bytes('b'))));
    EXPECT_EQ(other->ReadOne(AnyOf("b"), kGenerous)->payload.text(), Bytes('b'));
    EXPECT_FALSE(client.shares_memory());
    EXPECT_EQ(other->shares_memory(), broker == &open);
  }
}

TEST_F(SharedMemory, WhatTheBrokerCannotOpenIsSentAsBytes) {
  BrokerOptions options = BrokerThread::Options(folder_.Ipc());
  options.shared_segments = 2;
  BrokerThread broker(options);
  const auto pool = SharedPool::Make();
  const auto writer = Joined(broker.endpoint(), pool);
  const auto reader = Joined(broker.endpoint());
  for (int i = 0; i < 5; ++i) {
    const auto put = writer->Put(One(Key{"a", i}, InBlock(*pool, static_cast<char>('a' + i))));
    EXPECT_EQ(put->front(), PutStatus::kStored);
  }
  EXPECT_EQ(pool->counts().lent, 2u);
  EXPECT_EQ(pool->counts().created, 3u) << "the third was refused, and no other tried";
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(reader->ReadOne(Pattern::Of(Key{"a", i}), kGenerous)->payload.text(),
              Bytes(static_cast<char>('a' + i)));
  }
}

TEST_F(SharedMemory, AnotherBrokerGetsWhatWasNotAnswered) {
  auto broker = std::make_unique<BrokerThread>(folder_.Ipc());
  const auto pool = SharedPool::Make();
  const auto writer = Joined(broker->endpoint(), pool);
  Payload kept = InBlock(*pool, 'k');
  writer->Put(One(Key{"a", 1}, kept));
  broker.reset();
  bool answered = false;
  writer->Submit(Put{One(Key{"a", 2}, kept)}, [&](ReplyBody&&) { answered = true; });
  broker = std::make_unique<BrokerThread>(folder_.Ipc());
  EXPECT_TRUE(PollUntil(*writer, [&] { return answered; }));
  const auto reader = Joined(broker->endpoint());
  EXPECT_EQ(reader->ReadOne(AnyOf("a"), kGenerous)->payload.text(), Bytes('k'));
  EXPECT_EQ(reader->CountOf(AnyOf("a")), 1u);
}

// ---- killed processes --------------------------------------------------------------------------

// A child process that runs `body` and then sleeps until it is killed. The constructor returns when
// `body` has ended.
class Victim {
 public:
  explicit Victim(const std::function<void()>& body) {
    int ends[2];
    EXPECT_EQ(pipe(ends), 0);
    pid_ = fork();
    if (pid_ == 0) {
      body();
      [[maybe_unused]] const auto written = write(ends[1], "x", 1);
      for (;;) pause();
    }
    close(ends[1]);
    char one = 0;
    EXPECT_EQ(read(ends[0], &one, 1), 1);
    close(ends[0]);
  }
  ~Victim() { Kill(); }
  void Kill() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }

 private:
  pid_t pid_ = -1;
};

TEST_F(SharedMemory, AnAcknowledgedTupleOutlivesItsProducer) {
  // Forks before there is a broker, whose threads the child would lack.
  const std::string endpoint = folder_.Ipc();
  int go[2];
  ASSERT_EQ(pipe(go), 0);
  std::unique_ptr<BrokerThread> broker;
  std::thread starting([&] {
    char one = 0;
    EXPECT_EQ(read(go[0], &one, 1), 1);
    broker = std::make_unique<BrokerThread>(endpoint);
  });
  Victim producer([&] {
    [[maybe_unused]] const auto written = write(go[1], "x", 1);
    auto* client = new Client(ClientAt(endpoint));  // never destroyed, so it sends no goodbye
    client->GetStatistics();
    const auto put = client->Put(One(Key{"a", 1}, Payload::Copy(Bytes('z'))));
    if (!client->shares_memory() || !put) _exit(1);
  });
  starting.join();
  producer.Kill();
  const auto reader = Joined(endpoint);
  const auto found = reader->ReadOne(AnyOf("a"), kGenerous);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->payload.text(), Bytes('z'));
  close(go[0]);
  close(go[1]);
}

TEST_F(SharedMemory, NothingIsLeftOfAKilledBroker) {
  const std::string endpoint = folder_.Ipc();
  Victim broker([&] {
    auto* serving = new Broker(BrokerThread::Options(endpoint));
    new std::thread([serving] { serving->Run(); });
  });
  const auto pool = SharedPool::Make();
  const auto writer = Joined(endpoint, pool);
  const auto reader = Joined(endpoint);
  writer->Put(One(Key{"a", 1}, InBlock(*pool, 'a')));
  const auto found = reader->ReadOne(AnyOf("a"), kGenerous);
  EXPECT_EQ(pool->counts().lent, 1u);
  broker.Kill();
  EXPECT_TRUE(PollUntil(*writer, [&] { return !writer->connected(); }));
  // The lent memory is returned to the system and not reused.
  EXPECT_EQ(pool->counts().segments, 0u);
  EXPECT_EQ(found->payload.text(), Bytes('a'));  // existing mappings keep it
}

}  // namespace
}  // namespace tuplespace
