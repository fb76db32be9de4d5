// Garbage, damaged frames and foreign frames, from ZeroMQ sockets and from plain ones. Whatever
// arrives, the broker survives and its honest clients notice nothing.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>
#include <zstd.h>

#include <cstring>
#include <memory>
#include <random>
#include <zmq.hpp>
#include <zmq_addon.hpp>

#include "broker_fixture.h"
#include "compression.h"
#include "packed_messages.h"
#include "wire.h"

namespace tuplespace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class RawSocket : public ::testing::Test {
 protected:
  RawSocket() {
    BrokerOptions options;
    options.listen = {"tcp://127.0.0.1:*"};
    options.control_frame_bytes = 1 << 20;
    options.limits.message_bytes = 4 << 20;
    broker_ = std::make_unique<BrokerThread>(options);
    honest_ = std::make_unique<Client>(ClientAt(broker_->endpoint(), "honest"));
    EXPECT_TRUE(honest_->Put({PlainTuple({"before"}, "x")}, kGenerous));
    honest_->OnConnection([this](bool connected, const std::string&) {
      if (!connected) ++honest_lost_;
    });
  }
  ~RawSocket() override {
    // The test must not have disturbed any other client.
    EXPECT_TRUE(honest_->Put({PlainTuple({"after"}, "x")}, kGenerous));
    EXPECT_EQ(honest_->ReadOne(AnyOf("before"))->payload.text(), "x");
    EXPECT_EQ(honest_lost_, 0);
  }

  zmq::socket_t Dealer(const std::string& id) {
    zmq::socket_t socket(context_, zmq::socket_type::dealer);
    socket.set(zmq::sockopt::linger, 0);
    if (!id.empty()) socket.set(zmq::sockopt::routing_id, id);
    socket.set(zmq::sockopt::rcvtimeo, 60'000);
    socket.connect(broker_->endpoint());
    return socket;
  }
  static void SendFrames(zmq::socket_t& socket, const std::vector<std::string>& frames) {
    for (std::size_t i = 0; i < frames.size(); ++i) {
      socket.send(zmq::buffer(frames[i]),
                  i + 1 < frames.size() ? zmq::send_flags::sndmore : zmq::send_flags::none);
    }
  }
  static ToClient Answer(zmq::socket_t& socket) {
    std::vector<zmq::message_t> frames;
    if (!zmq::recv_multipart(socket, std::back_inserter(frames))) {
      ADD_FAILURE() << "no answer";
      return {};
    }
    EXPECT_EQ(frames.size(), 1u);
    auto decoded = DecodeToClient(ControlIn(frames[0]), {});
    if (const auto* error = std::get_if<RequestError>(&decoded)) {
      ADD_FAILURE() << error->text;
      return {};
    }
    return std::get<ToClient>(std::move(decoded));
  }
  static RequestError ErrorAnswer(zmq::socket_t& socket) {
    ToClient answer = Answer(socket);
    if (answer.messages.empty()) return {};
    if (auto* error = std::get_if<RequestError>(&answer.messages[0])) return *error;
    ADD_FAILURE() << "not an error";
    return {};
  }
  template <typename... Messages>
  static std::string Control(std::uint64_t session, const Messages&... messages) {
    Encoder encoder;
    encoder.Begin(session);
    (encoder.Add(messages), ...);
    return Packed(encoder.Finish());
  }
  std::uint64_t Join(zmq::socket_t& socket) {
    SendFrames(socket, {Control(0, Hello{1, "raw"})});
    const ToClient answer = Answer(socket);
    return answer.messages.empty() ? 0 : std::get<Welcome>(answer.messages[0]).session;
  }
  std::uint64_t BadRequests() { return honest_->GetStatistics()->counters.bad_requests; }

  zmq::context_t context_;
  std::unique_ptr<BrokerThread> broker_;
  std::unique_ptr<Client> honest_;
  int honest_lost_ = 0;
};

TEST_F(RawSocket, APongThatNobodyAskedForTellsTheClock) {
  zmq::socket_t stays = Dealer("stays");
  ASSERT_NE(Join(stays), 0u);
  {
    zmq::socket_t leaves = Dealer("leaves");
    ASSERT_NE(Join(leaves), 0u);
  }
  // The broker checks which clients are still there.
  const ToClient probe = Answer(stays);
  ASSERT_EQ(probe.messages.size(), 1u);
  EXPECT_GT(std::get<Pong>(probe.messages[0]).broker_us, 0);
}

TEST_F(RawSocket, RandomFramesAreAnsweredAndCounted) {
  zmq::socket_t dealer = Dealer("random");
  std::mt19937_64 random(1);
  constexpr int kMessages = 2000;
  for (int i = 0; i < kMessages; ++i) {
    std::vector<std::string> frames(1 + random() % 4);
    for (std::string& frame : frames) {
      frame.resize(random() % 300);
      for (char& c : frame) c = static_cast<char>(random());
    }
    SendFrames(dealer, frames);
    EXPECT_EQ(ErrorAnswer(dealer).code, ErrorCode::kBadRequest);
  }
  EXPECT_EQ(BadRequests(), static_cast<std::uint64_t>(kMessages));
  // Each one is counted, but only one is logged.
  const std::string log = broker_->Log();
  EXPECT_EQ(log.find("a bad message"), log.rfind("a bad message"));
  EXPECT_THAT(log, HasSubstr("random"));
}

TEST_F(RawSocket, TruncatedFramesLeaveTheSessionAlone) {
  zmq::socket_t dealer = Dealer("truncated");
  const std::uint64_t session = Join(dealer);
  Encoder encoder;
  encoder.Begin(session);
  encoder.Add(Request{7, Put{{{Key{"t"}, Payload::Copy("x"), {}, false, false}}}});
  const std::span<const std::byte> whole = encoder.Finish();
  for (std::size_t size = 0; size + 8 < whole.size(); ++size) {
    SendFrames(dealer, {Packed(whole.first(size))});
    EXPECT_EQ(ErrorAnswer(dealer).code, ErrorCode::kBadRequest) << size;
  }
  SendFrames(dealer, {Packed(whole)});
  const ToClient answer = Answer(dealer);
  ASSERT_EQ(answer.messages.size(), 1u);
  EXPECT_THAT(std::get<Done>(answer.messages[0]).requests, ElementsAre(7u));
}

TEST_F(RawSocket, OtherVersionsAreToldBothNumbers) {
  zmq::socket_t dealer = Dealer("future");
  Encoder encoder;
  encoder.Begin(0, {.version = 7});
  encoder.Add(Hello{1, "future"});
  const auto bytes = encoder.Finish();
  // With this version's head, and without one, as in versions up to 3.
  for (const std::string& hello :
       {Packed(bytes), std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size())}) {
    SendFrames(dealer, {hello});
    const RequestError error = ErrorAnswer(dealer);
    EXPECT_EQ(error.code, ErrorCode::kVersion);
    EXPECT_THAT(error.text, HasSubstr("version 7"));
    EXPECT_THAT(error.text, HasSubstr("version 4"));
  }
}

// The broker accepts compressed control frames from any client.
TEST_F(RawSocket, ControlFramesAreCompressedForThoseWhoSayThatTheyTakeThem) {
  Put put;
  for (std::int64_t i = 0; i < 50; ++i) put.tuples.push_back(PlainTuple({"many", i}, "payload"));
  Encoder encoder;
  Compressor compressor;
  // Both sockets stay open: if one closed, the broker would check which clients are still there.
  zmq::socket_t dealers[] = {Dealer("does not"), Dealer("takes")};
  for (const bool takes : {false, true}) {
    zmq::socket_t& dealer = dealers[takes];
    SendFrames(dealer, {Control(0, Hello{.nonce = 1, .name = "raw", .decompresses = takes})});
    const ToClient answer = Answer(dealer);
    ASSERT_EQ(answer.messages.size(), 1u);
    const auto& welcome = std::get<Welcome>(answer.messages[0]);
    EXPECT_TRUE(welcome.decompresses);
    encoder.Begin(welcome.session);
    encoder.Add(Request{1, put});
    const auto plain = encoder.Finish();
    const auto compressed = compressor.Compress(plain);
    ASSERT_LT(compressed.size(), plain.size());
    SendFrames(dealer, {Packed(compressed)});
    EXPECT_FALSE(Answer(dealer).messages.empty());
    SendFrames(dealer, {Control(welcome.session, Request{2, List{AnyOf("many")}})});
    zmq::message_t frame;
    ASSERT_TRUE(dealer.recv(frame));
    const std::span<const std::byte> control = ControlIn(frame);
    Decompressor decompressor;
    const auto opened = decompressor.Open(control, kMaxControlBytes);
    ASSERT_TRUE(std::holds_alternative<std::span<const std::byte>>(opened));
    EXPECT_EQ(std::get<0>(opened).data() != control.data(), takes);
    const auto decoded = DecodeToClient(std::get<0>(opened), {});
    ASSERT_TRUE(std::holds_alternative<ToClient>(decoded));
    const auto& reply = std::get<Reply>(std::get<ToClient>(decoded).messages.at(0));
    EXPECT_EQ(std::get<Found>(reply.body).tuples.size(), 50u);
  }
}

TEST_F(RawSocket, BombsAreRefused) {
  zmq::socket_t dealer = Dealer("bombs");
  const std::uint64_t session = Join(dealer);
  std::vector<std::byte> bomb(8 + 4096);
  Compressor compressor;
  Encoder encoder;
  encoder.Begin(session);
  encoder.Add(Request{1, Put{std::vector<Tuple>(50, PlainTuple({"x"}, "x"))}});
  std::memcpy(bomb.data(), compressor.Compress(encoder.Finish()).data(), 8);
  const std::vector<std::byte> zeros(1 << 20);
  bomb.resize(8 + ZSTD_compress(bomb.data() + 8, 4096, zeros.data(), zeros.size(), 1));
  SendFrames(dealer, {Packed(bomb)});
  EXPECT_THAT(ErrorAnswer(dealer).text, HasSubstr("16 times those that came"));
  SendFrames(dealer, {Control(session, Ping{})});
  EXPECT_TRUE(std::holds_alternative<Pong>(Answer(dealer).messages.at(0)));
}

TEST_F(RawSocket, MultipartMessagesAreRefused) {
  zmq::socket_t dealer = Dealer("parts");
  const std::uint64_t session = Join(dealer);
  SendFrames(dealer, {Control(session, Ping{}), "x", "y"});
  EXPECT_THAT(ErrorAnswer(dealer).text, HasSubstr("3 parts"));
  SendFrames(dealer, {Control(session, Ping{})});
  EXPECT_TRUE(std::holds_alternative<Pong>(Answer(dealer).messages.at(0)));
}

// The broker does not keep the beginning of a large message of a client that has not joined.
TEST_F(RawSocket, LargeMessagesAreForThoseWhoHaveJoined) {
  Tuple tuple = PlainTuple({"large"}, std::string(3 << 20, 'l'));
  const auto parts = [&](std::uint64_t session) {
    Encoder encoder;
    encoder.Begin(session);
    encoder.Add(Request{3, Put{{tuple}}});
    return PartsOf(encoder.Finish(), {tuple.payload});
  };
  zmq::socket_t dealer = Dealer("large message");
  for (const std::string& part : parts(0)) SendFrames(dealer, {part});
  const std::uint64_t session = Join(dealer);  // comes first, so the message got no answer
  ASSERT_NE(session, 0u);
  const std::vector<std::string> good = parts(session);
  ASSERT_GT(good.size(), 2u);
  for (const std::string& part : good) SendFrames(dealer, {part});
  EXPECT_THAT(std::get<Done>(Answer(dealer).messages.at(0)).requests, ElementsAre(3u));
  EXPECT_EQ(honest_->ReadOne(AnyOf("large"), kGenerous)->payload.size(), 3u << 20);
}

// When a session ends, the broker drops its unfinished messages.
TEST_F(RawSocket, AHalfMessageEndsWithItsSession) {
  Tuple tuple = PlainTuple({"half"}, std::string(3 << 20, 'h'));
  zmq::socket_t dealer = Dealer("half");
  const std::uint64_t session = Join(dealer);
  Encoder encoder;
  encoder.Begin(session);
  encoder.Add(Request{3, Put{{tuple}}});
  const std::vector<std::string> parts = PartsOf(encoder.Finish(), {tuple.payload});
  SendFrames(dealer, {parts[0]});
  SendFrames(dealer, {Control(0, Hello{2, "raw"})});
  EXPECT_TRUE(std::holds_alternative<Welcome>(Answer(dealer).messages.at(0)));
  for (std::size_t i = 1; i < parts.size(); ++i) SendFrames(dealer, {parts[i]});
  SendFrames(dealer, {Control(session, Ping{})});
  EXPECT_EQ(ErrorAnswer(dealer).code, ErrorCode::kHelloRequired);
  EXPECT_EQ(honest_->CountOf(AnyOf("half")), 0u);
}

TEST_F(RawSocket, PayloadFramesThatDoNotFit) {
  zmq::socket_t dealer = Dealer("frames");
  const std::uint64_t session = Join(dealer);
  Tuple tuple;
  tuple.key = Key{"f"};
  tuple.payload = Payload::Copy(std::string(1000, 'f'));
  Encoder encoder;
  encoder.Begin(session);
  encoder.Add(Request{3, Put{{tuple}}});
  const auto control = encoder.Finish();
  SendFrames(dealer, {Packed(control)});  // its payload frame is missing
  const ToClient missing = Answer(dealer);
  ASSERT_EQ(missing.messages.size(), 1u);
  const auto& reply = std::get<Reply>(missing.messages[0]);
  EXPECT_EQ(reply.id, 3u);
  EXPECT_EQ(std::get<RequestError>(reply.body).code, ErrorCode::kBadRequest);
  const Payload more = Payload::Copy("one too many");
  SendFrames(dealer, {Packed(control, {tuple.payload, more})});
  EXPECT_THAT(ErrorAnswer(dealer).text, HasSubstr("2 payload frames"));
  EXPECT_EQ(honest_->CountOf(AnyOf("f")), 0u);
  SendFrames(dealer, {Packed(control, {tuple.payload})});
  EXPECT_THAT(std::get<Done>(Answer(dealer).messages.at(0)).requests, ElementsAre(3u));
}

TEST_F(RawSocket, ControlFramesOverTheLimit) {
  zmq::socket_t dealer = Dealer("large");
  const std::string control((1 << 20) + 1, 'x');
  const std::vector<std::string> parts = PartsOf(std::as_bytes(std::span(control)), {});
  SendFrames(dealer, {parts[0]});
  const RequestError error = ErrorAnswer(dealer);
  EXPECT_EQ(error.code, ErrorCode::kTooLarge);
  EXPECT_THAT(error.text, HasSubstr("1048576"));
}

TEST_F(RawSocket, FramesOverTheLimitEndTheirConnectionOnly) {
  zmq::socket_t dealer = Dealer("huge");
  const std::uint64_t session = Join(dealer);
  ASSERT_NE(session, 0u);
  ASSERT_EQ(honest_->GetStatistics()->clients, 2u);
  SendFrames(dealer, {std::string((4 << 20) + 1, '\0')});
  // ZeroMQ drops the connection, so the broker loses the client.
  EXPECT_TRUE(PollUntil(*honest_, [&] { return honest_->GetStatistics()->clients == 1; }));
}

TEST_F(RawSocket, RequestsWithoutASessionAreToldToJoin) {
  zmq::socket_t dealer = Dealer("eager");
  SendFrames(dealer, {Control(99, Request{1, GetStats{}}, Ping{})});
  const ToClient answer = Answer(dealer);
  EXPECT_EQ(answer.session, 99u);
  ASSERT_EQ(answer.messages.size(), 1u);
  EXPECT_EQ(std::get<RequestError>(answer.messages[0]).code, ErrorCode::kHelloRequired);
}

TEST_F(RawSocket, MessagesWithoutAnyFrame) {
  zmq::socket_t dealer = Dealer("empty");
  SendFrames(dealer, {""});
  EXPECT_EQ(ErrorAnswer(dealer).code, ErrorCode::kBadRequest);
}

TEST_F(RawSocket, RoutingIdsOverTheLimit) {
  zmq::socket_t dealer = Dealer(std::string(200, 'i'));
  SendFrames(dealer, {Control(0, Hello{1, "long"})});
  EXPECT_THAT(ErrorAnswer(dealer).text, HasSubstr("200 bytes"));
}

TEST_F(RawSocket, SocketsWithoutAnIdGetOneFromZeroMq) {
  zmq::socket_t dealer = Dealer("");
  EXPECT_NE(Join(dealer), 0u);
}

TEST_F(RawSocket, PlainTcpGarbageIsIgnored) {
  const std::string endpoint = broker_->endpoint();
  const int port = std::stoi(endpoint.substr(endpoint.rfind(':') + 1));
  std::mt19937_64 random(2);
  for (int i = 0; i < 50; ++i) {
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ASSERT_EQ(connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    std::string bytes(1 + random() % 2000, '\0');
    for (char& c : bytes) c = static_cast<char>(random());
    if (i % 3 == 0) bytes = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
    // A ZMTP greeting, then nonsense.
    if (i % 3 == 1) bytes = std::string("\xff\0\0\0\0\0\0\0\1\x7f\3\0NULL", 16) + bytes;
    // The broker may hang up during this.
    [[maybe_unused]] const auto sent = send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    shutdown(fd, SHUT_WR);
    // Waits until the broker has dealt with it. libzmq 4.3.4 aborts if a socket is closed while it
    // takes a greeting of an old version for a routing id.
    char answer[256];
    while (recv(fd, answer, sizeof(answer), 0) > 0) {
    }
    close(fd);
  }
}

// A handler in another language needs no more messages than these.
TEST_F(RawSocket, AMinimalPeerTakesPart) {
  zmq::socket_t dealer = Dealer("peer");
  const std::uint64_t session = Join(dealer);
  Tuple task = TaskTuple({"task", 1}, "work");
  task.task->results = {Key{"result", 1}};
  ASSERT_TRUE(honest_->Put({task}));
  Get get;
  get.pattern = AnyOf("task");
  SendFrames(dealer, {Control(session, Request{1, get})});
  const ToClient granted = Answer(dealer);
  const auto grants = std::get<Grants>(std::get<Reply>(granted.messages.at(0)).body);
  ASSERT_EQ(grants.grants.size(), 1u);
  Complete complete;
  complete.lease.key = grants.grants[0].key;
  complete.lease.fence = grants.grants[0].fence;
  complete.results = {PlainTuple({"result", 1}, "done")};
  SendFrames(dealer, {Control(session, Request{2, complete})});
  const ToClient completed = Answer(dealer);
  EXPECT_THAT(std::get<Done>(completed.messages.at(0)).requests, ElementsAre(2u));
  EXPECT_EQ(honest_->ReadOne(AnyOf("result"))->payload.text(), "done");
}

// ---- brokers of other implementations -----------------------------------------------------------

// Whether a client compresses its Put, for a broker that says whether it accepts that.
bool PutComesCompressed(bool takes) {
  zmq::context_t context;
  zmq::socket_t router(context, zmq::socket_type::router);
  router.set(zmq::sockopt::linger, 0);
  router.bind("tcp://127.0.0.1:*");
  Client client(ClientAt(router.get(zmq::sockopt::last_endpoint)));
  Put put;
  std::mt19937_64 random(1);
  for (std::int64_t i = 0; i < 50; ++i) {
    std::string payload(1000, '\0');
    for (char& c : payload) c = static_cast<char>('a' + random() % 4);
    put.tuples.push_back(PlainTuple({"many", i}, payload));
  }
  client.Submit(put, nullptr);
  // First the Hello, then the Put.
  std::vector<zmq::message_t> frames;
  const auto receive = [&] {
    frames.clear();
    PollUntil(client, [&] {
      return zmq::recv_multipart(router, std::back_inserter(frames), zmq::recv_flags::dontwait)
          .has_value();
    });
    return ControlIn(frames.at(1));
  };
  const auto hello = std::get<ToBroker>(DecodeToBroker(receive(), {}, kMaxControlBytes));
  Welcome welcome{std::get<Hello>(hello.messages.at(0)).nonce, 7, 60'000'000, 1 << 20, 1 << 20};
  welcome.decompresses = takes;
  Encoder encoder;
  encoder.Begin(0);
  encoder.Add(welcome);
  router.send(frames[0], zmq::send_flags::sndmore);
  router.send(zmq::buffer(Packed(encoder.Finish())), zmq::send_flags::none);
  const std::span<const std::byte> control = receive();
  Decompressor decompressor;
  const auto opened = decompressor.Open(control, kMaxControlBytes);
  return std::get<0>(opened).data() != control.data();
}

TEST(OtherBroker, AClientCompressesForWhoSaysThatItTakesThat) {
  EXPECT_TRUE(PutComesCompressed(true));
  EXPECT_FALSE(PutComesCompressed(false));
}

TEST(OtherBroker, AClientOfAnotherVersionThrowsWithBothNumbers) {
  zmq::context_t context;
  zmq::socket_t router(context, zmq::socket_type::router);
  router.set(zmq::sockopt::linger, 0);
  router.bind("tcp://127.0.0.1:*");
  ClientOptions options = ClientAt(router.get(zmq::sockopt::last_endpoint));
  Client client(options);
  client.Submit(GetStats{}, nullptr);
  client.Poll(std::chrono::milliseconds(1));
  std::vector<zmq::message_t> hello;
  ASSERT_TRUE(zmq::recv_multipart(router, std::back_inserter(hello)));
  Encoder encoder;
  encoder.Begin(0, {.version = 5});
  encoder.Add(RequestError{ErrorCode::kVersion, "whatever"});
  router.send(hello[0], zmq::send_flags::sndmore);
  router.send(zmq::buffer(Packed(encoder.Finish())), zmq::send_flags::none);
  try {
    PollUntil(client, [] { return false; });
    FAIL() << "it went on";
  } catch (const SpaceError& error) {
    EXPECT_EQ(error.code(), ErrorCode::kVersion);
    EXPECT_THAT(error.what(), HasSubstr("version 5"));
    EXPECT_THAT(error.what(), HasSubstr("version 4"));
  }
  EXPECT_THROW(client.Poll(std::chrono::milliseconds(1)), SpaceError);
}

}  // namespace
}  // namespace tuplespace
