// acan keygen, its files, and roles that meet with keys.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "job_fixture.h"
#include "nlohmann/json.hpp"
#include "program.h"

namespace acan::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class Keys : public ::testing::Test {
 protected:
  Keys() { EXPECT_EQ(Keygen({}).code, 0); }

  Result Keygen(const std::vector<std::string>& more) const {
    std::vector<std::string> words = {"keygen", "--out", folder_ / "keys"};
    words.insert(words.end(), more.begin(), more.end());
    return RunAcan(words);
  }
  std::string Key(const std::string& name) const { return folder_ / ("keys/" + name + ".key"); }
  // A copy of a key file in which `from` has become `to`.
  std::string Edited(const std::string& name, const std::string& from, const std::string& to,
                     mode_t mode = 0600) const {
    std::string text = ReadFile(Key(name));
    const std::size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    if (at != std::string::npos) text.replace(at, from.size(), to);
    ::unlink((folder_ / "edited.key").c_str());
    const std::string path = folder_.Write("edited.key", text);
    ::chmod(path.c_str(), mode);
    return path;
  }
  std::string Value(const std::string& name, const std::string& field) const {
    const std::string text = ReadFile(Key(name));
    const std::size_t at = text.find("\n" + field + " = \"") + field.size() + 5;
    return text.substr(at, text.find('"', at) - at);
  }
  // What a handler says to this key file; it gets no further than reading it.
  std::string HandlerRefusal(const std::string& path) const {
    const Result result =
        RunAcan({"handler", "--connect", "tcp://127.0.0.1:1", "--device", "cpu:1", "--keys", path});
    EXPECT_EQ(result.code, 2) << result.err;
    return result.err;
  }
  std::vector<std::string> BrokerWords() const {
    return {"broker", "--listen", "tcp://127.0.0.1:*", "--keys", Key("broker")};
  }
  std::vector<std::string> HandlerWords(const std::string& endpoint, const std::string& key) const {
    return {"handler",  "--connect", endpoint, "--device", "cpu:1",
            "--memory", "16MiB",     "--keys", key};
  }
  std::vector<std::string> ManagerWords(const std::string& endpoint, const std::string& job,
                                        const std::string& key) const {
    return {"manager",       "--connect", endpoint, job, "--out",
            folder_ / "out", "--json",    "--keys", key};
  }

  const TestFolder folder_;
};

mode_t ModeOf(const std::string& path) {
  struct stat info {};
  EXPECT_EQ(::stat(path.c_str(), &info), 0) << path;
  return info.st_mode & 07777;
}

TEST_F(Keys, AreWrittenForTheirOwnerOnlyAndNeverReplaced) {
  EXPECT_EQ(ModeOf(folder_ / "keys"), 0700u);
  for (const char* name : {"broker", "handler", "manager"}) EXPECT_EQ(ModeOf(Key(name)), 0600u);
  const std::string before = ReadFile(Key("broker"));
  const Result again = Keygen({});
  EXPECT_EQ(again.code, 2);
  EXPECT_THAT(again.err, AllOf(HasSubstr(Key("broker")), HasSubstr("--add")));
  EXPECT_EQ(ReadFile(Key("broker")), before);
  EXPECT_NE(Value("handler", "secret_key"), Value("manager", "secret_key"));
  EXPECT_EQ(Value("handler", "broker_public_key"), Value("broker", "public_key"));
}

TEST_F(Keys, AreAddedAndRevokedByName) {
  EXPECT_EQ(Keygen({"--add", "handler", "--name", "gpu7"}).code, 0);
  EXPECT_EQ(ModeOf(Key("gpu7")), 0600u);
  EXPECT_THAT(ReadFile(Key("broker")), HasSubstr("name = \"gpu7\"\nrole = \"handler\""));
  EXPECT_EQ(ModeOf(Key("broker")), 0600u);
  EXPECT_THAT(Keygen({"--add", "handler", "--name", "gpu7"}).err, HasSubstr("\"gpu7\" is taken"));
  EXPECT_THAT(Keygen({"--add", "king", "--name", "k"}).err, HasSubstr("\"king\" is no role"));
  EXPECT_THAT(Keygen({"--add", "handler", "--name", "../x"}).err, HasSubstr("\"../x\""));
  EXPECT_THAT(Keygen({"--name", "x"}).err, HasSubstr("--add"));
  EXPECT_EQ(Keygen({"--revoke", "gpu7"}).code, 0);
  EXPECT_THAT(ReadFile(Key("broker")), Not(HasSubstr("gpu7")));
  const Result gone = Keygen({"--revoke", "gpu7"});
  EXPECT_EQ(gone.code, 2);
  EXPECT_THAT(gone.err, AllOf(HasSubstr("\"gpu7\""), HasSubstr("handler, manager")));
}

TEST_F(Keys, FilesThatAreWrongAreRefusedByFileAndField) {
  EXPECT_THAT(HandlerRefusal(folder_ / "none.key"), HasSubstr("none.key: cannot read"));
  EXPECT_THAT(HandlerRefusal(folder_ / "keys"), HasSubstr("is not a file"));
  for (const mode_t mode : {0640, 0604, 0660, 0610}) {
    EXPECT_THAT(HandlerRefusal(Edited("handler", "role", "role", mode)),
                AllOf(HasSubstr("edited.key"), HasSubstr("chmod 600")));
  }
  EXPECT_THAT(HandlerRefusal(Edited("handler", "role = ", "role ")),
              HasSubstr("edited.key, line 2"));
  EXPECT_THAT(HandlerRefusal(Edited("handler", "secret_key", "secret")),
              AllOf(HasSubstr("edited.key"), HasSubstr("\"secret\" is unknown")));
  EXPECT_THAT(HandlerRefusal(Edited("handler", "name = \"handler\"\n", "")),
              HasSubstr("edited.key: the field name is missing"));
  EXPECT_THAT(HandlerRefusal(Edited("handler", "name = \"handler\"", "name = 7")),
              HasSubstr("name must be a string"));
  const std::string secret = Value("handler", "secret_key");
  for (const std::string& wrong : {secret.substr(1), "'" + secret.substr(1)}) {
    const std::string refusal = HandlerRefusal(Edited("handler", secret, wrong));
    EXPECT_THAT(refusal, HasSubstr("edited.key: secret_key"));
    EXPECT_THAT(refusal, Not(HasSubstr(secret.substr(2))));  // not even then is it shown
  }
  EXPECT_THAT(HandlerRefusal(Edited("handler", secret, Value("manager", "secret_key"))),
              HasSubstr("not that of the secret key"));
  EXPECT_THAT(HandlerRefusal(Key("manager")),
              HasSubstr("role is \"manager\", must be \"handler\""));
  EXPECT_THAT(HandlerRefusal(Key("broker")), HasSubstr("the broker's alone"));

  const auto broker_refusal = [&](const std::string& path) {
    const Result result = RunAcan({"broker", "--listen", "tcp://127.0.0.1:*", "--keys", path});
    EXPECT_EQ(result.code, 2) << result.err;
    return result.err;
  };
  EXPECT_THAT(broker_refusal(Key("handler")), HasSubstr("must be \"broker\""));
  EXPECT_THAT(broker_refusal(Edited("broker", "role = \"manager\"", "role = \"king\"")),
              HasSubstr("edited.key, allowed[1]: role is \"king\""));
  EXPECT_THAT(broker_refusal(Edited("broker", "name = \"manager\"", "name = \"handler\"")),
              HasSubstr("allowed[1]: has the name of an entry before it"));
  EXPECT_THAT(RunAcan({"broker", "--listen", "tcp://0.0.0.0:0"}).err, HasSubstr("acan: "));
  EXPECT_THAT(RunAcan({"broker", "--listen", "tcp://0.0.0.0:1"}).err, HasSubstr("let anybody in"));
}

TEST_F(Keys, ARevokedHandlerEndsAndTheJobGoesOnWithAnother) {
  EXPECT_EQ(Keygen({"--add", "handler", "--name", "gpu7"}).code, 0);
  const std::string copy = Edited("gpu7", "role", "role");  // keygen removes its own
  Program broker(BrokerWords());
  const std::string endpoint = EndpointOf(broker);
  Program good(HandlerWords(endpoint, Key("handler")));
  Program bad(HandlerWords(endpoint, copy));
  ASSERT_TRUE(bad.WaitForErr("joined"));
  Program manager(ManagerWords(endpoint, folder_.Write("job.toml", EndlessJob()), Key("manager")));
  ASSERT_TRUE(manager.WaitForErr("epoch 1/"));
  EXPECT_EQ(Keygen({"--revoke", "gpu7"}).code, 0);
  EXPECT_EQ(bad.Wait(), 1);
  EXPECT_THAT(bad.err(), HasSubstr("revoked"));
  const Result again = RunAcan(HandlerWords(endpoint, copy));
  EXPECT_EQ(again.code, 1);
  EXPECT_THAT(again.err, AllOf(HasSubstr("refused the key \"gpu7\""), Not(HasSubstr("secret"))));
  ASSERT_TRUE(manager.WaitForErr("epoch 3/"));
  manager.Signal(SIGTERM);
  EXPECT_EQ(manager.Wait(), 128 + SIGTERM);
}

TEST_F(Keys, AHandlersKeyDoesNotMakeAManager) {
  Program broker(BrokerWords());
  const std::string endpoint = EndpointOf(broker);
  const std::string job = folder_.Write("job.toml", SmallJob());
  const Result honest = RunAcan(ManagerWords(endpoint, job, Key("handler")));
  EXPECT_EQ(honest.code, 2);
  // Who writes another role into the file is refused by the broker.
  const Result forged = RunAcan(
      ManagerWords(endpoint, job, Edited("handler", "role = \"handler\"", "role = \"manager\"")));
  EXPECT_EQ(forged.code, 1);
  EXPECT_THAT(forged.err, AllOf(HasSubstr("key \"handler\" has the role \"handler\""),
                                HasSubstr("may not put (\"leader\"")));
}

// ---- a job while others do their worst ---------------------------------------------------------

// Opens a tcp connection to `endpoint` and says `bytes`; the descriptor, or -1.
int Attack(const std::string& endpoint, const std::string& bytes) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port =
      htons(static_cast<std::uint16_t>(std::stoi(endpoint.substr(endpoint.rfind(':') + 1))));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) {
    ::close(fd);
    return -1;
  }
  [[maybe_unused]] const auto sent = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  return fd;
}

TEST_F(Keys, AJobUnderAttackGivesTheSameBits) {
  const std::string job = folder_.Write("job.toml", SmallJob());
  const Result quiet =
      RunAcan({"train", job, "--handlers", "cpu:1", "--out", folder_ / "quiet", "--json"},
              {{"ACAN_KEYS", Key("handler")}});  // not for a run of one's own
  ASSERT_EQ(quiet.code, 0) << quiet.err;

  Program broker(BrokerWords());
  const std::string endpoint = EndpointOf(broker);
  Program handler(HandlerWords(endpoint, Key("handler")));
  ASSERT_TRUE(handler.WaitForErr("joined"));
  std::string greeting("\xff\0\0\0\0\0\0\0\0\x7f\3\0CURVE", 17);
  greeting.resize(64);
  const std::string sixteen_gib("\6\0\0\0\4\0\0\0\0", 9);
  std::mt19937_64 random(5);
  std::vector<int> open;
  const auto attack = [&](int from, int to) {
    for (int i = from; i < to; ++i) {
      std::string noise(500, '\0');
      for (char& c : noise) c = static_cast<char>(random());
      open.push_back(Attack(endpoint, i % 50 == 1   ? greeting + sixteen_gib
                                      : i % 50 == 2 ? noise
                                                    : greeting.substr(0, 1 + i % 64)));
    }
  };
  attack(0, 400);
  // No more than what one address may have is taken by then: the manager still gets in.
  Program manager(ManagerWords(endpoint, job, Key("manager")));
  ASSERT_TRUE(broker.WaitForErr("(manager of"));
  attack(400, 1000);
  ASSERT_EQ(manager.Wait(), 0) << manager.err();
  for (const int fd : open) ::close(fd);
  const auto receipt = nlohmann::json::parse(LastLine(manager.out()));
  EXPECT_EQ(receipt["weights_sha256"],
            nlohmann::json::parse(LastLine(quiet.out))["weights_sha256"]);
  EXPECT_THAT(handler.err(), Not(HasSubstr("lost")));
  broker.Signal(SIGTERM);
  EXPECT_EQ(broker.Wait(), 128 + SIGTERM);
  EXPECT_THAT(broker.err(), HasSubstr("connections_per_address = 512"));
  EXPECT_LE(std::count(broker.err().begin(), broker.err().end(), '\n'), 12) << broker.err();
}

}  // namespace
}  // namespace acan::testing
