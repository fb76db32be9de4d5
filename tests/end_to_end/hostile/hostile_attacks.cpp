// Implements one round of each attack.
#include <algorithm>
#include <array>
#include <chrono>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "acan/core/names.h"
#include "acan/core/task.h"
#include "acan/cpu/cpu_device.h"
#include "device/executor.h"
#include "hostile_client.h"

namespace acan::testing {

using tuplespace::ClientAccess;
using tuplespace::ClientId;
using tuplespace::Complete;
using tuplespace::Field;
using tuplespace::FieldPattern;
using tuplespace::Grant;
using tuplespace::Key;
using tuplespace::LeaseRef;
using tuplespace::Pattern;
using tuplespace::Payload;
using tuplespace::Put;
using tuplespace::Read;
using tuplespace::Tuple;

namespace {

constexpr std::int64_t kHourUs = 3'600'000'000;
constexpr std::chrono::seconds kHangsAtMost{10};
constexpr std::uint32_t kMaxAtOnce = 4096;      // tasks in one request
constexpr std::uint64_t kSmallOffer = 4 << 20;  // smaller than other offers, enough for any task
constexpr std::chrono::seconds kGivesBackFor{1};
constexpr std::size_t kMuchAboutItself = 1'000'000;  // bytes
constexpr std::uint64_t kComputesWith = 64 << 20;    // bytes of memory
const Pattern kEverything{{FieldPattern::Any()}, true};
const Pattern kReceipts{{FieldPattern::Exact("done")}, true};  // of jobs that are done

Payload Bytes(std::uint64_t count) {
  return Payload::Copy(std::string(count, '\x3f'));
}
Tuple Plain(Key key, std::uint64_t bytes = 64) {
  return {.key = std::move(key), .payload = Bytes(bytes), .task = {}};
}
LeaseRef LeaseOf(const Grant& grant) {
  return {grant.key, grant.fence};
}

// Tuples for the declared results of the task, with their declared sizes.
std::vector<Tuple> DeclaredResults(const Grant& grant) {
  std::vector<Tuple> results;
  for (const Output& output : DecodeTask(grant.payload, grant.task->inputs.size()).outputs) {
    results.push_back(Plain(output.key, output.view.bytes()));
  }
  return results;
}

// The right results of the task; none if its inputs do not come.
std::vector<Tuple> ComputedResults(HostileClient& hostile, const Grant& grant) {
  std::vector<Pattern> patterns;
  for (const Key& input : grant.task->inputs) patterns.push_back(Pattern::Of(input));
  std::vector<TaskInput> inputs;
  if (!patterns.empty()) {
    for (auto& found : hostile.client().ReadAll(patterns, HostileClient::kWait)) {
      inputs.push_back({std::move(found.payload), {}});
    }
  }
  if (inputs.size() != patterns.size()) return {};
  const auto device = MakeCpuDevice({.threads = 1, .memory_limit_bytes = kComputesWith, .isa = {}});
  std::vector<Tuple> results;
  const Task task = DecodeTask(grant.payload, inputs.size());
  for (TaskResult& result : RunTaskOn(*device, task, std::move(inputs))) {
    results.push_back(
        {.key = std::move(result.key), .payload = std::move(result.payload), .task = {}});
  }
  return results;
}

// `key`, moved to a later step.
Key Ahead(const Key& key, std::int64_t steps) {
  std::vector<Field> fields = key.Fields();
  if (fields.size() > 1 && std::holds_alternative<std::int64_t>(fields[1])) {
    fields[1] = std::get<std::int64_t>(fields[1]) + steps;
  }
  return Key(fields);
}

bool IsTile(const Key& key) {
  const std::vector<Field> fields = key.Fields();
  const auto* what = fields.size() > 2 ? std::get_if<std::string>(&fields[2]) : nullptr;
  return what != nullptr && (*what == "tile" || what->starts_with("state"));
}

// Releases the tasks, so that the attack consists only of what is sent meanwhile.
void GiveBack(HostileClient& hostile, const std::vector<Grant>& grants) {
  for (const Grant& grant : grants) hostile.Send(tuplespace::Release{LeaseOf(grant)});
}

void PutCapacity(HostileClient& hostile, const std::string& text) {
  Put put{{{.key = HandlerKey(hostile.client().id()),
            .payload = Payload::Copy(text),
            .task = {},
            .ephemeral = true}}};
  hostile.client().Submit(
      std::move(put), [progress = hostile.progress()](tuplespace::ReplyBody&& reply) {
        const auto* done = std::get_if<tuplespace::PutReply>(&reply);
        if (done != nullptr && done->status.front() == tuplespace::PutStatus::kStored) {
          progress->Add({.stored = 1});
        }
      });
}

}  // namespace

// Claims to be as large and fast as a capacity may be, for as long as it can. Managers ignore
// capacities with larger numbers (CapacityFromJson), so it would not be listed with them.
void BeAbsurdlyLarge(HostileClient& hostile) {
  Capacity capacity;
  capacity.name = "the largest of all";
  capacity.device = "cpu:1";
  capacity.limit_bytes = capacity.memory_bytes = std::uint64_t{1} << 53;
  capacity.threads = 1 << 20;
  capacity.gflops = 9e15;
  capacity.exact = capacity.fast = true;
  PutCapacity(hostile, CapacityToJson(capacity));
  hostile.Settle();
  hostile.client().Poll(HostileClient::kWait);
}

// Each manager reads what handlers say about themselves.
void SayMuchAboutItself(HostileClient& hostile) {
  const ClientId id = hostile.client().id();
  std::string text = "[0";
  while (text.size() < kMuchAboutItself) text += ",0";
  text += "]";
  PutCapacity(hostile, text);
  hostile.Send(Put{{{.key = ReportKey(id, static_cast<std::int64_t>(hostile.Below(1000))),
                     .payload = Payload::Copy(text),
                     .task = {},
                     .ephemeral = true}}});
  hostile.Settle();
  hostile.client().Poll(HostileClient::kWait);
}

void CompleteInventedTasks(HostileClient& hostile) {
  const std::vector<Grant> grants = hostile.Take(1);
  for (const std::int64_t steps : {1, 2, 59}) {
    std::vector<Tuple> results;
    for (const Key& key : hostile.seen()) {
      if (IsTile(key) && results.size() < 64) results.push_back(Plain(Ahead(key, steps)));
    }
    for (const std::uint64_t fence : {std::uint64_t{0}, hostile.Below(100'000)}) {
      hostile.Send(Complete{{Ahead(hostile.AnyKey(), steps), fence}, results});
    }
    // A valid key and a valid fence that belong to different tasks.
    const Key other = hostile.AnyKey();
    if (!grants.empty() && other != grants[0].key) {
      hostile.Send(Complete{{other, grants[0].fence}, results});
    }
    hostile.Send(Put{std::move(results)});
  }
  GiveBack(hostile, grants);
  hostile.Settle();
}

void CompleteWithoutResults(HostileClient& hostile) {
  for (const Grant& grant : hostile.Take(4)) hostile.Send(Complete{LeaseOf(grant), {}});
  hostile.Settle();
}

void CompleteWithOtherResults(HostileClient& hostile) {
  for (const Grant& grant : hostile.Take(4)) {
    std::vector<Tuple> results = DeclaredResults(grant);
    switch (hostile.Below(5)) {
      case 0:
        results.push_back(Plain(Ahead(results[0].key, 1), results[0].payload.size()));
        break;
      case 1:
        results.push_back(results[0]);
        break;
      case 2:
        results.pop_back();
        break;
      case 3:
        results[0].payload = Bytes(results[0].payload.size() + 1);
        break;
      default:
        for (Tuple& result : results) result.key = Ahead(result.key, 1);
    }
    hostile.Send(Complete{LeaseOf(grant), std::move(results)});
  }
  hostile.Settle();
}

// Audits compare hashes, and would pass these results; whoever reads them finds them damaged.
void CompleteWithWrongBytes(HostileClient& hostile) {
  hostile.UseSockets();
  for (const Grant& grant : hostile.Take(2)) {
    std::vector<Tuple> results = ComputedResults(hostile, grant);
    if (results.empty()) GiveBack(hostile, {grant});
    if (results.empty()) continue;
    for (Tuple& result : results) {
      const tuplespace::PayloadHash hash = tuplespace::HashOf(result.payload.bytes());
      std::string wrong(result.payload.text());
      if (!wrong.empty()) wrong.front() = static_cast<char>(wrong.front() ^ 1);
      result.payload = Payload::Copy(wrong).WithHash(hash);
    }
    hostile.Send(Complete{LeaseOf(grant), std::move(results)});
  }
  hostile.Settle();
}

void TakeResultsAlong(HostileClient& hostile) {
  for (const Grant& grant : hostile.Take(1)) {
    std::vector<Tuple> results = ComputedResults(hostile, grant);
    if (results.empty()) {
      GiveBack(hostile, {grant});
      continue;
    }
    for (Tuple& result : results) result.ephemeral = true;
    const std::size_t count = results.size();
    const auto reply =
        hostile.client().CompleteTask(LeaseOf(grant), std::move(results), HostileClient::kWait);
    if (reply && reply->lease == tuplespace::LeaseStatus::kOk) {
      hostile.progress()->Add({.stored = count});
    }
  }
  hostile.Settle();
  hostile.Leave();
}

void FailTasks(HostileClient& hostile) {
  for (const Grant& grant : hostile.Take(64)) {
    hostile.Send(tuplespace::Fail{LeaseOf(grant), "it was too hot\n" + std::string(5000, '!')});
  }
  hostile.Settle();
}

void ExtendLeases(HostileClient& hostile) {
  std::vector<Grant>& held = hostile.held();
  for (Grant& grant : hostile.Take(16)) held.push_back(std::move(grant));
  if (held.size() > 256) held.erase(held.begin(), held.end() - 256);
  for (const Grant& grant : held) {
    hostile.Send(tuplespace::Extend{LeaseOf(grant), hostile.OneIn(2) ? kHourUs : 0});
  }
  hostile.Settle();
}

void TakeAndSayNothing(HostileClient& hostile) {
  hostile.Take(kMaxAtOnce);
}

void TakeAndHang(HostileClient& hostile) {
  const std::vector<Grant> grants = hostile.Take(kMaxAtOnce);
  if (grants.empty()) return;
  Read read;
  read.patterns = {Pattern::Of(DeclaredResults(grants.front()).front().key), kReceipts};
  read.all = false;
  read.metadata_only = true;
  read.wait_us = tuplespace::kForeverUs;
  const auto lookout = hostile.MakeClient(hostile.access());  // with an id of its own
  bool over = false;
  lookout->Submit(std::move(read), [&over](tuplespace::ReplyBody&&) { over = true; });
  const auto end = std::chrono::steady_clock::now() + kHangsAtMost;
  while (!over && std::chrono::steady_clock::now() < end) lookout->Poll(HostileClient::kWait);
}

// Among waiting Gets, the one with the smallest offer gets the task. So each of the two Gets
// receives the tasks that the other one gives back.
void TakeAndGiveBack(HostileClient& hostile) {
  tuplespace::Client& client = hostile.client();
  std::array<tuplespace::RequestId, 2> gets{};
  tuplespace::Get get;
  get.pattern = RunnableTasks(true, true);
  get.offer_bytes = kSmallOffer;
  get.max_count = 16;
  std::function<void(std::size_t)> ask = [&](std::size_t which) {
    gets[which] = client.Submit(get, [&, which](tuplespace::ReplyBody&& reply) {
      if (const auto* grants = std::get_if<tuplespace::Grants>(&reply)) {
        hostile.progress()->Add({.taken = grants->grants.size()});
        GiveBack(hostile, grants->grants);
      }
      ask(which);
    });
  };
  struct End {
    tuplespace::Client& client;
    const std::array<tuplespace::RequestId, 2>& gets;
    ~End() {
      for (const tuplespace::RequestId id : gets) client.Abandon(id);
    }
  } end{client, gets};
  for (std::size_t which = 0; which < gets.size(); ++which) ask(which);
  const auto until = std::chrono::steady_clock::now() + kGivesBackFor;
  while (std::chrono::steady_clock::now() < until) client.Poll(HostileClient::kWait / 10);
}

void FillWithAMadeUpRun(HostileClient& hostile) {
  const std::string run = "made-up-" + std::to_string(hostile.Below(1000));
  std::vector<Tuple> tuples;
  for (std::int64_t i = 0; i < 1000; ++i)
    tuples.push_back(Plain(Key{run, i, "tile", 0, 0, 9, 0, 9}));
  hostile.Send(Complete{{Key{run, 0, "task", "exact"}, hostile.Below(1000)}, tuples});
  hostile.Send(Put{std::move(tuples)});
  // Tuples that it may put, but more and larger ones than anybody needs.
  const auto first = static_cast<std::int64_t>(hostile.Below(1 << 20));
  std::vector<Tuple> reports;
  for (std::int64_t i = 0; i < 100; ++i) {
    reports.push_back(Plain(ReportKey(hostile.client().id(), first + i), 1 << 12));
  }
  hostile.Send(Put{std::move(reports)});
  hostile.Settle();
  if (hostile.client().unanswered() > 1000) hostile.Leave();  // the broker answers Busy only
}

void OpenReads(HostileClient& hostile) {
  if (hostile.seen().empty()) GiveBack(hostile, hostile.Take(1));
  for (int i = 0; i < 300; ++i) {
    Read read;
    read.patterns = {Pattern::Of(Ahead(hostile.AnyKey(), static_cast<std::int64_t>(i)))};
    read.wait_us = tuplespace::kForeverUs;
    hostile.Send(std::move(read));
  }
  hostile.client().Submit(tuplespace::GetStats{},
                          [progress = hostile.progress()](tuplespace::ReplyBody&& reply) {
                            const auto* stats = std::get_if<tuplespace::Stats>(&reply);
                            if (stats != nullptr) progress->Add({.open_reads = stats->open_reads});
                          });
  hostile.Settle();
  if (hostile.client().unanswered() > 3000) hostile.Leave();
}

// Claims random impossible capacities.
void BeAbsurd(HostileClient& hostile) {
  static constexpr std::uint64_t kMemory[] = {
      0, 1, 1 << 12, 1 << 20, 1ull << 60, std::numeric_limits<std::uint64_t>::max()};
  static constexpr double kGflops[] = {0, -1, 1e-300, 1, 1e300};
  static constexpr int kThreads[] = {0, -1, 1, std::numeric_limits<int>::max()};
  Capacity capacity;
  capacity.name = std::string(hostile.Below(1000), '\n');
  capacity.device = hostile.OneIn(2) ? "cpu:1" : "abacus:7";
  capacity.memory_bytes = kMemory[hostile.Below(std::size(kMemory))];
  capacity.limit_bytes = kMemory[hostile.Below(std::size(kMemory))];
  capacity.threads = kThreads[hostile.Below(std::size(kThreads))];
  capacity.gflops = kGflops[hostile.Below(std::size(kGflops))];
  capacity.exact = !hostile.OneIn(4);
  capacity.fast = hostile.OneIn(2);
  capacity.own_memory = hostile.OneIn(2);
  std::string text = CapacityToJson(capacity);
  if (hostile.OneIn(8)) text.resize(hostile.Below(text.size()));
  PutCapacity(hostile, text);
  for (int i = 0; i < 5; ++i) hostile.client().Poll(HostileClient::kWait / 5);
  if (hostile.OneIn(2)) hostile.Leave();  // and returns under another id
}

void JoinAndVanish(HostileClient& hostile) {
  if (hostile.OneIn(2)) {
    hostile.Take(1 + static_cast<std::uint32_t>(hostile.Below(32)));
  } else {
    hostile.Send(tuplespace::GetStats{});
    hostile.Settle();
  }
  if (hostile.OneIn(2)) {
    hostile.Vanish();
  } else {
    hostile.Leave();
  }
}

// Each id lets the leases of its tasks expire. The next round uses a new id.
void TakeUnderManyIds(HostileClient& hostile) {
  const std::vector<Grant> grants = hostile.Take(64);
  if (grants.empty()) return;
  const auto end = std::chrono::steady_clock::now() + std::chrono::microseconds(grants[0].lease_us);
  while (std::chrono::steady_clock::now() < end) hostile.client().Poll(HostileClient::kWait / 4);
  hostile.Leave();
}

void ListAndCount(HostileClient& hostile) {
  for (int i = 0; i < 50; ++i) {
    hostile.Send(tuplespace::Count{kEverything});
    hostile.Send(tuplespace::List{kEverything, kMaxAtOnce, hostile.OneIn(2)});
    Read read;
    read.patterns = {{{FieldPattern::Any(), FieldPattern::AtLeast(1'000'000 + i)}, true}};
    read.wait_us = tuplespace::kForeverUs;
    hostile.Send(std::move(read));
  }
  hostile.Settle();
  if (hostile.client().unanswered() > 3000) hostile.Leave();
}

void FloodWithCheapRequests(HostileClient& hostile) {
  for (int i = 0; i < 1000; ++i) {
    hostile.Send(tuplespace::GetStats{});
    hostile.Send(tuplespace::Extend{{Key{"no", "task"}, hostile.Below(1000)}, 0});
    hostile.Send(tuplespace::Cancel{hostile.Below(1000)});
    hostile.Send(tuplespace::Hold{{Key{"nothing", i}}, {Key{"nothing", i - 1}}});
  }
  const auto end = std::chrono::steady_clock::now() + 10 * HostileClient::kWait;
  while (hostile.client().unanswered() > 0 && std::chrono::steady_clock::now() < end) {
    hostile.client().Poll(HostileClient::kWait / 10);
  }
}

void AskForWhatTheRoleForbids(HostileClient& hostile) {
  tuplespace::Client& client = hostile.client();
  for (const auto& found : client.ListAll(kEverything, true, HostileClient::kWait)) {
    hostile.See(found.key);
  }
  Tuple task = Plain(Key{"made-up", 1, "task", "exact"});
  task.task = tuplespace::TaskSpec{};
  hostile.Send(Put{{std::move(task)}});
  hostile.Send(Put{{Plain(Ahead(hostile.AnyKey(), 1))}});
  tuplespace::Get get;
  get.pattern = RunnableTasks(true, true);
  hostile.Send(get);
  hostile.Send(Complete{{hostile.AnyKey(), hostile.Below(100'000)}, {Plain(hostile.AnyKey())}});
  hostile.Send(tuplespace::Retire{kEverything, false});
  for (const Key& key : {hostile.AnyKey(), hostile.AnyKey()}) {
    Pattern pattern = Pattern::Of(key);
    if (pattern.fields.size() > 1) pattern.fields[1] = FieldPattern::AtMost(1 << 30);
    pattern.open = true;
    hostile.Send(tuplespace::Retire{std::move(pattern), true});
  }
  hostile.Settle();
}

void ComeWithAnUnknownKey(HostileClient& hostile) {
  ClientAccess access = hostile.access();
  access.keys = tuplespace::MakeKeyPair();
  std::vector<std::unique_ptr<tuplespace::Client>> clients;
  for (const char* name : {"handler", "manager", "evil"}) {
    access.name = name;
    clients.push_back(hostile.MakeClient(access));
  }
  // The name of another client with a key that is on the list.
  access = hostile.access();
  access.name = "manager";
  clients.push_back(hostile.MakeClient(access));
  for (const auto& client : clients) {
    client->Submit(tuplespace::Retire{kEverything, false}, [](auto&&) {});
    client->Submit(Put{{Plain(Key{"made-up", 1})}}, [](auto&&) {});
  }
  for (const auto& client : clients) {
    try {
      client->Poll(HostileClient::kWait / 4);
    } catch (const tuplespace::SpaceError&) {
      continue;  // expected
    }
  }
}

}  // namespace acan::testing
