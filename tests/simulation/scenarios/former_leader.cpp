#include "scenarios/former_leader.h"

#include <chrono>
#include <exception>
#include <utility>

#include "acan/manager/leadership.h"
#include "broker/broker_host.h"
#include "cluster/jobs.h"
#include "tuplespace/client.h"
#include "world/cluster_network.h"

namespace acan::simulation {
namespace {

using tuplespace::Client;
using tuplespace::Key;
using tuplespace::Pattern;
using tuplespace::Tuple;

constexpr const char* kEndpoint = "tcp://127.0.0.1:5555";
constexpr std::int64_t kLeaderStallUs = 15'000'000;  // longer than the lease of the lead
constexpr std::int64_t kMaxLeaderUs = 120'000'000;
constexpr std::chrono::milliseconds kTurn{50};

// The objects that lead a job, without a run.
struct Leader {
  Leader(const std::string& name, bool standby, const SimulatedJob& job)
      : context({.endpoint = kEndpoint,
                 .out_dir = "",
                 .source = "job",
                 .resume = false,
                 .standby = standby,
                 .log = nullptr},
                {.endpoint = kEndpoint, .name = name, .id = {}}, job.job, BuildModel(job.job),
                job.data) {
    leadership.Connect();
    leadership.Take();
  }

  RunContext context;
  StopRequest stop{context.client, nullptr};
  FolderClaim folder{context, nullptr};
  Leadership leadership{context, stop, folder};
};

class FormerLeader {
 public:
  FormerLeader();
  ~FormerLeader();
  std::string Run();

 private:
  void FormerBody();
  void SuccessorBody();
  void StallFormer();
  void Expect(Client& client, const Key& key, std::uint64_t count, const char* otherwise);

  World world_{1};
  Network network_{world_};
  Results results_;
  BrokerHost broker_{world_, network_, results_};
  Process former_{world_, "former", 1'000'000};
  Process successor_{world_, "successor", 2'000'000};
  const Key late_{"late", 1};  // put by the former leader
  const Key kept_{"kept", 1};  // put by its successor, retired by the former leader
  bool leads_ = false;         // whether the former leader has led
  bool answered_ = false;      // whether its requests were answered
  bool done_ = false;
};

FormerLeader::FormerLeader() {
  SetClusterNetwork(&network_);
  for (Process* process : {&former_, &successor_}) {
    process->on_death.emplace_back([this, process] { network_.ProcessDied(*process); });
  }
}

FormerLeader::~FormerLeader() {
  for (Process* process : {&former_, &successor_}) process->Kill();
  SetClusterNetwork(nullptr);
}

void FormerLeader::StallFormer() {
  for (const auto& connection : network_.Up()) {
    if (connection->process() == &former_) {
      return network_.Stall(connection, Network::Way::kToBroker, kLeaderStallUs);
    }
  }
  world_.Report("the leader is not connected");
}

void FormerLeader::FormerBody() {
  Leader leader("former", false, Jobs().front());
  Client& client = leader.context.client;
  leader.leadership.Confirm();
  client.OnConnection([](bool, const std::string&) {});  // it does not learn that it lost the lead
  leads_ = true;
  StallFormer();
  int answers = 0;
  const auto count = [&answers](tuplespace::ReplyBody&&) { ++answers; };
  client.Submit(tuplespace::Put{{{.key = late_, .payload = {}, .task = {}}}}, count);
  client.Submit(tuplespace::Retire{Pattern::Of(kept_), false}, count);
  while (answers < 2) client.Poll(kTurn);
  answered_ = true;
  while (!done_) client.Poll(kTurn);
}

void FormerLeader::Expect(Client& client, const Key& key, std::uint64_t count,
                          const char* otherwise) {
  if (client.CountOf(Pattern::Of(key)) != count) world_.Report(otherwise);
}

void FormerLeader::SuccessorBody() {
  while (!leads_) world_.Sleep(1'000);
  Leader leader("successor", true, Jobs().front());
  Client& client = leader.context.client;
  client.Put({Tuple{.key = kept_, .payload = {}, .task = {}}});
  if (answered_) world_.Report("what the former leader sent came too early");
  while (!answered_) leader.leadership.PollOnce();
  Expect(client, kept_, 1, "a former leader has removed late what its successor put");
  Expect(client, late_, 0, "what a former leader put late is there");
  done_ = true;
}

std::string FormerLeader::Run() {
  try {
    broker_.Start();
    former_.Start([this] { FormerBody(); });
    successor_.Start([this] { SuccessorBody(); });
    world_.Run(kMaxLeaderUs, [this] { return done_; });
    if (!done_) return "the scenario does not end";
    broker_.CheckAll();
    world_.Check();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

}  // namespace

std::string RunFormerLeader() {
  return FormerLeader().Run();
}

}  // namespace acan::simulation
