#include "acan/manager/audits.h"

#include <algorithm>
#include <cassert>
#include <span>
#include <string_view>
#include <utility>

#include "acan/core/philox.h"
#include "acan/core/tuple_kinds.h"
#include "acan/manager/excluded.h"
#include "acan/manager/planted.h"
#include "fmt/format.h"
#include "fmt/ranges.h"

namespace acan {

using tuplespace::ClientId;
using tuplespace::Key;
using tuplespace::PayloadHash;

namespace {

// The limit of names in TaskSpec::not_by, minus some room for quarantined handlers.
constexpr std::size_t kMaxExcluded = 48;

// In the text of a verdict, which tuples, files and the log contain for each wrong handler.
constexpr std::size_t kMaxFindings = 16;

// The same task for another handler: it has its own keys, and keeps nothing on the device.
PlannedTask VoteTask(const PlannedTask& task, AuditId id, int number) {
  PlannedTask vote = task;
  const std::vector<tuplespace::Field> fields = task.key.Fields();
  assert(fields.size() > 3);  // (run, step, "task", precision, ...)
  const auto name = [&](std::vector<tuplespace::Field> more) {
    std::vector<tuplespace::Field> all{fields[0], fields[1]};
    all.insert(all.end(), more.begin(), more.end());
    all.emplace_back(static_cast<std::int64_t>(id));
    all.emplace_back(std::int64_t{number});
    return all;
  };
  vote.key = Key(name({WordOf(StepTuple::kTask), fields[3], WordOf(TaskName::kAudit)}));
  vote.affinity = -1;
  for (std::size_t i = 0; i < vote.task.outputs.size(); ++i) {
    std::vector<tuplespace::Field> result = name({WordOf(StepTuple::kAudit)});
    result.emplace_back(static_cast<std::int64_t>(i));
    vote.task.outputs[i].key = Key(result);
    vote.task.outputs[i].keep = false;
  }
  return vote;
}

// Without the '/'.
std::string_view KeyNameOf(std::string_view owner) {
  return owner.substr(0, owner.find('/'));
}

// Whether a TaskSpec::not_by names this client or its key.
bool Contains(const std::vector<ClientId>& clients, const ClientId& id) {
  return std::any_of(clients.begin(), clients.end(),
                     [&](const ClientId& one) { return one == id || one == OwnerOf(id); });
}

}  // namespace

bool Audits::IsDrawn(const Key& task) const {
  if (share_ >= 1) return true;
  const std::string_view bytes = task.bytes();
  const PayloadHash name = tuplespace::HashOf(std::as_bytes(std::span(bytes)));
  const acan_philox4 words = acan_philox(secret_ + round_, name.low, name.high);
  return static_cast<double>(words.v[0]) < share_ * 4294967296.0;
}

bool Audits::OnPut(std::int64_t unit, const PlannedTask& task) {
  if (!IsDrawn(task.key)) return false;
  const AuditId id = next_id_++;
  Case& one = cases_[id];
  one.unit = unit;
  one.task = task;
  one.need_bytes = NeedBytes(task.task);
  one.first.resize(task.task.outputs.size());
  for (std::size_t i = 0; i < one.first.size(); ++i) {
    awaited_[task.task.outputs[i].key] = {id, i};
  }
  ++open_[unit];
  return true;
}

void Audits::OnResults(const std::vector<SeenResult>& results) {
  for (const SeenResult& result : results) {
    silent_.OnResultOf(result.put_by);
    const auto at = awaited_.find(result.key);
    if (at == awaited_.end()) continue;
    const auto [id, index] = at->second;
    awaited_.erase(at);
    Case& one = cases_.at(id);
    CheckSize(one.task.task.outputs[index], result);
    one.first[index] = result;
    const auto is_there = [](const auto& each) { return each.has_value(); };
    if (!std::all_of(one.first.begin(), one.first.end(), is_there)) continue;
    Ballot ballot;
    for (const auto& each : one.first) {
      ballot.by.push_back(each->put_by);
      ballot.hash.push_back(each->hash);
    }
    one.ballots.push_back(std::move(ballot));
    Proceed(id);
  }
}

void Audits::OnVote(AuditId audit, const std::vector<SeenResult>& results) {
  for (const SeenResult& result : results) silent_.OnResultOf(result.put_by);
  const auto at = cases_.find(audit);
  if (at == cases_.end() || !at->second.vote) return;
  Case& one = at->second;
  const std::vector<acan::Output>& outputs = one.vote->task.task.outputs;
  Ballot ballot;
  for (const acan::Output& output : outputs) {
    const auto found = std::find_if(results.begin(), results.end(),
                                    [&](const SeenResult& each) { return each.key == output.key; });
    if (found == results.end()) return;  // the vote was dropped
    CheckSize(output, *found);
    ballot.by.push_back(found->put_by);
    ballot.hash.push_back(found->hash);
  }
  TakeBackVote(audit, one);
  one.ballots.push_back(std::move(ballot));
  Proceed(audit);
  PutWaiting();
}

void Audits::OnHandlers(const std::map<std::string, Capacity>& handlers) {
  handlers_ = handlers;
  silent_.SetPresent(handlers);
  AskOthers();
}

void Audits::LeaveOutSilent(bool workers_too) {
  std::set<ClientId> silent;
  for (const AuditId id : voting_) {
    const Case& one = cases_.at(id);
    for (const auto& handler : handlers_) {
      const bool is_silent = Can(one, one.vote->task.not_by, handler) &&
                             (workers_too || !silent_.Works(handler.first));
      if (is_silent) silent.insert(OwnerOf(handler.first));
    }
  }
  if (silent.empty() || IsPlanted(ManagerBug::kWaitsForSilentVoters)) return;
  for (const ClientId& owner : silent) silent_.Add(owner);
  output_.say.push_back(fmt::format(
      "nobody takes an audit: {}{} could and is not asked again until it has done some tasks",
      *silent.begin(),
      silent.size() == 1 ? "" : fmt::format(", like {} others,", silent.size() - 1)));
  AskOthers();
}

// Ends votes that nobody can take any more, and asks whoever can vote now.
void Audits::AskOthers() {
  std::vector<AuditId> stuck;
  for (auto& [id, one] : cases_) {
    if (one.ballots.empty()) continue;
    const bool somebody_new = one.asks_again && SomebodyCan(one, ExcludedFromNewVote(one));
    if (one.vote && !somebody_new && SomebodyCan(one, one.vote->task.not_by)) continue;
    if (one.vote) output_.drop.emplace_back(id, one.vote->task.key);
    TakeBackVote(id, one);
    stuck.push_back(id);
  }
  for (const AuditId id : stuck) Proceed(id);
  PutWaiting();
}

void Audits::Forget() {
  for (const auto& [id, one] : cases_) {
    if (auto conflict = ConflictIn(one)) output_.conflicts.push_back(std::move(*conflict));
  }
  cases_.clear();
  awaited_.clear();
  open_.clear();
  voting_.clear();
  waiting_.clear();
  output_.put.clear();
  output_.drop.clear();
  ++round_;
}

Audits::Output Audits::TakeOutput() {
  Output output = std::exchange(output_, {});
  if (output.verdict && output.verdict->findings > kMaxFindings) {
    output.verdict->text += fmt::format("; and {} more", output.verdict->findings - kMaxFindings);
  }
  return output;
}

std::size_t Audits::OpenIn(std::int64_t unit) const {
  const auto at = open_.find(unit);
  return at == open_.end() ? 0 : at->second;
}

const std::string* Audits::Undecided() const {
  for (const auto& [id, one] : cases_) {
    if (!one.undecided.empty()) return &one.undecided;
  }
  return nullptr;
}

// If another handler had enough memory, it would have been asked.
std::uint64_t Audits::MemoryOfNewVoters() const {
  std::uint64_t most = 0;
  for (const auto& [id, one] : cases_) {
    if (one.undecided.empty()) continue;
    const std::set<ClientId> owners = OwnersOf(one);
    for (const auto& [client, capacity] : handlers_) {
      const bool is_new = !owners.contains(OwnerOf(client)) && !silent_.Has(client);
      if (is_new) most = std::max(most, capacity.memory_bytes);
    }
  }
  return most;
}

bool Audits::InputsAreDecided(const Key& task) const {
  const PlannedTask* planned = nullptr;
  for (const auto& [id, one] : cases_) {
    if (one.task.key == task) planned = &one.task;
    if (one.vote && one.vote->task.key == task) planned = &one.vote->task;
  }
  if (planned == nullptr) return true;
  const std::set<Key> inputs(planned->inputs.begin(), planned->inputs.end());
  return std::none_of(cases_.begin(), cases_.end(), [&](const auto& entry) {
    const std::vector<acan::Output>& outputs = entry.second.task.task.outputs;
    return std::any_of(outputs.begin(), outputs.end(),
                       [&](const acan::Output& output) { return inputs.contains(output.key); });
  });
}

void Audits::Proceed(AuditId id) {
  Case& one = cases_.at(id);
  assert(!one.vote);
  if (!Decide(id, one)) AskForVote(id, one);
}

std::set<ClientId> Audits::VotersOf(const Case& one) {
  std::set<ClientId> voters;
  for (const Ballot& ballot : one.ballots) voters.insert(ballot.by.begin(), ballot.by.end());
  return voters;
}

std::set<ClientId> Audits::OwnersOf(const Case& one) {
  std::set<ClientId> owners;
  for (const ClientId& voter : VotersOf(one)) owners.insert(OwnerOf(voter));
  return owners;
}

std::map<ClientId, int> Audits::BallotsOf(const Case& one) {
  std::map<ClientId, int> ballots;
  for (const Ballot& ballot : one.ballots) {
    for (const ClientId& client : std::set<ClientId>(ballot.by.begin(), ballot.by.end())) {
      ++ballots[client];
    }
  }
  return ballots;
}

// Clients with different keys. Clients with one key count as two only while no other key has voted,
// because a key may have any number of clients that say the same.
bool Audits::AreTwo(const ClientId& a, const ClientId& b, const std::set<ClientId>& owners) {
  return OwnerOf(a) != OwnerOf(b) || (a != b && owners.size() == 1);
}

// Closes the case if two different handlers agree on every result.
bool Audits::Decide(AuditId id, const Case& one) {
  std::set<ClientId> wrong;
  const std::set<ClientId> owners = OwnersOf(one);
  for (std::size_t i = 0; i < one.first.size(); ++i) {
    const Ballot* right = nullptr;
    for (const Ballot& a : one.ballots) {
      // A result without a hash has no bytes, or does not show them, and so cannot be right.
      const bool confirmed =
          a.hash[i] && std::any_of(one.ballots.begin(), one.ballots.end(), [&](const Ballot& b) {
            return AreTwo(a.by[i], b.by[i], owners) && a.hash[i] == b.hash[i];
          });
      if (confirmed) right = &a;
      if (confirmed) break;
    }
    if (right == nullptr) return false;
    for (const Ballot& ballot : one.ballots) {
      if (ballot.hash[i] != right->hash[i]) wrong.insert(ballot.by[i]);
    }
  }
  if (IsPlanted(ManagerBug::kAuditsBelieveTheFirst)) wrong.clear();
  if (!wrong.empty()) {
    AddWrong(wrong, fmt::format("results of {} that {} computed are not what two others computed",
                                one.task.key.ToString(), fmt::join(wrong, ", ")));
  } else if (owners.size() > 1) {
    ++counts_.passed;
  } else {  // only clients of one key have computed it, and they may belong together
    Skip(one);
    SayOnce(&said_.own_key,
            fmt::format("nobody with another key checks the results of \"{}\": its handlers check "
                        "each other, and these audits count as skipped",
                        KeyNameOf(*owners.begin())));
  }
  Close(id);
  return true;
}

// The results are believed, and only the word of one key stands for them, whichever of its clients
// turns out to be wrong.
void Audits::Skip(const Case& one) {
  ++counts_.skipped;
  counts_.unconfirmed.AddAll(OwnersOf(one));
}

void Audits::SayOnce(bool* said, std::string text) {
  if (!std::exchange(*said, true)) output_.say.push_back(std::move(text));
}

// Closes the case if a handler computed the same task twice with different results, which an honest
// handler never does.
bool Audits::DecideByContradiction(AuditId id, const Case& one) {
  std::set<ClientId> wrong;
  for (std::size_t i = 0; i < one.first.size(); ++i) {
    std::map<ClientId, std::optional<PayloadHash>> said;
    for (const Ballot& ballot : one.ballots) {
      const auto [at, is_new] = said.emplace(ballot.by[i], ballot.hash[i]);
      if (!is_new && at->second != ballot.hash[i]) wrong.insert(ballot.by[i]);
    }
  }
  if (wrong.empty()) return false;
  AddWrong(wrong, fmt::format("results of {} that {} computed twice are not the same",
                              one.task.key.ToString(), fmt::join(wrong, ", ")));
  Close(id);
  return true;
}

std::optional<AuditConflict> Audits::ConflictIn(const Case& one) {
  for (std::size_t i = 0; i < one.first.size(); ++i) {
    for (const Ballot& ballot : one.ballots) {
      const Ballot& first = one.ballots.front();
      if (ballot.hash[i] == first.hash[i]) continue;
      const Key& result = one.task.task.outputs[i].key;
      return AuditConflict{
          result,
          fmt::format("an audit: {} by {} differs from what {} computed, and the steps were "
                      "cut anew before it was decided which is right",
                      result.ToString(), first.by[i], ballot.by[i])};
    }
  }
  return std::nullopt;
}

// No honest handler computes a result of another size, and such a result makes every reader fail.
void Audits::CheckSize(const acan::Output& output, const SeenResult& result) {
  if (result.bytes == output.view.bytes()) return;
  AddWrong({result.put_by},
           fmt::format("{} that {} computed has {} bytes, it must have {}", result.key.ToString(),
                       result.put_by, result.bytes, output.view.bytes()));
}

void Audits::AddWrong(const std::set<ClientId>& wrong, const std::string& what) {
  if (!output_.verdict) output_.verdict.emplace();
  std::set<ClientId> all(output_.verdict->wrong.begin(), output_.verdict->wrong.end());
  all.insert(wrong.begin(), wrong.end());
  output_.verdict->wrong.assign(all.begin(), all.end());
  if (++output_.verdict->findings > kMaxFindings) return;
  output_.verdict->text += (output_.verdict->text.empty() ? "" : "; ") + what;
}

bool Audits::Can(const Case& one, const std::vector<ClientId>& not_by,
                 const std::pair<const std::string, Capacity>& handler) const {
  return handler.second.memory_bytes >= one.need_bytes && !Contains(not_by, handler.first) &&
         !silent_.Has(handler.first);
}

bool Audits::SomebodyCan(const Case& one, const std::vector<ClientId>& not_by) const {
  return std::any_of(handlers_.begin(), handlers_.end(),
                     [&](const auto& handler) { return Can(one, not_by, handler); });
}

// If no new voter is present, each earlier voter may vote once more, because one that contradicts
// itself is wrong.
std::optional<std::vector<ClientId>> Audits::AskAgain(const Case& one) const {
  const std::map<ClientId, int> ballots = BallotsOf(one);
  for (const auto& [client, count] : ballots) {
    if (count > 1 || handlers_.count(client) == 0 || silent_.Has(client)) continue;
    std::set<ClientId> others;
    const auto leave_out = [&, asked = client](const ClientId& other) {
      const ClientId owner = OwnerOf(other);
      others.insert(owner == OwnerOf(asked) ? other : owner);
    };
    for (const auto& [other, capacity] : handlers_) leave_out(other);
    for (const auto& [other, ignored] : ballots) leave_out(other);
    others.erase(client);
    if (others.size() <= kMaxExcluded) return std::vector<ClientId>(others.begin(), others.end());
  }
  return std::nullopt;
}

// The handlers that may not vote: all clients of the keys that have voted. If all handlers present
// have one key, only the clients that have voted.
std::vector<ClientId> Audits::ExcludedFromNewVote(const Case& one) const {
  const std::set<ClientId> voters = VotersOf(one);
  const std::set<ClientId> owners = OwnersOf(one);
  std::vector<ClientId> not_by(owners.begin(), owners.end());
  if (owners.size() == 1 && !SomebodyCan(one, not_by)) not_by.assign(voters.begin(), voters.end());
  return not_by;
}

// Otherwise a silent handler could take the vote and keep it.
void Audits::ExcludeSilent(std::vector<ClientId>* not_by) const {
  for (const auto& [id, capacity] : handlers_) {
    if (not_by->size() >= kMaxExcluded) return;
    if (silent_.Has(id) && !Contains(*not_by, id)) not_by->push_back(OwnerOf(id));
  }
}

void Audits::ExcludeSpares(const Case& one, std::vector<ClientId>* not_by) const {
  std::vector<ClientId> all = *not_by;
  for (const ClientId& spare : spares_) {
    if (all.size() < kMaxExcluded && !Contains(all, spare)) all.push_back(spare);
  }
  if (SomebodyCan(one, all)) *not_by = std::move(all);
}

void Audits::AskForVote(AuditId id, Case& one) {
  const std::set<ClientId> voters = VotersOf(one);
  std::optional<std::vector<ClientId>> not_by = ExcludedFromNewVote(one);
  const bool differ = one.ballots.size() > 1;
  one.asks_again = false;
  if (!SomebodyCan(one, *not_by)) {
    if (handlers_.empty()) return;  // a handler must come in any case, and may vote
    if (!differ) {
      Skip(one);
      // Not even another client of their key has confirmed them.
      counts_.unconfirmed.AddAll(voters);
      SayOnce(&said_.alone, "there is no second handler to check results: they are not audited");
      return Close(id);
    }
    not_by = AskAgain(one);
    one.asks_again = true;
  }
  if (!not_by) {
    if (DecideByContradiction(id, one)) return;
    const std::map<ClientId, int> ballots = BallotsOf(one);
    const bool all_repeat = std::all_of(ballots.begin(), ballots.end(),
                                        [](const auto& each) { return each.second > 1; });
    const std::string text = fmt::format(
        "the results of {} by {} differ{} and there is no {} to decide which is right",
        one.task.key.ToString(), fmt::join(voters, " and "),
        all_repeat ? ", each repeats its own," : "",
        OwnerOf(*voters.begin()) == *voters.begin() ? "other handler" : "handler with another key");
    output_.undecided = text;
    if (one.undecided.empty()) output_.say.push_back(text + ": waiting for one");
    one.undecided = text;
    return;
  }
  one.undecided.clear();
  if (one.votes == 0 && voting_.size() >= kMaxVotes) {
    waiting_.insert(id);
    return;
  }
  waiting_.erase(id);
  voting_.insert(id);
  if (differ && one.votes == 1) {
    output_.say.push_back(fmt::format("the results of {} by {} differ: asking another handler",
                                      one.task.key.ToString(), fmt::join(voters, " and ")));
  }
  one.vote = AuditVote{id, VoteTask(one.task, id, ++one.votes)};
  if (!one.asks_again) {
    ExcludeSilent(&*not_by);
    ExcludeSpares(one, &*not_by);
  }
  one.vote->task.not_by = std::move(*not_by);
  output_.put.push_back(*one.vote);
}

// Called when the vote was cast or dropped.
void Audits::TakeBackVote(AuditId id, Case& one) {
  one.vote.reset();
  voting_.erase(id);
}

void Audits::PutWaiting() {
  while (voting_.size() < kMaxVotes && !waiting_.empty()) {
    const AuditId id = *waiting_.begin();
    waiting_.erase(waiting_.begin());
    AskForVote(id, cases_.at(id));
  }
}

void Audits::Close(AuditId id) {
  const auto at = cases_.find(id);
  const auto open = open_.find(at->second.unit);
  if (--open->second == 0) open_.erase(open);
  waiting_.erase(id);
  cases_.erase(at);
}

}  // namespace acan
