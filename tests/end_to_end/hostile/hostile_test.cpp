// Whatever a client does during a training, whether it has a handler's key, an observer's key or
// none: the run ends, it has the weights of the undisturbed run, and nothing is left in the space.
//
// To attack for longer by hand (docs/reliability.md): ACAN_HOSTILE_SEED=7 ACAN_HOSTILE_SECONDS=3600
// build/ci/bin/end_to_end_test --gtest_filter='*ARandomMix*'
#include "hostile_client.h"

#include <signal.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <iostream>
#include <list>
#include <optional>
#include <vector>

#include "acan/core/names.h"
#include "access_file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "program.h"
#include "unannounced.h"

namespace acan::testing {
namespace {

using tuplespace::Counters;
using tuplespace::FieldPattern;
using tuplespace::Key;
using Clock = std::chrono::steady_clock;

// How long a run may make no progress. An undisturbed run takes about three seconds in all.
constexpr std::chrono::seconds kPatience{100};

constexpr const char* kAttackedJob = R"([model]
layers = [97, 211, 53, 10]
activation = "tanh"
loss = "mse"
[data]
generated = "regression"
samples = 1600
[train]
batch = 37
epochs = 40
learning_rate = 0.05
optimizer = "momentum"
)";

constexpr const char* kWideJob = R"([model]
layers = [64, 1500, 1500, 8]
activation = "tanh"
loss = "mse"
[data]
generated = "regression"
samples = 1500
[train]
batch = 50
epochs = 1
learning_rate = 0.05
)";

// Has the weights of kAttackedJob. Its leases are short; leases that the policy learns start at ten
// seconds.
std::string JobWithShortLeases() {
  return std::string(kAttackedJob) + "[tasks]\ntimeout_ms = 200\n";
}

double SecondsSince(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// The last position in a manager's log, such as "step 750/1760"; "" if there is none yet.
std::string LastStep(const std::string& log) {
  const std::size_t at = log.rfind("step ");
  return at == std::string::npos ? "" : log.substr(at, log.find_first_of(": \n", at + 5) - at);
}

void RunCommand(const std::vector<std::string>& words) {
  const Result result = RunAcan(words);
  EXPECT_EQ(result.code, 0) << result.err;
}

// A broker, two handlers and a manager, each a process with a key, and the keys of the attackers.
class Cluster {
 public:
  // `handler_keys`: the names of the keys of the two handlers.
  explicit Cluster(const std::string& job = kAttackedJob, const std::string& memory = "16MiB",
                   const std::vector<std::string>& handler_keys = {"handler", "handler"})
      : job_(folder_.Write("job.toml", job)) {
    RunCommand({"keygen", "--out", folder_ / "keys"});
    RunCommand({"keygen", "--out", folder_ / "keys", "--add", "handler", "--name", "evil"});
    RunCommand({"keygen", "--out", folder_ / "keys", "--add", "observer", "--name", "watch"});
    for (const std::string& key : handler_keys) {
      if (key == "handler") continue;
      RunCommand({"keygen", "--out", folder_ / "keys", "--add", "handler", "--name", key});
    }
    broker_.emplace(std::vector<std::string>{"broker", "--listen", endpoints_[0], "--listen",
                                             "tcp://127.0.0.1:*", "--keys", KeyFile("broker")});
    EXPECT_TRUE(broker_->WaitForOut("tcp://"));
    const std::size_t at = broker_->out().find("tcp://");
    endpoints_.push_back(broker_->out().substr(at, broker_->out().find('\n', at) - at));
    for (std::size_t i = 0; i < 2; ++i) {
      handlers_.emplace_back(std::vector<std::string>{"handler", "--connect", endpoints_[i],
                                                      "--device", "cpu:1", "--memory", memory,
                                                      "--keys", KeyFile(handler_keys.at(i))});
    }
    for (Program& handler : handlers_) EXPECT_TRUE(handler.WaitForErr("joined"));
  }
  void Begin() {
    began_ = Clock::now();
    manager_.emplace(std::vector<std::string>{"manager", "--connect", endpoints_[0], job_, "--out",
                                              folder_ / "out", "--json", "--keys",
                                              KeyFile("manager")});
  }
  bool WaitForTraining() { return manager_->WaitForErr("epoch 1/"); }
  // Waits until the manager reports that the broker mistrusts a client of `key`.
  bool WaitForMistrust(const std::string& key) {
    return manager_->WaitForErr("client \"" + key + "/");
  }
  void SignalHandlers(int signal) {
    for (Program& handler : handlers_) handler.Signal(signal);
  }

  HostileClient Hostile(const std::string& key, std::uint64_t seed,
                        std::shared_ptr<Progress> progress = std::make_shared<Progress>()) const {
    return {endpoints_, cli::ReadAccessFile(KeyFile(key)).access, seed, std::move(progress)};
  }

  // Returns the hash of the run's weights, or a note if the run fails.
  std::string AwaitEnd() {
    Clock::time_point deadline = Clock::now() + kPatience;
    std::string step;
    while (manager_->Runs()) {
      OthersAreAlive();  // also reads their output, so that their pipes do not fill up
      if (std::string now = LastStep(manager_->err()); now != step) {
        step = std::move(now);
        deadline = Clock::now() + kPatience;
      }
      if (Clock::now() < deadline) {
        WaitForAny(Programs(), deadline);
        continue;
      }
      ADD_FAILURE() << "the run does not go on" << Logs();
      manager_->Signal(SIGKILL);
    }
    seconds_ = SecondsSince(began_);
    EXPECT_EQ(manager_->Wait(), 0) << Logs();
    receipt_ = nlohmann::json::parse(LastLine(manager_->out()), nullptr, false);
    return receipt_.is_object() ? receipt_["weights_sha256"].get<std::string>() : "no receipt";
  }
  bool OthersAreAlive() {
    bool alive = broker_->Runs();
    for (Program& handler : handlers_) alive = handler.Runs() && alive;
    return alive;
  }
  // Only tuples of connected handlers and the receipt may remain in the space.
  void ExpectNothingIsLeft() {
    const std::unique_ptr<tuplespace::Client> watch =
        Hostile("watch", 1).MakeClient(cli::ReadAccessFile(KeyFile("watch")).access);
    std::string left;
    const auto nothing_is_left = [&] {
      left.clear();
      for (const auto& found : watch->ListAll({{FieldPattern::Any()}, true}, true)) {
        if (!BelongsThere(found.key, found.put_by)) left += found.key.ToString() + " ";
      }
      return left.empty();
    };
    EXPECT_TRUE(tuplespace::AwaitUnannounced(nothing_is_left, kPatience)) << left;
    counters_ = watch->GetStatistics()->counters;
  }
  void End() {
    for (Program& handler : handlers_) {
      handler.Signal(SIGTERM);
      EXPECT_EQ(handler.Wait(), 128 + SIGTERM) << handler.err();
    }
    broker_->Signal(SIGTERM);
    EXPECT_EQ(broker_->Wait(), 128 + SIGTERM) << broker_->err();
  }

  const nlohmann::json& receipt() const { return receipt_; }
  const std::string& log() const { return manager_->err(); }
  const Counters& counters() const { return counters_; }
  double seconds() const { return seconds_; }
  std::string Logs() const {
    const auto last = [](const std::string& text) {
      return text.size() > 4000 ? "..." + text.substr(text.size() - 4000) : text;
    };
    std::string logs =
        "\nmanager:\n" + last(manager_->err()) + "\nbroker:\n" + last(broker_->err());
    for (const Program& handler : handlers_) logs += "\nhandler:\n" + last(handler.err());
    return logs;
  }

 private:
  std::vector<const Program*> Programs() const {
    std::vector<const Program*> programs = {&*manager_, &*broker_};
    for (const Program& handler : handlers_) programs.push_back(&handler);
    return programs;
  }
  std::string KeyFile(const std::string& name) const { return folder_ / ("keys/" + name + ".key"); }
  // True for a receipt, for capacities and reports that handlers put about themselves, and for what
  // the space began with.
  static bool BelongsThere(const Key& key, const std::string& put_by) {
    if (key == ProbeTurnKey()) return put_by == "broker";
    const std::vector<tuplespace::Field> fields = key.Fields();
    const auto* what = std::get_if<std::string>(&fields[0]);
    if (what == nullptr) return false;
    if (*what == "handler" || *what == "report") return put_by.starts_with("handler");
    return *what == "done" && put_by.starts_with("manager/");
  }

  TestFolder folder_;
  std::string job_;
  std::vector<std::string> endpoints_ = {"ipc://" + (folder_ / "space")};
  std::optional<Program> broker_, manager_;
  std::list<Program> handlers_;
  Clock::time_point began_;
  double seconds_ = 0;
  nlohmann::json receipt_;
  Counters counters_;
};

struct Wave {
  std::string key;
  int clients = 1;
  std::vector<Attack> attacks;
};

class HostileTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { TrainUndisturbed(kAttackedJob, "16MiB"); }
  static void TrainUndisturbed(const std::string& job, const std::string& memory) {
    Cluster cluster(job, memory);
    cluster.Begin();
    undisturbed_ = cluster.AwaitEnd();
    undisturbed_seconds_ = cluster.seconds();
    cluster.ExpectNothingIsLeft();
    cluster.End();
  }

  // Trains while all waves attack; returns the counters of the broker.
  Counters TrainUnder(const std::vector<Wave>& waves, std::uint64_t seed = 1) {
    const std::set<std::string> shared_memory = SharedMemoryNames();
    Cluster cluster(job_, memory_, handler_keys_);
    const auto progress = std::make_shared<Progress>();
    std::list<Attacker> attackers;
    const auto attack = [&] {
      for (const Wave& wave : waves) {
        for (int i = 0; i < wave.clients; ++i) {
          attackers.emplace_back(cluster.Hostile(wave.key, seed++, progress), wave.attacks);
        }
      }
    };
    if (begins_ == Begins::kBeforeTheRun) {
      attack();
      Await(*progress, [this](const Progress::Counts& counts) {
        return counts.rounds > 0 && (counts.stored > 0 || !listed_first_);
      });
    }
    cluster.Begin();
    if (begins_ == Begins::kBeforeTheRun || cluster.WaitForTraining()) {
      // Honest handlers are faster. They are stopped until the attack has gone as far as it must.
      if (honest_wait_ != HonestWait::kNo) cluster.SignalHandlers(SIGSTOP);
      if (attackers.empty()) attack();
      if (honest_wait_ == HonestWait::kUntilTasksAreTaken) {
        Await(*progress, [](const Progress::Counts& counts) { return counts.taken > 0; });
      } else if (honest_wait_ == HonestWait::kUntilKeyIsMistrusted) {
        EXPECT_TRUE(cluster.WaitForMistrust(waves.front().key)) << cluster.Logs();
      }
      cluster.SignalHandlers(SIGCONT);
    }
    EXPECT_EQ(cluster.AwaitEnd(), undisturbed_);
    EXPECT_TRUE(cluster.OthersAreAlive()) << cluster.Logs();
    attackers.clear();
    counts_ = progress->counts();
    receipt_ = cluster.receipt();
    log_ = cluster.log();
    EXPECT_GT(counts_.rounds, 0u);
    cluster.ExpectNothingIsLeft();
    cluster.End();
    EXPECT_THAT(SharedMemoryNames(), ::testing::IsSubsetOf(shared_memory));
    Report(cluster);
    return cluster.counters();
  }
  template <typename Condition>
  static void Await(const Progress& progress, Condition fulfilled) {
    ASSERT_TRUE(progress.WaitUntil(Clock::now() + kPatience, fulfilled))
        << "no hostile client got as far as its attack";
  }
  void Report(const Cluster& cluster) {
    const double ratio = cluster.seconds() / undisturbed_seconds_;
    RecordProperty("seconds", std::to_string(cluster.seconds()));
    RecordProperty("undisturbed_seconds", std::to_string(undisturbed_seconds_));
    RecordProperty("slow_down", std::to_string(ratio));
    const Counters& c = cluster.counters();
    std::cout << cluster.seconds() << " s, " << ratio << " times as long as undisturbed; "
              << counts_.rounds << " rounds, " << counts_.taken << " tasks taken, "
              << counts_.answered << " answers without an error; " << c.requests
              << " requests; refused: " << c.refused_requests << " requests, " << c.refused_results
              << " results; " << c.false_completions << " false completions, " << c.failed
              << " failed, " << c.leases_expired << " leases expired, " << c.leases_returned
              << " returned, " << c.benched << " benched\n";
    if (::testing::Test::HasFailure()) std::cout << cluster.Logs() << "\n";
  }

  std::string job_ = kAttackedJob;
  std::string memory_ = "16MiB";  // of each honest handler
  std::vector<std::string> handler_keys_ = {"handler", "handler"};
  enum class Begins { kBeforeTheRun, kWithinTheRun };
  Begins begins_ = Begins::kBeforeTheRun;
  enum class HonestWait { kNo, kUntilTasksAreTaken, kUntilKeyIsMistrusted };
  HonestWait honest_wait_ = HonestWait::kNo;
  Progress::Counts counts_;    // what the last attack achieved
  bool listed_first_ = false;  // the run begins when the space has an attacker's capacity
  nlohmann::json receipt_;     // of the last attacked run
  std::string log_;            // its manager's
  static std::string undisturbed_;
  static double undisturbed_seconds_;
};
std::string HostileTest::undisturbed_;
double HostileTest::undisturbed_seconds_ = 0;

TEST_F(HostileTest, InventedCompletionsStoreNoWeights) {
  honest_wait_ = HonestWait::kUntilTasksAreTaken;
  EXPECT_GT(TrainUnder({{"evil", 2, {CompleteInventedTasks}}}).refused_results, 0u);
}

TEST_F(HostileTest, TasksCompletedWithoutResultsAreDoneByOthers) {
  honest_wait_ = HonestWait::kUntilTasksAreTaken;
  EXPECT_GT(TrainUnder({{"evil", 2, {CompleteWithoutResults}}}).false_completions, 0u);
}

TEST_F(HostileTest, TasksCompletedWithOtherResultsAreDoneByOthers) {
  honest_wait_ = HonestWait::kUntilTasksAreTaken;
  EXPECT_GT(TrainUnder({{"evil", 2, {CompleteWithOtherResults}}}).false_completions, 0u);
}

TEST_F(HostileTest, ResultsStayWhenTheirMakerLeaves) {
  honest_wait_ = HonestWait::kUntilTasksAreTaken;
  TrainUnder({{"evil", 2, {TakeResultsAlong}}});
  EXPECT_GT(counts_.stored, 0u);
}

TEST_F(HostileTest, TasksThatOneFailsAreDoneByOthers) {
  honest_wait_ = HonestWait::kUntilTasksAreTaken;
  const Counters counters = TrainUnder({{"evil", 2, {FailTasks}}});
  EXPECT_GT(counters.failed, 0u);
  EXPECT_EQ(counters.parked, 0u);
}

TEST_F(HostileTest, LeasesThatAreExtendedOnAndOnEnd) {
  honest_wait_ = HonestWait::kUntilTasksAreTaken;
  begins_ = Begins::kWithinTheRun;  // the leases of the first tasks are long
  EXPECT_GT(TrainUnder({{"evil", 1, {ExtendLeases}}}).leases_expired, 0u);
}

TEST_F(HostileTest, TasksOfAClientThatSaysNothingGoToOthers) {
  honest_wait_ = HonestWait::kUntilTasksAreTaken;
  EXPECT_GT(TrainUnder({{"evil", 1, {TakeAndSayNothing}}}).leases_expired, 0u);
}

TEST_F(HostileTest, TasksOfAClientThatHangsGoToOthers) {
  honest_wait_ = HonestWait::kUntilTasksAreTaken;
  EXPECT_GT(TrainUnder({{"evil", 1, {TakeAndHang}}}).leases_expired, 0u);
}

TEST_F(HostileTest, TasksThatAreGivenBackAgainAndAgainAreDoneByOthers) {
  honest_wait_ = HonestWait::kUntilTasksAreTaken;
  EXPECT_GT(TrainUnder({{"evil", 2, {TakeAndGiveBack}}}).benched, 0u);
}

TEST_F(HostileTest, AMadeUpRunDoesNotFillTheSpace) {
  const Counters counters = TrainUnder({{"evil", 2, {FillWithAMadeUpRun}}});
  EXPECT_GT(counters.refused_results, 0u);
  EXPECT_GT(counters.refused_requests, 0u);
}

TEST_F(HostileTest, HundredsOfOpenReadsStopNobody) {
  TrainUnder({{"evil", 4, {OpenReads}}});
  EXPECT_GE(counts_.open_reads, 200u);
}

TEST_F(HostileTest, HundredsOfCountsAndListsStopNobody) {
  TrainUnder({{"watch", 4, {ListAndCount}}, {"evil", 1, {ListAndCount}}});
  EXPECT_GE(counts_.answered, 200u);
}

TEST_F(HostileTest, AFloodOfCheapRequestsStopsNobody) {
  TrainUnder({{"evil", 2, {FloodWithCheapRequests}}, {"watch", 2, {FloodWithCheapRequests}}});
  EXPECT_GE(counts_.answered, 1000u);
}

TEST_F(HostileTest, AnAbsurdCapacityChangesNothing) {
  TrainUnder({{"evil", 2, {BeAbsurdlyLarge}}});
  EXPECT_GT(counts_.stored, 0u);
}

TEST_F(HostileTest, AnAbsurdCapacityMakesNoTaskTooLargeForOthers) {
  job_ = kWideJob;
  memory_ = "6MiB";  // enough for its tasks, unless they are cut for larger handlers
  const std::string hash = std::exchange(undisturbed_, "");
  const double seconds = undisturbed_seconds_;
  TrainUndisturbed(job_, memory_);
  TrainUnder({{"evil", 2, {BeAbsurdlyLarge}}});
  EXPECT_GT(counts_.stored, 0u);
  undisturbed_ = hash;
  undisturbed_seconds_ = seconds;
}

// All honest handlers have one key, so another key that is listed is asked for every audit. In its
// place they check each other, which counts as skipped.
TEST_F(HostileTest, WhoIsListedAndNeverVotesStopsNoAuditedRun) {
  job_ = std::string(kAttackedJob) + "[tasks]\naudit = 0.1\n";
  listed_first_ = true;
  TrainUnder({{"evil", 1, {BeAbsurdlyLarge}}});
  EXPECT_GT(counts_.stored, 0u);
  ASSERT_TRUE(receipt_.is_object());
  EXPECT_GT(receipt_["audits"]["skipped"], 0);
  EXPECT_THAT(log_, ::testing::HasSubstr("nobody takes an audit: evil/"));
  EXPECT_THAT(log_, ::testing::HasSubstr("nobody with another key checks the results of"));
}

TEST_F(HostileTest, RightHashesOfWrongBytesEndNoAuditedRun) {
  job_ = std::string(kAttackedJob) + "[tasks]\naudit = 1\n";
  handler_keys_ = {"handler", "handler2"};
  honest_wait_ = HonestWait::kUntilKeyIsMistrusted;
  EXPECT_GT(TrainUnder({{"evil", 1, {CompleteWithWrongBytes}}}).false_completions, 0u);
  EXPECT_THAT(log_, ::testing::HasSubstr("brings results that do not have their hashes"));
}

TEST_F(HostileTest, AbsurdCapacitiesThatComeAndGoChangeNothing) {
  TrainUnder({{"evil", 4, {BeAbsurd}}});
  EXPECT_GT(counts_.stored, 0u);
}

TEST_F(HostileTest, WhoSaysMuchAboutItselfIsNotHeard) {
  const Counters counters = TrainUnder({{"evil", 16, {SayMuchAboutItself}}});
  EXPECT_GT(counters.refused_requests, 0u);
  EXPECT_EQ(counts_.stored, 0u);
}

TEST_F(HostileTest, WhoJoinsAndVanishesTakesNothingAlong) {
  honest_wait_ = HonestWait::kUntilTasksAreTaken;
  TrainUnder({{"evil", 4, {JoinAndVanish}}});
  EXPECT_GT(counts_.answered, 0u);
}

TEST_F(HostileTest, AnObserverChangesNothing) {
  EXPECT_GT(TrainUnder({{"watch", 2, {AskForWhatTheRoleForbids}}}).refused_requests, 0u);
}

TEST_F(HostileTest, AKeyThatIsNotOnTheListDoesNothing) {
  EXPECT_GT(TrainUnder({{"evil", 2, {ComeWithAnUnknownKey}}}).failed_connections, 0u);
}

TEST_F(HostileTest, ManyIdsOfOneKeyAreDistrustedToo) {
  honest_wait_ = HonestWait::kUntilKeyIsMistrusted;
  job_ = JobWithShortLeases();
  EXPECT_GT(TrainUnder({{"evil", 8, {TakeUnderManyIds}}}).benched, 0u);
}

TEST_F(HostileTest, WhoHasTheKeyOfTheHandlersDoesNotStopThem) {
  honest_wait_ = HonestWait::kUntilKeyIsMistrusted;
  job_ = JobWithShortLeases();
  const Counters counters = TrainUnder({{"handler", 4, {TakeUnderManyIds, FailTasks}}});
  EXPECT_GT(counters.benched, 0u);
  EXPECT_EQ(counters.parked, 0u);
}

// ---- by seed -----------------------------------------------------------------------------------

std::uint64_t NumberFrom(const char* variable, std::uint64_t otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr ? otherwise : std::stoull(text);
}

TEST_F(HostileTest, ARandomMix) {
  const auto seconds = static_cast<double>(NumberFrom("ACAN_HOSTILE_SECONDS", 0));
  const Clock::time_point begin = Clock::now();
  std::uint64_t seed = NumberFrom("ACAN_HOSTILE_SEED", 1);
  const std::uint64_t last = seed + 1;
  for (; (seed <= last || SecondsSince(begin) < seconds) && !HasFailure(); ++seed) {
    SCOPED_TRACE("ACAN_HOSTILE_SEED=" + std::to_string(seed));
    TrainUnder({{"evil", 2, AttacksOfAHandler()}, {"watch", 1, AttacksOfAnObserver()}}, seed << 8);
  }
}

}  // namespace
}  // namespace acan::testing
