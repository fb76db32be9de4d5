#include "hostile_client.h"

#include <algorithm>
#include <utility>

#include "acan/core/names.h"
#include "acan/core/task.h"

namespace acan::testing {

using tuplespace::Client;
using tuplespace::ClientAccess;
using tuplespace::ClientOptions;
using tuplespace::Grant;
using tuplespace::Key;
using tuplespace::SpaceError;

namespace {
constexpr std::size_t kKeysKept = 512;
}  // namespace

std::unique_ptr<Client> HostileClient::MakeClient(const ClientAccess& access,
                                                  zmq::context_t* context) {
  ClientOptions options;
  options.endpoint = endpoints_[Below(endpoints_.size())];
  options.name = "honestly a handler";
  options.access = access;
  options.context = context;
  options.shared_memory = OneIn(2) && !sockets_only_;
  return std::make_unique<Client>(std::move(options));
}

Client& HostileClient::client() {
  if (!client_) {
    context_ = std::make_unique<zmq::context_t>();
    client_ = MakeClient(access_, context_.get());
  }
  return *client_;
}

void HostileClient::Leave() {
  held_.clear();
  client_.reset();
  context_.reset();
}

void HostileClient::Vanish() {
  if (context_) context_->shutdown();
  Leave();
}

void HostileClient::UseSockets() {
  if (!std::exchange(sockets_only_, true)) Leave();
}

std::vector<Grant> HostileClient::Take(std::uint32_t count) {
  tuplespace::Get get;
  get.pattern = RunnableTasks(true, true);
  get.max_count = count;
  get.with_inputs = OneIn(8);
  get.wait_us = kWait.count();
  std::vector<Grant> grants = client().GetSome(get, kWait);
  Took(grants);
  return grants;
}

void HostileClient::Took(const std::vector<Grant>& grants) {
  progress_->Add({.taken = grants.size()});
  for (const Grant& grant : grants) {
    See(grant.key);
    if (!grant.task) continue;
    for (const Key& input : grant.task->inputs) See(input);
    const Task task = DecodeTask(grant.payload, grant.task->inputs.size());
    for (const Output& output : task.outputs) See(output.key);
  }
  // The space prefers a client that claims to hold the inputs of a task.
  if (OneIn(4)) Send(tuplespace::Hold{{seen_.begin(), seen_.end()}, {}});
}

void HostileClient::Send(tuplespace::RequestBody body) {
  client().Submit(std::move(body), [progress = progress_](tuplespace::ReplyBody&& reply) {
    if (!std::holds_alternative<tuplespace::RequestError>(reply)) progress->Add({.answered = 1});
  });
}

void HostileClient::Settle() {
  const auto end = std::chrono::steady_clock::now() + kWait;
  while (client().unanswered() > 0 && std::chrono::steady_clock::now() < end) {
    client().Poll(kWait / 10);
  }
}

void HostileClient::See(const Key& key) {
  seen_.push_back(key);
  if (seen_.size() > kKeysKept) seen_.pop_front();
}

Key HostileClient::AnyKey() {
  if (seen_.empty() || OneIn(8)) return Key{"invented", static_cast<std::int64_t>(Below(100))};
  std::vector<tuplespace::Field> fields = seen_[Below(seen_.size())].Fields();
  if (OneIn(2)) return Key(fields);
  tuplespace::Field& field = fields[Below(fields.size())];
  if (auto* number = std::get_if<std::int64_t>(&field)) {
    *number = OneIn(4) ? static_cast<std::int64_t>(random_()) : *number + 1 + Below(60);
  } else if (OneIn(2)) {
    field = std::string(Below(20), 'x');
  } else {
    field = static_cast<std::int64_t>(Below(10));
  }
  return Key(fields);
}

std::vector<Attack> AttacksOfAHandler() {
  return {CompleteInventedTasks,
          CompleteWithoutResults,
          CompleteWithOtherResults,
          TakeResultsAlong,
          FailTasks,
          ExtendLeases,
          TakeAndSayNothing,
          TakeAndGiveBack,
          FillWithAMadeUpRun,
          SayMuchAboutItself,
          OpenReads,
          ListAndCount,
          FloodWithCheapRequests,
          JoinAndVanish,
          ComeWithAnUnknownKey,
          TakeUnderManyIds,
          SendAnything,
          SendAnything,
          SendAnything};
}

std::vector<Attack> AttacksOfAnObserver() {
  return {ListAndCount, FloodWithCheapRequests, AskForWhatTheRoleForbids, SendAnything};
}

Attacker::Attacker(HostileClient client, std::vector<Attack> attacks)
    : thread_([this, client = std::move(client), attacks = std::move(attacks)]() mutable {
        Run(std::move(client), attacks);
      }) {}

void Attacker::Stop() {
  over_ = true;
  if (thread_.joinable()) thread_.join();
}

void Attacker::Run(HostileClient client, const std::vector<Attack>& attacks) {
  for (; !over_; client.progress()->Add({.rounds = 1})) {
    try {
      attacks[client.Below(attacks.size())](client);
    } catch (const SpaceError&) {
      client.progress()->Add({.refusals = 1});
      if (client.OneIn(16)) client.Leave();  // the broker may have ended the session
    }
  }
}

}  // namespace acan::testing
