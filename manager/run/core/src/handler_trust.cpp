#include "acan/manager/handler_trust.h"

#include <algorithm>
#include <cstddef>
#include <set>
#include <utility>

#include "acan/manager/excluded.h"
#include "fmt/format.h"

namespace acan {
namespace {

constexpr std::size_t kMaxExclusions = tuplespace::SpaceLimits{}.task_exclusions;

}  // namespace

HandlerTrust::HandlerTrust(const ManagerConfig& config) : config_(config) {
  const std::set<tuplespace::ClientId> excluded = WithoutCovered(config_.quarantined);
  excluded_.assign(excluded.begin(), excluded.end());
  if (config_.limits.audit > 0) audits_.emplace(config_.limits.audit, config_.audit_secret);
}

std::vector<tuplespace::Key> HandlerTrust::OnPut(UnitId unit,
                                                 const std::set<tuplespace::ClientId>& spares,
                                                 PlannedTask& task) {
  std::vector<tuplespace::Key> audited;
  if (audits_ && audits_->OnPut(unit, task)) {
    for (const Output& output : task.task.outputs) audited.push_back(output.key);
  }
  task.not_by = excluded_;
  for (const tuplespace::ClientId& spare : spares) {
    if (task.not_by.size() < kMaxExclusions) task.not_by.push_back(spare);
  }
  return audited;
}

std::optional<ManagerAction> HandlerTrust::OnResults(const std::vector<SeenResult>& results) {
  if (!audits_) return std::nullopt;
  for (const SeenResult& result : results) {
    if (!HasClient(config_.quarantined, result.put_by)) continue;
    // It gets no tasks, so it guessed the run's name and put this result on purpose.
    return GiveUp{
        fmt::format("handler {} is quarantined, but has put {}: stop it, or revoke its key",
                    result.put_by, result.key.ToString())};
  }
  audits_->OnResults(results);
  return std::nullopt;
}

// Whether the task was audited or not.
ManagerAction HandlerTrust::OnWrongLoss(const WrongLoss& wrong) const {
  if (audits_) return Quarantine{{{*wrong.by}, wrong.text}};
  return GiveUp{fmt::format(
      "handler {} computes wrong results: {}; run again without it, or with [tasks] audit",
      *wrong.by, wrong.text)};
}

ManagerAction HandlerTrust::OnUnexplained(const std::string& what) {
  return GiveUp{
      fmt::format("an unknown handler computes wrong results, which others have already used: {}; "
                  "run again with three handlers or more and audit = 1 in [tasks], which names it",
                  what)};
}

void HandlerTrust::OnVote(const VoteDone& event) {
  if (audits_) audits_->OnVote(event.audit, event.results);
}

void HandlerTrust::OnHandlers(const std::map<std::string, Capacity>& handlers,
                              const HandlersSeen& seen) {
  if (!audits_) return;
  others_will_come_ = !seen.missing.empty();
  const auto is_here = [&](const tuplespace::ClientId& id) {
    return std::any_of(seen.handlers.begin(), seen.handlers.end(), [&](const auto& handler) {
      return handler.first == id || OwnerOf(handler.first) == id;
    });
  };
  std::stable_partition(excluded_.begin(), excluded_.end(), is_here);
  audits_->OnHandlers(handlers);
}

void HandlerTrust::Forget() {
  if (audits_) audits_->Forget();
}

std::optional<ManagerAction> HandlerTrust::Follow(std::uint64_t generation,
                                                  const TaskPolicy& policy, ManagerActions& out) {
  if (!audits_) return std::nullopt;
  Audits::Output audit = audits_->TakeOutput();
  for (std::string& line : audit.say) out.push_back(Say{std::move(line)});
  for (auto& [id, task] : audit.drop) out.push_back(DropVote{id, std::move(task)});
  for (AuditVote& vote : audit.put) {
    // As many as a task can exclude. A handler that has left would have to return with the same id
    // to vote, and would then be one vote among several.
    const std::size_t room = kMaxExclusions - std::min(kMaxExclusions, vote.task.not_by.size());
    const auto count = static_cast<std::ptrdiff_t>(std::min(room, excluded_.size()));
    vote.task.not_by.insert(vote.task.not_by.end(), excluded_.begin(), excluded_.begin() + count);
    const std::int64_t lease_us = policy.LeaseUs(WorkOf(vote.task.task));
    out.push_back(PutVote{generation, std::move(vote), lease_us});
  }
  for (AuditConflict& conflict : audit.conflicts) out.emplace_back(std::move(conflict));
  if (audit.verdict) return Quarantine{std::move(*audit.verdict)};
  // The cases are reported again whenever the handlers are listed.
  if (audit.undecided && config_.fixed_handlers && !others_will_come_) {
    return GiveUp{*audit.undecided + ": start it with three handlers or more"};
  }
  return std::nullopt;
}

}  // namespace acan
