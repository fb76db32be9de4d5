#include "cluster/hostile_manager.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "acan/core/access_roles.h"
#include "fmt/format.h"

namespace acan::simulation {

using namespace tuplespace;  // NOLINT: this file is about its messages

namespace {

constexpr const char* kLimitedName = "mallory";
constexpr const char* kLimitedJobs = "mallory";  // no job's id: these are hexadecimal
constexpr const char* kLimitedRun = "mallory-run";
constexpr std::int64_t kLimitedStep = 0;
constexpr std::size_t kMaxDescriptions = 16;
constexpr std::size_t kMaxTakers = 16;
constexpr std::uint64_t kMaxTasksAtOnce = 6;

// 40 characters are a key.
std::string LimitedKey() {
  return std::string(40, '1');
}

AccessList MakeLimitedAccess() {
  return AccessList(AccessRoles(),
                    {AllowedPeer{kLimitedName, LimitedKey(), kManagerRole, kLimitedJobs}});
}

// The last field of each of its keys is the number of a task.
Key LimitedTuple(const char* kind, std::int64_t number) {
  return Key{kLimitedRun, kLimitedStep, kind, "exact", number};
}

Key ResultOf(const Key& task) {
  return LimitedTuple("result", std::get<std::int64_t>(task.Fields().back()));
}

}  // namespace

HostileManager::HostileManager(std::uint64_t seed)
    : random_(seed), access_(MakeLimitedAccess()), who_(access_.Find(LimitedKey())) {
  pause_us_ = random_.Magnitude(500'000, 2'000'000);
  takes_ = random_.OneIn(2);
}

bool HostileManager::Is(const ClientId& client) {
  return client.starts_with(ClientIdPrefix(kLimitedName));
}

bool HostileManager::Owns(const Key& key) {
  if (key.empty()) return false;
  const std::vector<Field> fields = key.Fields();
  const auto* run = std::get_if<std::string>(&fields.front());
  return run != nullptr && run->starts_with(kLimitedJobs);
}

std::string HostileManager::Describe() const {
  return fmt::format("a hostile manager of other jobs acts every {:.0f} ms{}",
                     static_cast<double>(pause_us_) * 1e-3,
                     takes_ ? ", and takes some of its tasks" : "");
}

void HostileManager::OnBroker() {
  session_ = 0;
  leases_.clear();
}

void HostileManager::Overhear(const ClientId& client, const Request& request) {
  if (std::holds_alternative<Get>(request.body)) {
    const bool is_known = std::find(takers_.begin(), takers_.end(), client) != takers_.end();
    if (!is_known && takers_.size() < kMaxTakers) takers_.push_back(client);
  } else if (const auto* put = std::get_if<Put>(&request.body)) {
    for (const Tuple& tuple : put->tuples) {
      if (!tuple.task || tuple.payload.empty()) continue;
      if (descriptions_.size() < kMaxDescriptions) {
        descriptions_.push_back(tuple.payload);
      } else {
        descriptions_[random_.Below(kMaxDescriptions)] = tuple.payload;
      }
    }
  }
}

void HostileManager::OnAnswer(const ToClient& envelope) {
  for (const BrokerMessage& message : envelope.messages) {
    if (const auto* welcome = std::get_if<Welcome>(&message)) {
      session_ = welcome->session;
      leases_.clear();
    } else if (const auto* error = std::get_if<RequestError>(&message)) {
      if (error->code == ErrorCode::kHelloRequired) OnBroker();
    } else if (const auto* reply = std::get_if<Reply>(&message)) {
      const auto* grants = std::get_if<Grants>(&reply->body);
      if (grants == nullptr) continue;
      for (const Grant& grant : grants->grants) leases_.push_back({grant.key, grant.fence});
    }
  }
}

// ---- requests -----------------------------------------------------------------------------------

// One deed at a time: if it joined again in the message of another request, nobody would hear what
// became of that request.
HostileManager::Said HostileManager::Say() {
  Said said;
  said.client = ClientIdPrefix(kLimitedName) + "0";
  said.envelope.session = session_;
  if (session_ == 0) {
    Join(&said);
  } else if (!leases_.empty()) {
    CompleteAll(&said);
  } else if (random_.OneIn(8)) {
    said.what = "retire its tuples";
    Ask(&said, Retire{Pattern{{FieldPattern::Exact(kLimitedRun)}, true}, false});
  } else if (takes_ && random_.OneIn(4)) {
    said.what = "take its own tasks";
    Get get;
    get.pattern = Pattern{
        {FieldPattern::Exact(kLimitedRun), FieldPattern::Any(), FieldPattern::Exact("task")}, true};
    get.max_count = static_cast<std::uint32_t>(random_.Between(1, 4));
    get.wait_us = 0;
    Ask(&said, std::move(get));
  } else if (random_.OneIn(16)) {
    Join(&said);
  } else {
    PutTasks(&said);
  }
  return said;
}

void HostileManager::Ask(Said* said, RequestBody body) {
  said->envelope.messages.emplace_back(Request{next_request_++, std::move(body)});
}

void HostileManager::Join(Said* said) {
  said->what = "join";
  said->envelope.messages.emplace_back(Hello{++nonce_, said->client});
}

void HostileManager::CompleteAll(Said* said) {
  said->what = "complete its own tasks";
  for (const LeaseRef& lease : leases_) {
    Complete complete{lease, {}};
    complete.results.emplace_back().key = ResultOf(lease.key);
    Ask(said, std::move(complete));
  }
  leases_.clear();
}

void HostileManager::PutTasks(Said* said) {
  said->what = "put tasks";
  Put put;
  for (std::uint64_t i = 1 + random_.Below(kMaxTasksAtOnce); i > 0; --i) {
    const std::int64_t number = next_task_++;
    put.tuples.push_back(AnyTask(number));
    std::vector<Key> inputs = put.tuples.back().task->inputs;
    if (!inputs.empty() && random_.OneIn(2)) {
      put.tuples.emplace_back().key = std::move(inputs.front());
    }
  }
  Ask(said, std::move(put));
}

Tuple HostileManager::AnyTask(std::int64_t number) {
  Tuple tuple;
  tuple.key = LimitedTuple("task", number);
  const bool is_invented = descriptions_.empty() || random_.OneIn(2);
  tuple.payload = is_invented ? Payload::Copy(std::string(random_.Below(200), 'm'))
                              : descriptions_[random_.Below(descriptions_.size())];
  TaskSpec& task = tuple.task.emplace();
  task.results.push_back(ResultOf(tuple.key));
  if (random_.OneIn(4)) task.inputs.push_back(LimitedTuple("input", number));
  if (random_.OneIn(2)) task.need_bytes = random_.Below(300'000);
  task.priority = random_.OneIn(2) ? INT64_MIN : random_.Between(-10, 10);
  if (takers_.empty()) return tuple;
  const ClientId& taker = takers_[random_.Below(takers_.size())];
  if (random_.OneIn(8)) task.not_by.push_back(taker);
  if (random_.OneIn(4)) {
    task.prefers = taker;
    task.prefer_us = random_.Magnitude(1'000, 60'000'000);
  }
  return tuple;
}

}  // namespace acan::simulation
