// A broker that checks payloads against the hashes that their producers send.
#include <gtest/gtest.h>

#include "broker_fixture.h"

namespace tuplespace {
namespace {

Tuple WithWrongHash(const std::string& name) {
  Tuple tuple = PlainTuple({name}, "bytes");
  tuple.payload = std::move(tuple.payload).WithHash(HashOf(Payload::Copy("others").bytes()));
  return tuple;
}

TEST(BrokerThatChecksPayloads, RefusesWhatIsNotWhatItsProducerSaid) {
  BrokerOptions options;
  options.listen = {"tcp://127.0.0.1:*"};
  options.check_payloads = true;
  BrokerThread broker(options);
  Client client(ClientAt(broker.endpoint(), "producer"));
  try {
    client.Put({WithWrongHash("wrong")}, kGenerous);
    ADD_FAILURE() << "it was stored";
  } catch (const SpaceError& error) {
    EXPECT_EQ(error.code(), ErrorCode::kDamaged) << error.what();
  }
  EXPECT_TRUE(client.Put({PlainTuple({"right"}, "bytes")}, kGenerous));
  EXPECT_EQ(client.GetStatistics()->tuples, 1u);
}

TEST(BrokerThatChecksPayloads, IsNotTheDefault) {
  BrokerOptions options;
  options.listen = {"tcp://127.0.0.1:*"};
  BrokerThread broker(options);
  Client client(ClientAt(broker.endpoint(), "producer"));
  EXPECT_TRUE(client.Put({WithWrongHash("wrong")}, kGenerous));
  EXPECT_EQ(client.GetStatistics()->tuples, 1u);
}

}  // namespace
}  // namespace tuplespace
