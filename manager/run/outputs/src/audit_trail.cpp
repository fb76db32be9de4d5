#include "audit_trail.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <string_view>
#include <system_error>
#include <utility>
#include <variant>

#include "acan/core/error.h"
#include "acan/core/names.h"
#include "acan/manager/excluded.h"
#include "acan/manager/overwritten_inputs.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "tuplespace/clock.h"

namespace acan {
namespace {

using tuplespace::Tuple;

// The number of handlers that a task can exclude, not counting those covered by a quarantined key.
constexpr std::size_t kMaxQuarantined = tuplespace::SpaceLimits{}.task_exclusions;

// `key` is "name/".
std::string NameOf(const std::string& key) {
  return key.substr(0, key.size() - 1);
}

std::string KeyIsOutText(const std::string& key, const std::string& why) {
  return fmt::format("all handlers with the key \"{}\" are quarantined: {}", NameOf(key), why);
}

// Broker and files keep a key in doubt as one of the Handlers, under this id.
std::string DoubtId(const std::string& key, std::int64_t failures) {
  return fmt::format("{}\t{}", key, failures);
}

// The inverse; nullopt for the ids of handlers and keys.
std::optional<DoubtfulKeys::value_type> ParseDoubtId(std::string_view id) {
  constexpr std::int64_t kMostFailures = std::int64_t{1} << 40;  // a file may have any number
  const std::size_t tab = id.find('\t');
  if (tab == std::string_view::npos) return std::nullopt;
  const std::string_view digits = id.substr(tab + 1);
  std::int64_t failures = 0;
  const auto end = std::from_chars(digits.data(), digits.data() + digits.size(), failures);
  const bool whole = end.ec == std::errc() && end.ptr == digits.data() + digits.size();
  if (!whole || failures < 0 || failures > kMostFailures) return std::nullopt;
  return DoubtfulKeys::value_type(std::string(id.substr(0, tab)), failures);
}

void TakeDoubts(AuditTrail::Handlers* handlers, DoubtfulKeys* doubts) {
  std::erase_if(*handlers, [&](const auto& handler) {
    const auto doubt = ParseDoubtId(handler.first);
    if (!doubt) return false;
    std::int64_t& failures = (*doubts)[doubt->first];
    failures = std::max(failures, doubt->second);
    return true;
  });
}

}  // namespace

std::vector<SeenResult> SeenResults(tuplespace::Found&& found) {
  std::vector<SeenResult> results;
  for (tuplespace::FoundTuple& tuple : found.tuples) {
    results.push_back(
        {std::move(tuple.key), std::move(tuple.put_by), tuple.hash, tuple.payload_bytes});
  }
  return results;
}

void AuditTrail::CheckWritable() const {
  if (log_path_.empty()) return;
  RequireOtherAuditLog(log_path_, context_.settings.out_dir);
  AuditLog::CheckWritable(log_path_);
}

void AuditTrail::Open(Leadership& leadership) {
  if (log_path_.empty()) return;
  std::string said;
  log_.emplace(log_path_, &said, [this, &leadership](std::chrono::microseconds wait) {
    context_.client.Poll(wait);
    leadership.Keep();
  });
  if (!said.empty()) context_.Log(said);
}

BarredSnapshots AuditTrail::FindQuarantined(const SnapshotFolder* snapshots, Handlers recorded) {
  for (const auto& found : context_.client.ListAll(QuarantinedIn(context_.job_id))) {
    const auto id = std::get<std::string>(found.key.Fields().back());
    quarantined_.emplace(id, std::string(found.payload.text()));
  }
  BarredSnapshots barred;
  TakeDoubts(&quarantined_, &barred.in_doubt);
  TakeDoubts(&recorded, &barred.in_doubt);
  for (const auto& [id, why] : quarantined_) {
    context_.Log(fmt::format("quarantined: {}: {}", id, why));
  }
  barred.wrong = QuarantinedIds();
  ExcludeOverLimit();
  recorded_ = std::move(recorded);
  std::erase_if(recorded_, [&](const auto& one) { return barred.wrong.contains(one.first); });
  for (const auto& [id, why] : recorded_) barred.wrong.insert(id);
  if (snapshots == nullptr) return barred;
  if (!barred.wrong.empty()) snapshots->RemoveOf(barred.wrong);
  if (!barred.in_doubt.empty()) snapshots->RemoveUnconfirmedOf(barred.in_doubt);
  return barred;
}

// In a cluster with one key, what others of its handlers have computed is still good.
void AuditTrail::ExcludeOverLimit() {
  for (const std::string& key : KeysOverLimit(QuarantinedIds(), kMaxQuarantined)) {
    const std::string why = "so many handlers with this key gave wrong results";
    context_.Log(fmt::format(
        "{}: start handlers with another key; or, once those with this key are correct, resume "
        "with a new broker",
        KeyIsOutText(key, why)));
    quarantined_.emplace(key, why);
  }
  const std::size_t count = WithoutCovered(QuarantinedIds()).size();
  if (count > kMaxQuarantined) {
    throw FailureError(fmt::format(
        "{} handlers computed wrong results (see above), but a job can exclude at most {}: find "
        "out what is wrong with them, and resume with a new broker and correct handlers",
        count, kMaxQuarantined));
  }
}

void AuditTrail::Begin(const RunState& past) {
  for (const std::string& name : past.contributors) contributors_.Add(name);
  unnamed_ = past.unnamed_contributors;
  failures_ = past.failures;
  if (!log_) return;
  log_->Add({{"what", "begin"},
             {"job", context_.job_id},
             {"run", context_.run},
             {"version", past.version},
             {"audit", context_.job.tasks.audit}});
}

void AuditTrail::OnContributors(const std::set<std::string>& handlers) {
  // If every result is audited, only results that nobody could confirm count, and Audits knows
  // them.
  if (context_.job.tasks.audit < 1) contributors_.AddAll(handlers);
}

void AuditTrail::OnResults(const std::vector<SeenResult>& results) {
  if (!log_) return;
  for (const SeenResult& result : results) {
    log_->Add({{"what", "result"},
               {"key", result.key.ToString()},
               {"hash", result.hash ? nlohmann::json(result.hash->ToString()) : nullptr},
               {"handler", result.put_by},
               {"time_us", tuplespace::UnixUs()}});
  }
}

std::set<std::string> AuditTrail::QuarantinedIds() const {
  std::set<std::string> ids;
  for (const auto& [id, why] : quarantined_) ids.insert(id);
  return ids;
}

void AuditTrail::Quarantine(const AuditVerdict& verdict,
                            const std::map<std::string, HandlerSeen>& known,
                            const std::set<std::string>& present) {
  HandlersWrong wrong;
  std::set<std::string> all = QuarantinedIds();
  for (const std::string& id : verdict.wrong) {
    const auto at = known.find(id);
    const std::string name = at == known.end() ? "gone" : at->second.name;
    wrong.handlers.emplace(id, fmt::format("{}: {}", name, verdict.text));
    context_.Log(fmt::format("handler {} ({}) is quarantined: {}", id, name, verdict.text));
    all.insert(id);
  }
  for (const std::string& key : KeysToExclude(all, present)) {
    const std::string why = "several handlers with this key gave wrong results";
    wrong.handlers.emplace(key, why);
    context_.Log(KeyIsOutText(key, why));
  }
  for (const std::string& key : KeysInDoubt(verdict.wrong, all, present)) {
    const std::string why = fmt::format(
        "what only handlers with the key \"{}\" have confirmed counts no more", NameOf(key));
    wrong.handlers.emplace(DoubtId(key, failures_), why);
    context_.Log(why);
  }
  keep_(wrong.handlers);
  std::vector<Tuple> tuples;
  for (const auto& [id, why] : wrong.handlers) {
    tuples.emplace_back();
    tuples.back().key = QuarantineKey(context_.job_id, id);
    tuples.back().payload = tuplespace::Payload::Copy(why);
    if (log_ && !ParseDoubtId(id)) {
      log_->Add({{"what", "quarantine"},
                 {"handler", id},
                 {"why", why},
                 {"time_us", tuplespace::UnixUs()}});
    }
  }
  context_.client.Put(std::move(tuples));
  throw HandlersWrong(wrong);
}

void AuditTrail::Flush() {
  if (log_) log_->Flush();
}

void AuditTrail::SyncFlushed() const {
  if (log_) log_->SyncWritten();
}

void AuditTrail::DropUnflushed() {
  if (log_) log_->DropUnwritten();
}

void AuditTrail::Finish(Receipt* receipt) {
  Handlers all = recorded_;
  all.insert(quarantined_.begin(), quarantined_.end());
  for (const auto& [id, why] : all) receipt->audits.quarantined.push_back({id, why});
  if (!quarantined_.empty()) context_.client.RetireAll(QuarantinedIn(context_.job_id), false);
  if (!log_) return;
  log_->Add({{"what", "done"},
             {"weights_sha256", receipt->weights_sha256},
             {"time_us", tuplespace::UnixUs()}});
  log_->Sync();
  receipt->audit_log_head = log_->head();
}

}  // namespace acan
