// Messages through shared memory: their order relative to the socket's, full and damaged rings,
// wake-ups, and what a killed process has sent.
#include "channel.h"
#include "bytes.h"

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <zmq.hpp>

#include "broker_fixture.h"
#include "packed_messages.h"
#include "shared_link.h"
#include "sharing_proof.h"
#include "wake_up.h"

namespace tuplespace {
namespace {

std::span<const std::byte> AsBytes(const std::string& text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

std::string TextOf(const ReceivedMultipart& message) {
  return std::string(reinterpret_cast<const char*>(message.control().data()),
                     message.control_bytes);
}

// Both ends of a channel, in one process.
struct Pair {
  Pair() {
    const auto self = PeerFiles::Of(getpid());
    EXPECT_TRUE(near->Attach(*self, far->fd(), far_wake_up.fd()));
    EXPECT_TRUE(far->Attach(*self, near->fd(), near_wake_up.fd()));
  }
  std::string Receive() {
    ReceivedMultipart message;
    return far->Receive(message) ? TextOf(message) : "(none)";
  }
  WakeUp near_wake_up, far_wake_up;
  std::unique_ptr<Channel> near = Channel::Make(), far = Channel::Make();
};

TEST(Channel, CarriesControlFramesAndPayloads) {
  Pair pair;
  EXPECT_EQ(pair.Receive(), "(none)");
  const std::vector<Payload> payloads{Payload::Copy("first"), Payload(),
                                      Payload::Copy(std::string(5000, 'x'))};
  for (int i = 0; i < 1000; ++i) {  // many times around the ring
    const std::string text = "message " + std::to_string(i) + std::string(i % 40, '.');
    ASSERT_TRUE(pair.near->Send(AsBytes(text), payloads));
    ReceivedMultipart message;
    ASSERT_TRUE(pair.far->HasInput());
    ASSERT_TRUE(pair.far->Receive(message));
    EXPECT_EQ(TextOf(message), text);
    ASSERT_EQ(message.payloads.size(), 3u);
    EXPECT_EQ(message.payloads[0].text(), "first");
    EXPECT_EQ(message.payloads[1].size(), 0u);
    EXPECT_EQ(message.payloads[2].text(), std::string(5000, 'x'));
  }
  EXPECT_EQ(pair.far->input_position(), pair.far->input_end());
  EXPECT_FALSE(pair.far->broken());
}

TEST(Channel, WhoKeepsASmallPayloadKeepsNothingElse) {
  Pair pair;
  const std::vector<Payload> payloads{Payload::Copy("small"),
                                      Payload::Copy(std::string(100'000, 'x'))};
  ASSERT_TRUE(pair.near->Send({}, payloads));
  ReceivedMultipart message;
  ASSERT_TRUE(pair.far->Receive(message));
  const Payload kept = message.payloads.at(0);
  const std::weak_ptr<const void> large = message.payloads.at(1).owner();
  message.payloads.clear();
  EXPECT_TRUE(large.expired());
  EXPECT_EQ(kept.text(), "small");
}

TEST(Channel, IsFullUntilTheOtherEndHasRead) {
  Pair pair;
  const std::string text(Channel::kMaxMessageBytes / 2, 'x');
  int sent = 0;
  while (pair.near->Send(AsBytes(text), {})) ++sent;
  EXPECT_GE(sent, 2);
  EXPECT_EQ(pair.Receive(), text);
  EXPECT_TRUE(pair.near->Send(AsBytes(text), {}));
  EXPECT_FALSE(pair.near->Send(AsBytes(text), {}));
  for (int i = 0; i < sent; ++i) EXPECT_EQ(pair.Receive(), text);
  EXPECT_EQ(pair.Receive(), "(none)");
}

TEST(Channel, LargeMessagesDoNotFit) {
  EXPECT_TRUE(Channel::Fits(AsBytes(std::string(Channel::kMaxMessageBytes - 64, 'x')), {}));
  EXPECT_FALSE(Channel::Fits(AsBytes(std::string(Channel::kMaxMessageBytes, 'x')), {}));
  const std::vector<Payload> payloads{Payload::Copy(std::string(Channel::kMaxMessageBytes, 'x'))};
  EXPECT_FALSE(Channel::Fits({}, payloads));
}

TEST(Channel, WaitsForWhatWentThroughTheSocketBefore) {
  Pair pair;
  ASSERT_TRUE(pair.near->Send(AsBytes("one"), {}));
  pair.near->CountSent();  // as if "two" went through the socket
  ASSERT_TRUE(pair.near->Send(AsBytes("three"), {}));
  EXPECT_EQ(pair.Receive(), "one");
  EXPECT_FALSE(pair.far->HasInput());
  EXPECT_EQ(pair.Receive(), "(none)");
  pair.far->CountReceived();
  EXPECT_TRUE(pair.far->HasInput());
  EXPECT_EQ(pair.Receive(), "three");
}

bool IsWoken(const WakeUp& wake_up) {
  pollfd item{wake_up.fd(), POLLIN, 0};
  return poll(&item, 1, 0) == 1;
}

TEST(Channel, RingsOnlyWhoSleepsAndOnce) {
  Pair pair;
  pair.near->Send(AsBytes("awake"), {});
  EXPECT_FALSE(IsWoken(pair.far_wake_up));
  pair.far->BeginSleep();
  EXPECT_TRUE(pair.far->HasInput());
  EXPECT_EQ(pair.Receive(), "awake");
  EXPECT_FALSE(pair.far->HasInput());
  pair.near->Send(AsBytes("asleep"), {});
  pair.near->Send(AsBytes("asleep still"), {});
  char rings[8];
  EXPECT_EQ(read(pair.far_wake_up.fd(), rings, sizeof(rings)), 1);
  pair.far->EndSleep();
  pair.near->Send(AsBytes("awake again"), {});
  EXPECT_FALSE(IsWoken(pair.far_wake_up));
}

TEST(WakeUp, WhoWasNotifiedDoesNotSleep) {
  WakeUp wake_up;
  EXPECT_TRUE(wake_up.BeginSleep());
  EXPECT_FALSE(IsWoken(wake_up));
  wake_up.Notify();
  EXPECT_TRUE(IsWoken(wake_up));
  EXPECT_TRUE(wake_up.EndSleep(true));
  EXPECT_FALSE(IsWoken(wake_up));
  wake_up.Notify();  // it is awake, so no system call is made
  EXPECT_FALSE(IsWoken(wake_up));
  EXPECT_FALSE(wake_up.BeginSleep());
  EXPECT_TRUE(wake_up.EndSleep(false));
  EXPECT_TRUE(wake_up.BeginSleep());
  EXPECT_FALSE(wake_up.EndSleep(false));
}

// One thread sends as fast as it can, or after pauses; the other one sleeps whenever there is
// nothing to receive. It would never wake up after a message that does not wake it.
TEST(Channel, NoMessageIsSleptThrough) {
  Pair pair;
  constexpr int kMessages = 100'000;
  std::atomic<int> received{0};
  std::thread sender([&] {
    std::mt19937 random(1);
    for (int i = 0; i < kMessages; ++i) {
      const std::string text = std::to_string(i) + std::string(random() % 300, ' ');
      while (!pair.near->Send(AsBytes(text), {})) std::this_thread::yield();
      if (random() % 4 == 0) {
        while (received.load() <= i) std::this_thread::yield();
      }
    }
  });
  ReceivedMultipart message;
  while (received < kMessages) {
    if (pair.far->Receive(message)) {
      ASSERT_EQ(std::stoi(TextOf(message)), received);
      ++received;
      continue;
    }
    const bool sleeps = pair.far_wake_up.BeginSleep();
    pair.far->BeginSleep();
    pollfd item{pair.far_wake_up.fd(), POLLIN, 0};
    if (sleeps && !pair.far->HasInput()) {
      ASSERT_EQ(poll(&item, 1, 60'000), 1) << "after " << received;
    }
    pair.far->EndSleep();
    pair.far_wake_up.EndSleep(item.revents != 0);
  }
  sender.join();
  EXPECT_FALSE(pair.far->broken());
}

TEST(Channel, IsNotAttachedToAnythingElse) {
  const auto self = PeerFiles::Of(getpid());
  const auto channel = Channel::Make();
  const auto other = Channel::Make();
  const auto file = MakeMemoryFile(RoundToPages(1));
  WakeUp wake_up;
  EXPECT_FALSE(channel->Attach(*self, file->fd.get(), wake_up.fd()));  // too small
  EXPECT_FALSE(channel->Attach(*self, wake_up.fd(), wake_up.fd()));
  EXPECT_FALSE(channel->Attach(*self, other->fd(), other->fd()));
  EXPECT_FALSE(channel->Attach(*self, other->fd(), -1));
  EXPECT_FALSE(channel->attached());
  EXPECT_TRUE(channel->Attach(*self, other->fd(), wake_up.fd()));
}

// A ring of the right size whose creator writes arbitrary bytes.
TEST(Channel, ADamagedRingIsNotRead) {
  const auto self = PeerFiles::Of(getpid());
  const std::uint64_t bytes = [] {
    const auto channel = Channel::Make();
    return static_cast<std::uint64_t>(lseek(channel->fd(), 0, SEEK_END));
  }();
  WakeUp wake_up;
  // bytes, after, control_bytes, payloads; and the number of bytes claimed to be written
  const std::uint64_t heads[][5] = {
      {0, 0, 0, 0, 1 << 30},   {0, 0, 0, 0, 8},       {0, 0, 0, 0, 64},      {64, 0, 64, 0, 64},
      {64, 0, 0, 1 << 20, 64}, {64, 0, 0, ~0ull, 64}, {64, 0, ~0ull, 0, 64}, {1 << 20, 0, 0, 0, 64},
      {4096, 0, 16, 4, 64},    {64, 0, 16, 1, 64}};
  for (const auto& head : heads) {
    const auto file = MakeMemoryFile(bytes);
    ASSERT_TRUE(file.has_value());
    std::memcpy(file->mapping.data() + 4096, head, 4 * sizeof(head[0]));
    // The size of the payload, if there is one: larger than the record.
    const std::uint64_t size = 1 << 16;
    std::memcpy(file->mapping.data() + 4096 + 32, &size, sizeof(size));
    std::memcpy(file->mapping.data(), &head[4], sizeof(head[4]));
    const auto channel = Channel::Make();
    ASSERT_TRUE(channel->Attach(*self, file->fd.get(), wake_up.fd()));
    ReceivedMultipart message;
    EXPECT_FALSE(channel->Receive(message)) << head[0] << " " << head[2] << " " << head[3];
    EXPECT_TRUE(channel->broken()) << head[0] << " " << head[2] << " " << head[3];
    EXPECT_FALSE(channel->HasInput());
  }
}

// A client may send the Hello of its next session before its other parts know that the last one has
// ended.
TEST(SharedLink, TheChannelThatIsOfferedIsNotTheLastSessions) {
  const auto self = PeerFiles::Of(getpid());
  const auto probe = SharingProbe::Make();
  const auto theirs = Channel::Make();
  WakeUp wake_up;
  ASSERT_TRUE(self && probe && theirs);
  SharedLink link(SharedPool::Make(), wake_up.fd());
  const auto join = [&](std::uint64_t session) {
    const std::optional<Sharing> offer = link.Offer(session);
    ASSERT_TRUE(offer);
    Sharing answer{getpid(), probe->fd(), {}, {}};
    const std::string secret = SharingProbe::Read(*self, offer->fd).value_or("");
    answer.sees = BrokerSeesProof(secret, session);
    answer.proof = WelcomeProof(probe->secret(), session, answer);
    answer.ring_fd = theirs->fd();
    answer.wake_fd = wake_up.fd();
    if (link.session() != 0) link.SessionEnded();
    link.Joined(session, answer);
    EXPECT_NE(link.channel(), nullptr) << "session " << session;
  };
  join(1);
  join(2);
}

// ---- between a client and a broker --------------------------------------------------------------

class ClientChannel : public testing::Test {
 protected:
  // The first answers come through the socket, since client and broker must discover each other
  // first.
  static bool AwaitNearby(Client& client) {
    return PollUntil(client, [&] { return client.GetStatistics() && client.nearby(); });
  }
  TemporaryFolder folder_;
};

// Requests of all sizes at once. Some are too large for the channel and go through the socket, but
// the answers come in the order of the requests.
TEST_F(ClientChannel, LargeAndSmallMessagesKeepTheirOrder) {
  BrokerThread broker(folder_.Ipc());
  Client client(ClientAt(broker.endpoint()));
  ASSERT_TRUE(AwaitNearby(client));
  std::mt19937 random(3);
  constexpr int kRequests = 600;
  std::vector<int> answered;
  std::vector<std::string> found(kRequests);
  for (int i = 0; i < kRequests; ++i) {
    std::vector<Tuple> tuples;
    const int count = random() % 10 == 0 ? 4000 : 1 + static_cast<int>(random() % 20);
    for (int k = 0; k < count; ++k) {
      Tuple& tuple = tuples.emplace_back();
      tuple.key = Key{"t", i, k};
      tuple.payload = Payload::Copy(std::string(k == 0 ? random() % 15'000 : 100, 'p'));
    }
    client.Submit(Put{std::move(tuples)}, [&answered, i](ReplyBody&& body) {
      EXPECT_TRUE(std::holds_alternative<PutReply>(body));
      answered.push_back(i);
    });
    // Sent while the Put may still be on its way; it must arrive after the Put.
    client.Submit(Count{Pattern::Of(Key{"t", i, count - 1})}, [&found, i](ReplyBody&& body) {
      const auto* reply = std::get_if<CountReply>(&body);
      found[i] = reply != nullptr && reply->count == 1 ? "there" : "missing";
    });
    if (random() % 3 == 0) client.Poll(std::chrono::microseconds(0));
  }
  ASSERT_TRUE(PollUntil(client, [&] { return client.unanswered() == 0; }));
  ASSERT_EQ(answered.size(), static_cast<std::size_t>(kRequests));
  for (int i = 0; i < kRequests; ++i) {
    EXPECT_EQ(answered[i], i);
    EXPECT_EQ(found[i], "there") << i;
  }
  EXPECT_TRUE(client.nearby());
}

TEST_F(ClientChannel, IsThereOverTcpAgainAfterTheBrokerAndNotWithoutSharing) {
  auto broker = std::make_unique<BrokerThread>("tcp://127.0.0.1:*");
  const std::string endpoint = broker->endpoint();
  Client client(ClientAt(endpoint));
  EXPECT_FALSE(client.nearby());
  EXPECT_TRUE(AwaitNearby(client));
  ClientOptions alone = ClientAt(endpoint);
  alone.shared_memory = false;
  Client far(alone);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(far.GetStatistics(kGenerous).has_value());
  EXPECT_FALSE(far.nearby());
  broker.reset();
  EXPECT_TRUE(PollUntil(client, [&] { return !client.connected(); }));
  EXPECT_FALSE(client.nearby());
  broker = std::make_unique<BrokerThread>(endpoint);
  EXPECT_TRUE(AwaitNearby(client));
}

// It is unknown whether a following record must wait for that message.
TEST_F(ClientChannel, AMessageThatCannotBeReadEndsTheSession) {
  BrokerThread broker(folder_.Ipc());
  zmq::context_t context;
  zmq::socket_t dealer(context, zmq::socket_type::dealer);
  dealer.set(zmq::sockopt::linger, 0);
  dealer.set(zmq::sockopt::rcvtimeo, 60'000);
  dealer.connect(broker.endpoint());
  const auto send = [&](std::uint64_t session, const auto& message) {
    Encoder encoder;
    encoder.Begin(session);
    encoder.Add(message);
    dealer.send(zmq::buffer(Packed(encoder.Finish())), zmq::send_flags::none);
  };
  const auto answer = [&] {
    zmq::message_t frame;
    EXPECT_TRUE(dealer.recv(frame)) << "no answer";
    return std::get<ToClient>(DecodeToClient(ControlIn(frame), {})).messages.at(0);
  };
  WakeUp wake_up;
  SharedLink link(SharedPool::Make(), wake_up.fd());
  send(0, Hello{1, "raw", link.Offer(1)});
  const auto welcome = std::get<Welcome>(answer());
  link.Joined(welcome.session, welcome.sharing);
  ASSERT_NE(link.channel(), nullptr);
  send(welcome.session, *link.TakeOutput());
  dealer.send(zmq::buffer(Packed(AsBytes("what no broker can read"))), zmq::send_flags::none);
  link.channel()->CountSent();
  Encoder encoder;
  encoder.Begin(welcome.session);
  encoder.Add(Ping{});
  ASSERT_TRUE(link.channel()->Send(encoder.Finish(), {}));
  EXPECT_EQ(std::get<RequestError>(answer()).code, ErrorCode::kBadRequest);
  const auto ended = std::get<RequestError>(answer());
  EXPECT_EQ(ended.code, ErrorCode::kHelloRequired);
  EXPECT_NE(ended.text.find("cannot be read"), std::string::npos) << ended.text;
}

TEST_F(ClientChannel, MoreClientsThanChannelsAllWork) {
  BrokerThread broker(folder_.Ipc());
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < 70; ++i) {
    clients.push_back(std::make_unique<Client>(ClientAt(broker.endpoint())));
    Tuple tuple;
    tuple.key = Key{"c", i};
    tuple.payload = Payload::Copy(std::string(700, 'c'));
    std::vector<Tuple> tuples;
    tuples.push_back(tuple);
    ASSERT_TRUE(clients.back()->Put(std::move(tuples), kGenerous).has_value());
  }
  int nearby = 0;
  for (auto& client : clients) {
    EXPECT_EQ(client->CountOf(AnyOf("c"), kGenerous), 70u);
    EXPECT_EQ(client->CountOf(AnyOf("c"), kGenerous), 70u);
    nearby += client->nearby() ? 1 : 0;
  }
  EXPECT_EQ(nearby, 64);
}

// Messages that a process sent before it was killed must arrive.
TEST_F(ClientChannel, WhatAKilledClientHadSentArrives) {
  const std::string endpoint = folder_.Ipc();
  int go[2];
  int done[2];
  ASSERT_EQ(pipe(go), 0);
  ASSERT_EQ(pipe(done), 0);
  const pid_t child = fork();  // before there is a broker, whose threads a child would lack
  if (child == 0) {
    char one = 0;
    [[maybe_unused]] const auto got = read(go[0], &one, 1);
    auto* client = new Client(ClientAt(endpoint));
    while (!client->nearby()) client->GetStatistics();
    for (int i = 0; i < 500; ++i) {
      std::vector<Tuple> tuples(1);
      tuples[0].key = Key{"k", i};
      client->Submit(Put{std::move(tuples)}, [](ReplyBody&&) {});
    }
    client->Poll(std::chrono::microseconds(0));  // sends
    [[maybe_unused]] const auto written = write(done[1], "x", 1);
    for (;;) pause();
  }
  BrokerThread broker(endpoint);
  ASSERT_EQ(write(go[1], "x", 1), 1);
  char one = 0;
  ASSERT_EQ(read(done[0], &one, 1), 1);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  Client reader(ClientAt(endpoint));
  EXPECT_TRUE(PollUntil(reader, [&] { return reader.CountOf(AnyOf("k")) == 500u; }));
  for (const int fd : {go[0], go[1], done[0], done[1]}) close(fd);
}

}  // namespace
}  // namespace tuplespace
