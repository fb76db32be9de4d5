// Limits on all clients of one key together.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "broker_core.h"
#include "session_messages.h"

namespace tuplespace {
namespace {

using ::testing::HasSubstr;

TEST(ClientsOfAKey, AreLimited) {
  const Role role{"worker", {Rule{{Operation::kRead}, {{FieldPattern::Any()}, true}, {}}}};
  const AccessList list({role}, {{"one", std::string(40, 'a'), "worker"},
                                 {"another", std::string(40, 'b'), "worker"}});
  BrokerCoreOptions options;
  options.clients_per_key = 2;
  BrokerCore core(options);
  const auto join = [&](const ClientId& client, char key) {
    ToBroker hello;
    hello.messages.emplace_back(Hello{.nonce = 1, .name = client});
    core.Receive(client, std::move(hello), 0, list.Find(std::string(40, key)));
    return core.TakeOutput().at(0).envelope.messages.at(0);
  };
  for (const char* client : {"a1", "a2", "b1"}) join(client, client[0]);
  const BrokerMessage answer = join("a3", 'a');
  const auto* error = std::get_if<RequestError>(&answer);
  ASSERT_NE(error, nullptr);
  EXPECT_EQ(error->code, ErrorCode::kBusy);
  EXPECT_THAT(error->text, HasSubstr("2 clients with the key \"one\""));
  EXPECT_FALSE(core.Knows("a3"));
  join("b2", 'b');
  EXPECT_TRUE(core.Knows("b2"));
  core.Lost("a1", "a test", 0);
  core.TakeOutput();
  join("a3", 'a');
  EXPECT_TRUE(core.Knows("a3"));
}

}  // namespace
}  // namespace tuplespace
