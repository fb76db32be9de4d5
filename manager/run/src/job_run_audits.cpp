// What a JobRun does about wrong results: audits, quarantine, the audit log.
#include <chrono>
#include <tuple>

#include "acan/core/error.h"
#include "acan/core/names.h"
#include "fmt/format.h"
#include "job_run.h"
#include "nlohmann/json.hpp"

namespace acan {
namespace {

using tuplespace::FieldPattern;
using tuplespace::Pattern;
using tuplespace::Tuple;

// A task can leave out no more.
constexpr std::size_t kMostQuarantined = tuplespace::SpaceLimits{}.task_exclusions;

std::int64_t UnixUs() {
  return std::chrono::duration_cast<std::chrono::microseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

std::vector<SeenResult> Seen(tuplespace::Found&& found) {
  std::vector<SeenResult> results;
  for (tuplespace::FoundTuple& tuple : found.tuples) {
    results.push_back({std::move(tuple.key), std::move(tuple.put_by), tuple.hash});
  }
  return results;
}

}  // namespace

void JobRun::CheckAuditLog() const {
  if (!options_.audit_log.empty()) AuditLog::CheckWritable(options_.audit_log);
}

// When this manager leads, and so is the only one that adds to it: until then another one, or an
// earlier life, may have lines for it. It may be long.
void JobRun::OpenAuditLog() {
  if (options_.audit_log.empty()) return;
  std::string said;
  audit_log_.emplace(options_.audit_log, &said, [this] {
    client_.Poll(std::chrono::microseconds(0));
    KeepLead();
  });
  if (!said.empty()) Log(said);
}

// The space keeps who is quarantined for the next manager of this job, too.
void JobRun::FindQuarantined() {
  const Pattern mine = QuarantinedIn(job_id_);
  for (const tuplespace::FoundTuple& found : client_.ListAll(mine)) {
    const auto id = std::get<std::string>(found.key.Fields().back());
    quarantined_.emplace(id, std::string(found.payload.text()));
  }
  for (const auto& [id, why] : quarantined_) Log(fmt::format("quarantined: {}: {}", id, why));
  if (quarantined_.size() > kMostQuarantined) {
    throw FailureError(fmt::format(
        "{} handlers gave wrong results (see above), and at most {} can be kept out of a job: find "
        "out what is wrong with them, and resume at a new broker with handlers that are right",
        quarantined_.size(), kMostQuarantined));
  }
  if (snapshots_ && !quarantined_.empty()) {
    std::set<std::string> wrong;
    for (const auto& [id, why] : quarantined_) wrong.insert(id);
    snapshots_->RemoveOf(wrong);
  }
}

void JobRun::OnChunk(ChunkDone event, tuplespace::Found&& found) {
  if (WatchesResults()) event.results = Seen(std::move(found));
  for (const SeenResult& result : event.results) {
    // Where every result is audited none counts that only one handler computed.
    if (job_.tasks.audit > 0 && job_.tasks.audit < 1) contributors_.insert(result.put_by);
    if (!audit_log_) continue;
    audit_log_->Add({{"what", "result"},
                     {"key", result.key.ToString()},
                     {"hash", result.hash ? nlohmann::json(result.hash->ToString()) : nullptr},
                     {"handler", result.put_by},
                     {"time_us", UnixUs()}});
  }
  Step(std::move(event));
}

void JobRun::Do(const PutVote& action) {
  const PlannedTask& task = action.vote.task;
  Submit(tuplespace::Put{{ToTuple(task, action.lease_us)}});
  tuplespace::Read read;
  read.metadata_only = true;
  for (const Output& output : task.task.outputs) read.patterns.push_back(Pattern::Of(output.key));
  votes_[action.vote.audit] = SubmitRead(
      std::move(read),
      [this, audit = action.vote.audit, generation = action.generation](tuplespace::Found&& found) {
        votes_.erase(audit);
        Step(VoteDone{audit, generation, Seen(std::move(found))});
      });
}

void JobRun::Do(const DropVote& action) {
  const auto at = votes_.find(action.audit);
  if (at != votes_.end()) Submit(tuplespace::Cancel{at->second});
  votes_.erase(action.audit);
  Submit(tuplespace::Retire{Pattern::Of(action.task), false});
}

void JobRun::Do(const Quarantine& action) {
  HandlersWrong wrong;
  std::vector<Tuple> tuples;
  for (const std::string& id : action.verdict.wrong) {
    const auto known = handlers_.find(id);
    const std::string name = known == handlers_.end() ? "gone" : known->second.name;
    wrong.handlers.emplace(id, fmt::format("{}: {}", name, action.verdict.text));
    Log(fmt::format("handler {} ({}) is quarantined: {}", id, name, action.verdict.text));
    tuples.emplace_back();
    tuples.back().key = QuarantineKey(job_id_, id);
    tuples.back().payload = tuplespace::Payload::Copy(wrong.handlers.at(id));
    if (audit_log_) {
      audit_log_->Add({{"what", "quarantine"},
                       {"handler", id},
                       {"why", action.verdict.text},
                       {"time_us", UnixUs()}});
    }
  }
  client_.Put(std::move(tuples));
  throw HandlersWrong(wrong);
}

std::pair<std::int64_t, std::int64_t> JobRun::AuditsSoFar() const {
  std::pair<std::int64_t, std::int64_t> sum{past_.audits_passed, past_.audits_skipped};
  if (core_->audits()) {
    sum.first += static_cast<std::int64_t>(core_->audits()->passed());
    sum.second += static_cast<std::int64_t>(core_->audits()->skipped());
  }
  return sum;
}

void JobRun::AddAudits() {
  receipt_.audits.share = job_.tasks.audit;
  std::tie(receipt_.audits.passed, receipt_.audits.skipped) = AuditsSoFar();
  for (const auto& [id, why] : quarantined_) receipt_.audits.quarantined.push_back({id, why});
  if (!quarantined_.empty()) client_.RetireAll(QuarantinedIn(job_id_), false);
  if (!audit_log_) return;
  audit_log_->Add(
      {{"what", "done"}, {"weights_sha256", receipt_.weights_sha256}, {"time_us", UnixUs()}});
  audit_log_->Sync();
  receipt_.audit_log_head = audit_log_->head();
}

}  // namespace acan
