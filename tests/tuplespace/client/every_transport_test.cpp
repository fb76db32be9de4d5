// Client and broker over every transport, which must all behave alike.
#include <gmock/gmock.h>

#include <optional>
#include <zmq.hpp>

#include "broker_fixture.h"

namespace tuplespace {
namespace {

using std::chrono::milliseconds;
using ::testing::ElementsAre;

class EveryTransport : public ::testing::TestWithParam<std::string> {
 protected:
  BrokerOptions Options() {
    std::string endpoint = "inproc://every";
    if (GetParam() == "ipc") endpoint = folder_.Ipc();
    if (GetParam() == "tcp") endpoint = "tcp://127.0.0.1:*";
    BrokerOptions options = BrokerThread::Options(endpoint);
    options.context = &context_;
    return options;
  }
  ClientOptions Joining(const BrokerThread& broker, const std::string& id = "") {
    ClientOptions options = ClientAt(broker.endpoint(), id);
    options.context = &context_;
    return options;
  }

  TemporaryFolder folder_;
  zmq::context_t context_;
};

TEST_P(EveryTransport, PutReadTake) {
  BrokerThread broker(Options());
  Client client(Joining(broker, "one"));
  const Key key{"job", 3, "tile"};
  const auto status =
      client.Put({PlainTuple(key, "abc"), PlainTuple(key, "abc"), PlainTuple(key, "other")});
  ASSERT_TRUE(status);
  EXPECT_THAT(*status,
              ElementsAre(PutStatus::kStored, PutStatus::kDuplicate, PutStatus::kConflict));

  const auto found = client.ReadOne(Pattern::Of(key));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->key, key);
  EXPECT_EQ(found->payload.text(), "abc");
  EXPECT_EQ(found->payload_bytes, 3u);
  EXPECT_EQ(found->put_by, "one");
  EXPECT_EQ(client.CountOf(AnyOf("job")), 1u);

  const auto taken = client.Take(AnyOf("job"));
  ASSERT_TRUE(taken);
  EXPECT_EQ(taken->payload.text(), "abc");
  EXPECT_EQ(client.CountOf(AnyOf("job")), 0u);
}

TEST_P(EveryTransport, PayloadsOfEverySizeArriveUnchanged) {
  BrokerThread broker(Options());
  Client putter(Joining(broker));
  Client reader(Joining(broker));
  const std::vector<std::size_t> sizes = {
      0,        1, 29, 33, 34, 511, 512, 513, 8191, 8192, 8193, 65'536, 1u << 20, (1u << 20) + 1,
      20u << 20};
  std::vector<Tuple> tuples;
  for (const std::size_t size : sizes) {
    tuples.push_back(PlainTuple({"size", static_cast<std::int64_t>(size)}, Repeated(size, 'x')));
  }
  ASSERT_TRUE(putter.Put(tuples));
  const std::vector<FoundTuple> found = reader.ListAll(AnyOf("size"));
  ASSERT_EQ(found.size(), sizes.size());
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    EXPECT_EQ(found[i].payload.text(), Repeated(sizes[i], 'x')) << sizes[i];
    EXPECT_EQ(found[i].payload_bytes, sizes[i]);
  }
  for (const FoundTuple& metadata : reader.ListAll(AnyOf("size"), /*metadata_only=*/true)) {
    EXPECT_TRUE(metadata.payload.empty());
    EXPECT_EQ(std::get<std::int64_t>(metadata.key.Fields()[1]),
              static_cast<std::int64_t>(metadata.payload_bytes));
  }
}

TEST_P(EveryTransport, AReadWaitsUntilThereIsAMatch) {
  BrokerThread broker(Options());
  Client reader(Joining(broker));
  Client putter(Joining(broker));
  std::optional<std::string> got;
  Read read;
  read.patterns = {AnyOf("later")};
  read.wait_us = kForeverUs;
  reader.Submit(read, [&](ReplyBody&& reply) {
    got = std::string(std::get<Found>(reply).tuples.at(0).payload.text());
  });
  ASSERT_TRUE(reader.CountOf(AnyOf("later")));  // the Read has reached the broker
  EXPECT_FALSE(got);
  ASSERT_TRUE(putter.Put({PlainTuple({"later", 1}, "now")}));
  ASSERT_TRUE(PollUntil(reader, [&] { return got.has_value(); }));
  EXPECT_EQ(*got, "now");
}

TEST_P(EveryTransport, APayloadThatStaysIsSuppliedWhenSomebodyReadsIt) {
  BrokerThread broker(Options());
  Client owner(Joining(broker));
  Client reader(Joining(broker));
  std::vector<Notice> notices;
  owner.OnNotice([&](Notice&& notice) { notices.push_back(std::move(notice)); });
  const Key tile{"tile", 1}, other{"tile", 2};
  const std::string bytes = Repeated(300'000, 's');
  {
    Client maker(Joining(broker, "maker"));
    maker.OnNotice([&](Notice&& notice) {
      if (notice.kind != Notice::Kind::kWanted) return;
      maker.Submit(Supply{{PlainTuple(notice.key, bytes)}}, [](ReplyBody&& reply) {
        EXPECT_THAT(std::get<PutReply>(reply).status, ElementsAre(PutStatus::kStored));
      });
    });
    Tuple task = TaskTuple({"task", 1}, "work");
    task.task->results = {tile, other};
    ASSERT_TRUE(owner.Put({task}));
    Get get;
    get.pattern = AnyOf("task");
    const std::vector<Grant> grants = maker.GetSome(get);
    ASSERT_EQ(grants.size(), 1u);
    Tuple first = PlainTuple(tile, ""), second = PlainTuple(other, "");
    first.resident_bytes = second.resident_bytes = bytes.size();
    const auto done = maker.CompleteTask({grants[0].key, grants[0].fence}, {first, second});
    ASSERT_TRUE(done);
    EXPECT_THAT(done->results, ElementsAre(PutStatus::kStored, PutStatus::kStored));

    std::optional<FoundTuple> found;
    Read read{{Pattern::Of(tile)}};
    read.wait_us = kForeverUs;
    reader.Submit(read, [&](ReplyBody&& reply) { found = std::get<Found>(reply).tuples.at(0); });
    ASSERT_TRUE(reader.CountOf(AnyOf("tile")));  // the Read has reached the broker
    EXPECT_FALSE(found);
    ASSERT_TRUE(PollUntil(maker, [&] {
      reader.Poll(milliseconds(0));
      return found.has_value();
    }));
    EXPECT_EQ(found->payload.text(), bytes);
    EXPECT_EQ(found->put_by, "maker");
    for (const FoundTuple& metadata : reader.ListAll(AnyOf("tile"), /*metadata_only=*/true)) {
      EXPECT_EQ(metadata.payload_bytes, bytes.size());
      EXPECT_EQ(metadata.resident, metadata.key == other);
    }
  }
  ASSERT_TRUE(PollUntil(owner, [&] { return !notices.empty(); }));
  EXPECT_EQ(notices[0].kind, Notice::Kind::kLost);
  EXPECT_EQ(notices[0].key, other);
  EXPECT_EQ(notices[0].by, "maker");
  EXPECT_EQ(reader.CountOf(AnyOf("tile")), 1u);
}

TEST_P(EveryTransport, ATaskGoesAllTheWay) {
  BrokerThread broker(Options());
  Client manager(Joining(broker, "manager"));
  Client handler(Joining(broker, "handler"));
  Tuple task = TaskTuple({"task", 1}, "multiply", {Key{"in", 1}, Key{"in", 2}});
  task.task->need_bytes = 200'000;
  task.task->priority = -5;
  task.task->lease_us = 30'000'000;
  task.task->affinity = 1;
  task.task->results = {Key{"out", 1}};
  ASSERT_TRUE(manager.Put({task}));

  Get get;
  get.pattern = AnyOf("task");
  get.offer_bytes = 1'000'000;
  get.with_inputs = true;
  EXPECT_TRUE(handler.GetSome(get, milliseconds(0)).empty());  // its inputs are missing
  const std::string big = Repeated(100'000, 'q');
  ASSERT_TRUE(manager.Put({PlainTuple({"in", 1}, "one"), PlainTuple({"in", 2}, big)}));
  const std::vector<Grant> grants = handler.GetSome(get);
  ASSERT_EQ(grants.size(), 1u);
  const Grant& grant = grants[0];
  EXPECT_EQ(grant.key, (Key{"task", 1}));
  EXPECT_EQ(grant.payload.text(), "multiply");
  EXPECT_EQ(grant.lease_us, 30'000'000);
  ASSERT_TRUE(grant.task);
  EXPECT_EQ(grant.task->need_bytes, 200'000u);
  EXPECT_EQ(grant.task->priority, -5);
  EXPECT_EQ(grant.task->affinity, 1);
  ASSERT_EQ(grant.inputs.size(), 2u);
  EXPECT_EQ(grant.inputs[0].payload.text(), "one");
  EXPECT_EQ(grant.inputs[1].payload.text(), big);
  EXPECT_THAT(grant.input_sent, ElementsAre(true, true));

  const LeaseRef lease{grant.key, grant.fence};
  const auto done = handler.CompleteTask(lease, {PlainTuple({"out", 1}, "product")});
  ASSERT_TRUE(done);
  EXPECT_EQ(done->lease, LeaseStatus::kOk);
  EXPECT_THAT(done->results, ElementsAre(PutStatus::kStored));
  const auto again = handler.CompleteTask(lease, {PlainTuple({"out", 1}, "product")});
  ASSERT_TRUE(again);
  EXPECT_EQ(again->lease, LeaseStatus::kStale);
  EXPECT_EQ(manager.ReadOne(AnyOf("out"))->payload.text(), "product");
}

TEST_P(EveryTransport, RepliesComeInTheOrderOfTheRequests) {
  BrokerThread broker(Options());
  Client client(Joining(broker));
  constexpr int kPuts = 5000;
  std::vector<int> order;
  for (int i = 0; i < kPuts; ++i) {
    // Some payloads are inline, others in their own frames.
    const std::size_t bytes = i % 7 == 0 ? 600 : 10;
    client.Submit(Put{{PlainTuple({"n", i}, Repeated(bytes, 'o'))}},
                  [&order, i](ReplyBody&& reply) {
                    EXPECT_THAT(std::get<PutReply>(reply).status, ElementsAre(PutStatus::kStored));
                    order.push_back(i);
                  });
  }
  ASSERT_TRUE(PollUntil(client, [&] { return order.size() == kPuts; }));
  for (int i = 0; i < kPuts; ++i) ASSERT_EQ(order[static_cast<std::size_t>(i)], i);
  EXPECT_EQ(client.unanswered(), 0u);
}

TEST_P(EveryTransport, AClientThatLeavesGivesItsLeaseBackAtOnce) {
  BrokerThread broker(Options());
  Client other(Joining(broker));
  ASSERT_TRUE(other.Put({TaskTuple({"task", 1}, "x")}));
  Get get;
  get.pattern = AnyOf("task");
  {
    Client leaving(Joining(broker));
    ASSERT_EQ(leaving.GetSome(get).size(), 1u);
  }
  const std::vector<Grant> grants = other.GetSome(get);
  ASSERT_EQ(grants.size(), 1u);
  EXPECT_EQ(broker.Join().counters.leases_returned, 1u);
}

TEST_P(EveryTransport, TheClientMayComeBeforeTheBroker) {
  BrokerOptions options = Options();
  if (GetParam() == "tcp") {
    // A port that was free a moment ago.
    BrokerThread scout(options);
    options.listen = {scout.endpoint()};
  }
  ClientOptions early = ClientAt(options.listen.front());
  early.context = &context_;
  Client client(early);
  bool stored = false;
  client.Submit(Put{{PlainTuple({"early", 1}, "x")}}, [&](ReplyBody&&) { stored = true; });
  client.Poll(milliseconds(20));
  EXPECT_FALSE(client.connected());
  BrokerThread broker(options);
  ASSERT_TRUE(PollUntil(client, [&] { return stored; }));
  EXPECT_TRUE(client.connected());
}

TEST_P(EveryTransport, UnansweredRequestsReachTheNextBroker) {
  BrokerOptions options = Options();
  auto broker = std::make_unique<BrokerThread>(options);
  options.listen = {broker->endpoint()};
  Client client(Joining(*broker, "survivor"));
  std::vector<std::string> connection;
  client.OnConnection([&](bool connected, const std::string& why) {
    connection.push_back(connected ? "up" : "down");
    EXPECT_FALSE(why.empty());
  });
  std::optional<std::string> read_text;
  Read read;
  read.patterns = {AnyOf("answer")};
  read.wait_us = kForeverUs;
  client.Submit(read, [&](ReplyBody&& reply) {
    read_text = std::string(std::get<Found>(reply).tuples.at(0).payload.text());
  });
  std::optional<std::size_t> granted;
  Get get;
  get.pattern = AnyOf("task");
  client.Submit(get, [&](ReplyBody&& reply) { granted = std::get<Grants>(reply).grants.size(); });
  ASSERT_TRUE(client.CountOf(AnyOf("answer")));

  broker.reset();
  ASSERT_TRUE(PollUntil(client, [&] { return !client.connected(); }));
  bool stored = false;
  client.Submit(Put{{PlainTuple({"mine", 1}, "kept")}}, [&](ReplyBody&&) { stored = true; });
  client.Poll(milliseconds(1));
  broker = std::make_unique<BrokerThread>(options);
  ASSERT_TRUE(PollUntil(client, [&] { return stored; }));
  EXPECT_EQ(client.unanswered(), 2u);

  Client other(Joining(*broker));
  EXPECT_EQ(other.ReadOne(AnyOf("mine"))->payload.text(), "kept");
  ASSERT_TRUE(other.Put({PlainTuple({"answer", 1}, "42"), TaskTuple({"task", 1}, "t")}));
  ASSERT_TRUE(PollUntil(client, [&] { return read_text && granted; }));
  EXPECT_EQ(*read_text, "42");
  EXPECT_EQ(*granted, 1u);
  EXPECT_THAT(connection, ElementsAre("up", "down", "up"));
}

INSTANTIATE_TEST_SUITE_P(Transports, EveryTransport, ::testing::Values("inproc", "ipc", "tcp"),
                         [](const auto& one) { return one.param; });

}  // namespace
}  // namespace tuplespace
