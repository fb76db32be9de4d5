#include "acan/manager/leadership.h"

#include <chrono>
#include <exception>
#include <memory>
#include <utility>
#include <variant>

#include "acan/core/error.h"
#include "acan/core/long_wait.h"
#include "acan/core/names.h"
#include "acan/core/text/broker_flags.h"
#include "acan/manager/kept_metrics.h"
#include "acan/manager/kept_state.h"
#include "acan/manager/planted.h"
#include "acan/manager/work_beside.h"
#include "fmt/format.h"
#include "tuplespace/clock.h"

namespace acan {
namespace {

using tuplespace::FieldPattern;
using tuplespace::Key;
using tuplespace::MonotonicUs;
using tuplespace::Pattern;
using tuplespace::Tuple;

constexpr std::int64_t kLeaseUs = 10'000'000;
constexpr std::int64_t kExtendEveryUs = 2'000'000;
constexpr std::int64_t kSayNoBrokerUs = 2'000'000;
constexpr std::int64_t kWaitForLeadUs = 1'000'000;  // per request
constexpr auto kAnswerWait = std::chrono::seconds(2);

}  // namespace

bool Leadership::MayWait(const RunSettings& settings, std::int64_t begin_us) {
  // The lease of a manager that was just killed may still run.
  return settings.standby ||
         (settings.resume && MonotonicUs() - begin_us < kLeaseUs + kExtendEveryUs);
}

void Leadership::OnConnection(bool connected, const std::string& why) {
  if (!connected) {
    disconnected_us_ = MonotonicUs();
    context_.Log(
        fmt::format("lost the broker at {}: {}; waiting for it", context_.client.endpoint(), why));
  }
  // Leases return when a connection ends, so nothing may be written before the broker has confirmed
  // that no other manager leads.
  if (IsPlanted(ManagerBug::kKeepsLeadOverReconnection)) return;
  state_ = State::kAsks;
  if (connected && lease_) Extend();
}

void Leadership::Connect() {
  tuplespace::Client& client = context_.client;
  client.SetInterrupt([this] { stop_.Check(); });
  client.OnConnection(
      [this](bool connected, const std::string& why) { OnConnection(connected, why); });
  client.OnDamage([this](const std::string& text) { context_.Log(text); });
  // A broker that refuses this client for the moment is there, and the client reports a delay.
  const auto said = std::make_shared<bool>(false);
  client.OnDelay([this, said](const std::string& text) {
    *said = true;
    context_.Log(WithBrokerFlag(text));
  });
  const std::int64_t begin_us = MonotonicUs();
  while (!client.connected()) {
    client.Poll(std::chrono::milliseconds(100));
    stop_.Check();
    if (!*said && MonotonicUs() > begin_us + kSayNoBrokerUs) {
      *said = true;
      context_.Log(fmt::format(
          "no broker answers at {} yet; waiting for one (start: acan broker --listen {})",
          context_.settings.endpoint, client.endpoint()));
    }
    folder_.GiveUpIfWithoutLeadSince(begin_us);
  }
}

void Leadership::Take() {
  tuplespace::Client& client = context_.client;
  client.ChangeUnder(std::nullopt);
  const Key key = LeaderKey(context_.job_id);
  Tuple tuple;
  tuple.key = key;
  tuplespace::Get get;
  get.pattern = Pattern::Of(key);
  get.lease_us = kLeaseUs;
  get.wait_us = 0;
  Tuple standby;  // a leader that is stopped leaves its weights to standby managers
  standby.key = StandbyKey(context_.job_id, client.id());
  standby.ephemeral = true;
  const std::int64_t begin_us = MonotonicUs();
  for (bool said = false;;) {
    stop_.Check();
    // Repeated each time: the tuple disappears when the job is done, and when the broker is lost.
    client.Put({tuple});
    std::vector<tuplespace::Grant> grants = client.GetSome(get);
    if (!grants.empty()) {
      if (said) client.RetireAll(Pattern::Of(standby.key), false);
      lease_ = tuplespace::LeaseRef{key, grants.front().fence};
      if (!IsPlanted(ManagerBug::kChangesWithoutLead)) client.ChangeUnder(lease_);
      state_ = State::kLeads;
      Extend();
      return;
    }
    // The broker has been restarted since the lead was put.
    if (client.CountOf(Pattern::Of(key)) == 0u) continue;
    if (!MayWait(context_.settings, begin_us)) {
      throw FailureError(fmt::format(
          "job {} ({}) already has a manager at {}: wait until it is done, or stop it first",
          context_.job_id, context_.settings.source, context_.settings.endpoint));
    }
    if (!said) {
      context_.Log(fmt::format("job {} has a manager: waiting to take over when it is gone",
                               context_.job_id));
    }
    said = true;
    folder_.GiveUpIfWithoutLeadSince(begin_us);
    client.Put({standby});
    get.wait_us = kWaitForLeadUs;
  }
}

void Leadership::Extend() {
  next_extend_us_ = MonotonicUs() + kExtendEveryUs;
  const tuplespace::Extend extend{*lease_, kLeaseUs};
  context_.client.Submit(extend, [this, number = ++extends_](tuplespace::ReplyBody&& reply) {
    if (const auto* error = std::get_if<tuplespace::RequestError>(&reply)) {
      throw RunLost{fmt::format("the broker does not extend the lead: {}", error->text)};
    }
    const auto* lease = std::get_if<tuplespace::LeaseReply>(&reply);
    if (lease == nullptr) return;
    if (lease->lease == tuplespace::LeaseStatus::kStale &&
        !IsPlanted(ManagerBug::kIgnoresLostLead)) {
      throw RunLost{"the lead was lost with the broker or the connection"};
    }
    // The lead may have ended after this answer and before a question whose answer is still
    // awaited.
    if (number != extends_) return;
    // Another manager may have had the folder meanwhile.
    if (folder_.IsLostAfterBegin()) {
      throw RunLost{"the output folder was given up while there was no broker"};
    }
    state_ = State::kLeads;
  });
}

void Leadership::Keep() {
  stop_.Check();
  if (leads() && MonotonicUs() >= next_extend_us_) Extend();
}

void Leadership::Confirm() {
  state_ = State::kAsks;
  Extend();
  while (!leads()) {
    context_.client.Poll(std::chrono::microseconds(kPollUs));
    stop_.Check();
  }
}

void Leadership::Await() {
  if (!context_.client.connected()) folder_.GiveUpIfWithoutLeadSince(disconnected_us_);
  context_.client.Poll(std::chrono::microseconds(kPollUs));
}

void Leadership::PollOnce() {
  context_.client.Poll(std::chrono::microseconds(kPollUs));
  Keep();
}

void Leadership::WorkBeside(const std::string& what,
                            const std::function<void(const std::function<void()>& go_on)>& work) {
  LongWait wait(MonotonicUs());
  const auto check = [&] {
    Keep();
    if (const auto seconds = wait.Due(MonotonicUs())) {
      context_.Log(fmt::format("{} after {} s", what, *seconds));
    }
  };
  acan::WorkBeside(context_.client, check, work);
}

bool Leadership::GiveUp() {
  tuplespace::Client& client = context_.client;
  const std::string& job_id = context_.job_id;
  // Not only this run's name: a run that never began may have put its name after this one looked.
  client.RetireAll(AllRuns(job_id), false);
  // A restarted broker may have results of runs that it does not know.
  client.RetireAll({{FieldPattern::Prefix(job_id + "-")}, true}, false);
  client.RetireAll(KeptMetrics::AllOf(job_id), false);
  client.RetireAll(KeptState::AllOf(job_id), false);
  return client.CompleteTask(*lease_)->lease == tuplespace::LeaseStatus::kOk;
}

bool Leadership::SomebodyStandsBy() {
  context_.client.SetInterrupt(nullptr);
  try {
    if (!context_.client.connected() || !leads()) return false;
    return context_.client.CountOf(AllStandbys(context_.job_id), kAnswerWait).value_or(0) > 0;
  } catch (const std::exception&) {
  } catch (const RunLost&) {
  }
  return false;
}

}  // namespace acan
