// acan keygen, its files, and roles that connect with keys.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <filesystem>
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
  // A copy of a key file in which `from` is replaced by `to`.
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
  // What a handler prints about this key file, which it must reject.
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
  EXPECT_THAT(Keygen({"--add", "king", "--name", "k"}).err, HasSubstr("\"king\" is not a role"));
  EXPECT_THAT(Keygen({"--add", "handler", "--name", "../x"}).err, HasSubstr("\"../x\""));
  EXPECT_THAT(Keygen({"--name", "x"}).err, HasSubstr("--add"));
  EXPECT_EQ(Keygen({"--revoke", "gpu7"}).code, 0);
  EXPECT_THAT(ReadFile(Key("broker")), Not(HasSubstr("gpu7")));
  EXPECT_NE(::access(Key("gpu7").c_str(), F_OK), 0);
  const Result gone = Keygen({"--revoke", "gpu7"});
  EXPECT_EQ(gone.code, 2);
  EXPECT_THAT(gone.err, AllOf(HasSubstr("\"gpu7\""), HasSubstr("handler, manager")));
}

// A broker may read the list through another name.
TEST_F(Keys, AreRevokedBehindALink) {
  const std::string list = folder_ / "list.key";
  ASSERT_EQ(::rename(Key("broker").c_str(), list.c_str()), 0);
  ASSERT_EQ(::symlink(list.c_str(), Key("broker").c_str()), 0);
  EXPECT_EQ(Keygen({"--revoke", "handler"}).code, 0);
  EXPECT_THAT(ReadFile(list), Not(HasSubstr("name = \"handler\"")));
  EXPECT_NE(::access(Key("handler").c_str(), F_OK), 0);
}

TEST_F(Keys, NothingIsMadeWhileAnotherKeygenIsAtWork) {
  const std::string before = ReadFile(Key("broker"));
  folder_.Write("keys/broker.key.new", "");
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"--revoke", "handler"}, {"--add", "handler", "--name", "gpu7"}}) {
    const Result refused = Keygen(words);
    EXPECT_EQ(refused.code, 1);
    EXPECT_THAT(refused.err, HasSubstr("another acan keygen is running"));
  }
  EXPECT_EQ(ReadFile(Key("broker")), before);
  EXPECT_EQ(::access(Key("handler").c_str(), F_OK), 0);
  EXPECT_NE(::access(Key("gpu7").c_str(), F_OK), 0) << "of no use, and in the way of the next";
  EXPECT_EQ(::access((Key("broker") + ".new").c_str(), F_OK), 0) << "it is the other's";
}

TEST_F(Keys, NothingIsLeftOfAKeyThatIsNotOnTheList) {
  ASSERT_EQ(::mkdir((folder_ / "other").c_str(), 0700), 0);
  folder_.Write("other/manager.key", "somebody's");
  for (int times = 0; times < 2; ++times) {
    const Result refused = RunAcan({"keygen", "--out", folder_ / "other"});
    EXPECT_EQ(refused.code, 1);
    EXPECT_THAT(refused.err, HasSubstr("other/manager.key: cannot create"));
    EXPECT_NE(::access((folder_ / "other/handler.key").c_str(), F_OK), 0);
    EXPECT_NE(::access((folder_ / "other/broker.key").c_str(), F_OK), 0);
  }
  EXPECT_EQ(ReadFile(folder_ / "other/manager.key"), "somebody's");
}

TEST_F(Keys, FilesThatAreWrongAreRefusedByFileAndField) {
  EXPECT_THAT(HandlerRefusal(folder_ / "none.key"),
              HasSubstr("none.key: cannot open as a key file"));
  EXPECT_THAT(HandlerRefusal(folder_ / "keys"), HasSubstr("is a directory, expected a key file"));
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
    EXPECT_THAT(refusal, Not(HasSubstr(secret.substr(2))));  // not shown even in this case
  }
  EXPECT_THAT(HandlerRefusal(Edited("handler", secret, Value("manager", "secret_key"))),
              HasSubstr("not that of the secret key"));
  EXPECT_THAT(HandlerRefusal(Key("manager")),
              HasSubstr("role is \"manager\", but must be \"handler\""));
  EXPECT_THAT(HandlerRefusal(Key("broker")), HasSubstr("only the broker uses this file"));

  const auto broker_refusal = [&](const std::string& path) {
    const Result result = RunAcan({"broker", "--listen", "tcp://127.0.0.1:*", "--keys", path});
    EXPECT_EQ(result.code, 2) << result.err;
    return result.err;
  };
  EXPECT_THAT(broker_refusal(Key("handler")), HasSubstr("must be \"broker\""));
  EXPECT_THAT(broker_refusal(Edited("broker", "role = \"manager\"", "role = \"king\"")),
              HasSubstr("edited.key, allowed[1]: role is \"king\""));
  EXPECT_THAT(broker_refusal(Edited("broker", "name = \"manager\"", "name = \"handler\"")),
              HasSubstr("allowed[1]: has the name of an earlier entry"));
  EXPECT_THAT(RunAcan({"broker", "--listen", "tcp://0.0.0.0:0"}).err, HasSubstr("acan: "));
  EXPECT_THAT(RunAcan({"broker", "--listen", "tcp://0.0.0.0:1"}).err, HasSubstr("admit anybody"));
}

TEST_F(Keys, AFileOfAnotherUserIsRefused) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a file to another user";
  constexpr uid_t kOther = 12345;
  ASSERT_EQ(::chown(Key("handler").c_str(), kOther, 0), 0);
  EXPECT_THAT(HandlerRefusal(Key("handler")),
              AllOf(HasSubstr("handler.key: belongs to user 12345"), HasSubstr("this user (0)")));
}

TEST_F(Keys, ARevokedHandlerEndsAndTheJobGoesOnWithAnother) {
  EXPECT_EQ(Keygen({"--add", "handler", "--name", "gpu7"}).code, 0);
  const std::string copy = Edited("gpu7", "role", "role");  // keygen removes the original
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
  // Whoever can answer there can forge a refusal, so a handler tries for a while.
  Program again(HandlerWords(endpoint, copy));
  EXPECT_TRUE(again.WaitForErr("refused the key \"gpu7\""));
  again.Signal(SIGTERM);
  EXPECT_EQ(again.Wait(), 128 + SIGTERM);
  EXPECT_THAT(again.err(), Not(HasSubstr("secret")));
  ASSERT_TRUE(manager.WaitForErr("epoch 3/"));
  manager.Signal(SIGTERM);
  EXPECT_EQ(manager.Wait(), 128 + SIGTERM);
}

TEST_F(Keys, MayBeLimitedToJobsAndToADate) {
  const Result added =
      Keygen({"--add", "handler", "--name", "guest", "--jobs", "3f2a*", "--until", "2187-12-31"});
  EXPECT_EQ(added.code, 0) << added.err;
  EXPECT_THAT(added.out,
              AllOf(HasSubstr("begins with 3f2a"), HasSubstr("until 2188-01-01 00:00:00 UTC")));
  for (const char* file : {"guest", "broker"}) {
    EXPECT_THAT(ReadFile(Key(file)), HasSubstr("jobs = \"3f2a*\"\nuntil = 2188-01-01T00:00:00Z"));
  }
  const Result one = Keygen({"--add", "manager", "--name", "one", "--jobs", "0123456789abcdef",
                             "--until", "2187-12-31T18:00:00+02:00"});
  EXPECT_EQ(one.code, 0);
  EXPECT_THAT(one.out, HasSubstr("for the job with the id 0123456789abcdef, until"));
  EXPECT_THAT(ReadFile(Key("broker")),
              HasSubstr("jobs = \"0123456789abcdef\"\nuntil = 2187-12-31T16:00:00Z"))
      << "and others stay as they are";
  EXPECT_THAT(ReadFile(Key("broker")), HasSubstr("jobs = \"3f2a*\""));
  // A job file stands for the job's id.
  const std::string job = folder_.Write("job.toml", SmallJob());
  const Result of_job = Keygen({"--add", "observer", "--jobs", job});
  EXPECT_EQ(of_job.code, 0) << of_job.err;
  const std::string id = Value("observer", "jobs");
  EXPECT_EQ(id.size(), 16u);
  Program manager(
      {"manager", "--connect", "ipc://" + (folder_ / "none"), job, "--out", folder_ / "out"});
  EXPECT_TRUE(manager.WaitForErr("the job's id is " + id));

  for (const char* jobs : {"*", "d*", "3f2a", "3F2A*", "mnist", "3f2a*b", "0123456789abcdef*", "**",
                           "0123456789abcdef0"}) {
    const Result wrong = Keygen({"--add", "handler", "--name", "x", "--jobs", jobs});
    EXPECT_EQ(wrong.code, 2) << jobs;
    EXPECT_THAT(wrong.err, AllOf(HasSubstr("--jobs"), HasSubstr(jobs), HasSubstr("3f2a*")));
  }
  for (const char* date : {"tomorrow", "2187-13-01", "2187-02-30", "31.12.2187", "2187-12-31 x",
                           "2187-12-31T18:00:00", "18:00:00", "1", "2187-12-31\nx = 1"}) {
    const Result wrong = Keygen({"--add", "handler", "--name", "x", "--until", date});
    EXPECT_EQ(wrong.code, 2) << date;
    std::string said = date;
    std::ranges::replace(said, '\n', ' ');  // as in all messages about user-provided text
    EXPECT_THAT(wrong.err, AllOf(HasSubstr("--until"), HasSubstr(said), HasSubstr("2027-01-31")));
  }
  EXPECT_THAT(Keygen({"--add", "handler", "--name", "x", "--until", "2001-01-01"}).err,
              HasSubstr("is in the past"));
  // TOML has no year 10000, in which the end of this day would be.
  const std::string before = ReadFile(Key("broker"));
  for (const char* date :
       {"9999-12-31", "9999-12-31T23:00:00-01:00", "0000-01-01T00:00:00+01:00"}) {
    const Result wrong = Keygen({"--add", "handler", "--name", "x", "--until", date});
    EXPECT_EQ(wrong.code, 2) << date;
    EXPECT_THAT(wrong.err, AllOf(HasSubstr("--until"), HasSubstr(date), HasSubstr("0000 to 9999")));
    EXPECT_EQ(ReadFile(Key("broker")), before);
  }
  EXPECT_EQ(Keygen({"--add", "handler", "--name", "x", "--until", "9999-12-30"}).code, 0);
  EXPECT_THAT(ReadFile(Key("broker")), HasSubstr("until = 9999-12-31T00:00:00Z"));
  EXPECT_EQ(Keygen({"--jobs", "3f2a*"}).code, 2);
  EXPECT_THAT(Keygen({"--until", "2187-01-01"}).err, HasSubstr("--add"));
  EXPECT_THAT(HandlerRefusal(Edited("guest", "\"3f2a*\"", "\"all\"")),
              AllOf(HasSubstr("edited.key: jobs"), HasSubstr("\"all\"")));
  EXPECT_THAT(HandlerRefusal(Edited("guest", "2188-01-01T00:00:00Z", "\"soon\"")),
              HasSubstr("edited.key: until must be a date"));
}

// As the manager does: otherwise the key would be for a job that nobody trains.
TEST_F(Keys, ForAJobFileObeyItsOverrides) {
  const std::string job = folder_.Write("job.toml", SmallJob());
  const auto id_of = [&](const std::string& name, const std::vector<std::string>& more,
                         const Environment& environment) {
    std::vector<std::string> words = {"keygen", "--out", folder_ / "keys", "--add", "observer",
                                      "--name", name,    "--jobs",         job};
    words.insert(words.end(), more.begin(), more.end());
    const Result added = RunAcan(words, environment);
    EXPECT_EQ(added.code, 0) << added.err;
    return Value(name, "jobs");
  };
  const std::string plain = id_of("plain", {}, {});
  const std::string id = id_of("flag", {"--set", "train.seed=9"}, {});
  EXPECT_NE(id, plain);
  EXPECT_EQ(id_of("variable", {}, {{"ACAN_SET", "train.seed=9"}}), id);
  Program manager({"manager", "--connect", "ipc://" + (folder_ / "none"), job, "--out",
                   folder_ / "out", "--set", "train.seed=9"});
  EXPECT_TRUE(manager.WaitForErr("the job's id is " + id));
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"--add", "handler", "--name", "x", "--jobs", "3f2a*"},
        {"--add", "handler", "--name", "x"}}) {
    std::vector<std::string> with_set = words;
    with_set.insert(with_set.end(), {"--set", "train.seed=9"});
    const Result refused = Keygen(with_set);
    EXPECT_EQ(refused.code, 2);
    EXPECT_THAT(refused.err, HasSubstr("give --jobs FILE.toml"));
  }
  EXPECT_EQ(Keygen({"--revoke", "plain", "--set", "train.seed=9"}).code, 2);
}

TEST_F(Keys, ThatAreGoneAreReportedAndThePreviousListStaysInForce) {
  Program broker(BrokerWords());
  const std::string endpoint = EndpointOf(broker);
  std::filesystem::rename(Key("broker"), folder_ / "away");
  ASSERT_TRUE(broker.WaitForErr("the previous list stays in force"));
  Program handler(HandlerWords(endpoint, Key("handler")));
  EXPECT_TRUE(handler.WaitForErr("joined"));
  std::filesystem::rename(folder_ / "away", Key("broker"));
  EXPECT_TRUE(broker.WaitForErr("has changed"));
}

TEST_F(Keys, OfOtherJobsDoNotTrainThisOne) {
  const std::string job = folder_.Write("job.toml", SmallJob());
  const Result quiet =
      RunAcan({"train", job, "--handlers", "cpu:1", "--out", folder_ / "quiet", "--json"});
  ASSERT_EQ(quiet.code, 0) << quiet.err;
  for (const char* role : {"handler", "manager"}) {
    const std::string name = std::string("my-") + role;
    ASSERT_EQ(Keygen({"--add", role, "--name", name, "--jobs", job}).code, 0);
    // Changes one digit.
    std::string other = Value(name, "jobs");
    other[0] = other[0] == '0' ? '1' : '0';
    ASSERT_EQ(Keygen({"--add", role, "--name", std::string("no-") + role, "--jobs", other}).code,
              0);
  }
  Program broker(BrokerWords());
  const std::string endpoint = EndpointOf(broker);
  const Result refused = RunAcan(ManagerWords(endpoint, job, Key("no-manager")));
  EXPECT_EQ(refused.code, 1);
  EXPECT_THAT(refused.err, AllOf(HasSubstr("\"no-manager\""), HasSubstr("for what begins with"),
                                 HasSubstr("may not put (\"leader\"")));
  // A handler that gets no tasks of this job does not count for it.
  Program other(HandlerWords(endpoint, Key("no-handler")));
  ASSERT_TRUE(other.WaitForErr("joined"));
  Program manager(ManagerWords(endpoint, job, Key("my-manager")));
  ASSERT_TRUE(manager.WaitForErr("no handler"));
  Program mine(HandlerWords(endpoint, Key("my-handler")));
  ASSERT_EQ(manager.Wait(), 0) << manager.err();
  EXPECT_EQ(nlohmann::json::parse(LastLine(manager.out()))["weights_sha256"],
            nlohmann::json::parse(LastLine(quiet.out))["weights_sha256"]);
  other.Signal(SIGTERM);
  EXPECT_EQ(other.Wait(), 128 + SIGTERM);
  EXPECT_THAT(other.err(), AllOf(HasSubstr("0 tasks done"), Not(HasSubstr("may not"))));
}

TEST_F(Keys, AHandlerWhoseKeyEndsIsSentAwayAndTheJobGoesOn) {
  const std::time_t end = std::time(nullptr) + 8;
  std::tm parts{};
  ::gmtime_r(&end, &parts);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts);
  ASSERT_EQ(Keygen({"--add", "handler", "--name", "guest", "--until", text.data()}).code, 0);
  Program broker(BrokerWords());
  const std::string endpoint = EndpointOf(broker);
  Program guest(HandlerWords(endpoint, Key("guest")));
  Program good(HandlerWords(endpoint, Key("handler")));
  ASSERT_TRUE(good.WaitForErr("joined"));
  Program manager(ManagerWords(endpoint, folder_.Write("job.toml", EndlessJob()), Key("manager")));
  EXPECT_EQ(guest.Wait(), 1);
  EXPECT_GE(std::time(nullptr), end);
  EXPECT_THAT(guest.err(), HasSubstr("expired at"));
  Program again(HandlerWords(endpoint, Key("guest")));
  EXPECT_EQ(again.Wait(), 1);
  EXPECT_THAT(again.err(), AllOf(HasSubstr("refused the key \"guest\""), HasSubstr("has expired"),
                                 HasSubstr("UTC")));
  ASSERT_TRUE(manager.WaitForErr("epoch 3/"));
  manager.Signal(SIGTERM);
  EXPECT_EQ(manager.Wait(), 128 + SIGTERM);
  broker.Signal(SIGTERM);
  broker.Wait();
  EXPECT_THAT(broker.err(), HasSubstr("its key \"guest\" expired at"));
}

TEST_F(Keys, AHandlersKeyDoesNotMakeAManager) {
  Program broker(BrokerWords());
  const std::string endpoint = EndpointOf(broker);
  const std::string job = folder_.Write("job.toml", SmallJob());
  const Result honest = RunAcan(ManagerWords(endpoint, job, Key("handler")));
  EXPECT_EQ(honest.code, 2);
  // The broker refuses a key whose file was edited to another role.
  const Result forged = RunAcan(
      ManagerWords(endpoint, job, Edited("handler", "role = \"handler\"", "role = \"manager\"")));
  EXPECT_EQ(forged.code, 1);
  EXPECT_THAT(forged.err, AllOf(HasSubstr("key \"handler\" has the role \"handler\""),
                                HasSubstr("may not put (\"leader\"")));
}

// ---- a job under attack -------------------------------------------------------------------------

// Opens a TCP connection to `endpoint` and sends `bytes`; returns the descriptor, or -1.
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
              {{"ACAN_KEYS", Key("handler")}});  // not needed by `acan train`
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
  // At most the connections of one address are taken, so the manager still gets in.
  Program manager(ManagerWords(endpoint, job, Key("manager")));
  ASSERT_TRUE(broker.WaitForErr("(manager of"));
  attack(400, 1000);
  ASSERT_EQ(manager.Wait(), 0) << manager.err();
  EXPECT_TRUE(broker.WaitForErr("connections_per_address = 512")) << broker.err();
  for (const int fd : open) ::close(fd);
  const auto receipt = nlohmann::json::parse(LastLine(manager.out()));
  EXPECT_EQ(receipt["weights_sha256"],
            nlohmann::json::parse(LastLine(quiet.out))["weights_sha256"]);
  EXPECT_THAT(handler.err(), Not(HasSubstr("lost")));
  broker.Signal(SIGTERM);
  EXPECT_EQ(broker.Wait(), 128 + SIGTERM);
  EXPECT_LE(std::count(broker.err().begin(), broker.err().end(), '\n'), 12) << broker.err();
}

}  // namespace
}  // namespace acan::testing
