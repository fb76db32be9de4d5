#include "acan/core/access_roles.h"

#include <cstdint>

#include "acan/core/names.h"
#include "acan/core/tuple_kinds.h"

namespace acan {

using tuplespace::FieldPattern;
using tuplespace::Operation;
using tuplespace::Pattern;
using tuplespace::Role;
using tuplespace::Rule;

namespace {

// Many times what a handler needs: it puts a capacity and a report or two, and its open requests
// are a Get of tasks, one of the turn to measure its link, and the inputs of the tasks that it has
// taken.
tuplespace::ClientLimits HandlerLimits() {
  tuplespace::ClientLimits limits;
  limits.own_tuples = 64;
  limits.own_payload_bytes = 1 << 20;
  limits.open_requests = 256;
  limits.open_gets = 8;
  limits.open_patterns = 65'536;
  limits.unread_bytes_of_key = 2ull << 30;
  limits.listed_bytes_of_key = 256ull << 20;
  limits.open_pattern_bytes = 32ull << 20;  // for this many keys of 400 bytes each
  limits.open_pattern_bytes_of_key = 256ull << 20;
  limits.read_patterns_of_key = 64;  // handlers read whole keys
  limits.watched_keys_of_key =
      1ull << 17;  // one for each Read, as handlers wait for all keys that they name
  limits.get_patterns_of_key = 16;  // all handlers of all jobs use the same one
  limits.get_keys_of_key = 16;      // likewise: that of the turn to measure a link
  limits.held_keys_of_key = 1ull << 20;
  limits.leases = 4096;
  limits.per_request = 4096;
  limits.leaves_nothing = true;
  limits.checks_payloads = true;
  limits.borrow_us = kProbeTurnUs;
  return limits;
}

tuplespace::ClientLimits ObserverLimits() {
  tuplespace::ClientLimits limits;
  limits.own_tuples = limits.own_payload_bytes = limits.leases = 0;
  limits.open_requests = 64;
  limits.open_patterns = 4096;
  limits.unread_bytes_of_key = 2ull << 30;
  limits.listed_bytes_of_key = 256ull << 20;
  limits.open_pattern_bytes = 4ull << 20;
  limits.open_pattern_bytes_of_key = 64ull << 20;
  limits.read_patterns_of_key = 64;
  limits.watched_keys_of_key = 1ull << 15;
  limits.per_request = 4096;
  limits.leaves_nothing = true;
  return limits;
}

// For managers that may do everything, but only with their own jobs. Many times what the manager of
// a large job needs, so that such a key cannot use up what it shares with other managers.
tuplespace::ClientLimits LimitedManagerLimits() {
  tuplespace::ClientLimits limits;
  limits.unread_bytes_of_key = 2ull << 30;    // as much as the broker keeps for one client
  limits.listed_bytes_of_key = 512ull << 20;  // for the longest List, with the longest keys
  limits.open_pattern_bytes_of_key = 512ull << 20;
  limits.read_patterns_of_key = 256;
  limits.watched_keys_of_key = 1ull << 18;
  limits.get_patterns_of_key = 16;
  limits.get_keys_of_key = 256;  // each job has the key of its lead, for which managers wait
  limits.held_keys_of_key = 1ull << 20;
  limits.watermarks_of_key = 256;
  limits.exclusions_of_key = 256;
  limits.judges_apart = true;
  return limits;
}

constexpr std::size_t kRun =
    0;  // index in the keys of steps; the run begins with the id of the job
constexpr std::size_t kJob = 1;  // index in the keys of ("leader", job) and the like
constexpr std::size_t kId = 1;   // index in the keys of handlers, reports and probes

Rule Limited(Rule rule, std::size_t field) {
  rule.limited_field = field;
  return rule;
}

std::vector<Operation> AllOperations() {
  return {Operation::kRead,     Operation::kPut,    Operation::kPutTask,  Operation::kGet,
          Operation::kComplete, Operation::kRetire, Operation::kWatermark};
}

// Adds rules for all tuples that have the job as their second field.
void AddJobRules(const std::vector<Operation>& operations, std::vector<Rule>& rules) {
  for (const OtherTuple kind : {OtherTuple::kMetrics, OtherTuple::kState}) {
    rules.push_back(
        {operations, {{FieldPattern::Exact(WordOf(kind)), FieldPattern::Any()}, true}, {}, kJob});
  }
  for (const OtherTuple kind : {OtherTuple::kLeader, OtherTuple::kDone}) {
    rules.push_back(
        {operations, {{FieldPattern::Exact(WordOf(kind)), FieldPattern::Any()}, false}, {}, kJob});
  }
  for (const OtherTuple kind : {OtherTuple::kRun, OtherTuple::kQuarantine, OtherTuple::kStandby}) {
    rules.push_back(
        {operations,
         {{FieldPattern::Exact(WordOf(kind)), FieldPattern::Any(), FieldPattern::Any()}, false},
         {},
         kJob});
  }
}

}  // namespace

std::vector<Role> AccessRoles() {
  const Pattern everything{{FieldPattern::Any()}, true};
  const Pattern of_steps = AllOfSteps();
  // What handlers publish about themselves.
  const std::vector<Rule> about_handlers{Rule{{Operation::kRead}, AllHandlers(), {}},
                                         Rule{{Operation::kRead}, AllReports(), {}}};

  const Rule tasks{{Operation::kGet}, RunnableTasks(true, true), {}};
  // A handler knows the inputs of its tasks by their keys.
  Rule inputs{{Operation::kRead}, of_steps, {}};
  inputs.whole_keys = true;
  const Rule results{{Operation::kComplete}, of_steps, {}};
  // It replaces what it has announced.
  Rule itself{{Operation::kPut, Operation::kRetire}, AllHandlers(), kId};
  itself.payload_bytes = kMaxCapacityBytes;
  Rule its_reports{{Operation::kPut, Operation::kRetire}, AllReports(), kId};
  its_reports.payload_bytes = kMaxReportBytes;
  const Rule its_probes{{Operation::kPut, Operation::kRead, Operation::kRetire}, AllProbes(), kId};
  // Handlers measure one after the other, and see nothing of each other by that.
  const Rule turn{{Operation::kGet}, Pattern::Of(ProbeTurnKey()), {}};
  const Role handler{kHandlerRole,
                     {tasks, inputs, results, itself, its_reports, its_probes, turn},
                     {Limited(tasks, kRun), Limited(inputs, kRun), Limited(results, kRun), itself,
                      its_reports, its_probes, turn},
                     HandlerLimits()};

  Role manager{kManagerRole, {Rule{AllOperations(), everything, {}}}, about_handlers};
  manager.limited_limits = LimitedManagerLimits();
  manager.limited_rules.push_back(Rule{AllOperations(), everything, {}, kRun});
  manager.limited_rules.push_back(its_probes);
  AddJobRules(AllOperations(), manager.limited_rules);

  Role observer{kObserverRole, about_handlers, about_handlers, ObserverLimits()};
  observer.rules.push_back(Rule{{Operation::kReadMetadata}, everything, {}});
  observer.limited_rules.push_back(Rule{{Operation::kReadMetadata}, everything, {}, kRun});
  AddJobRules({Operation::kReadMetadata}, observer.limited_rules);
  return {handler, manager, observer};
}

}  // namespace acan
