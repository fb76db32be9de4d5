#include "acan/core/access_roles.h"

#include <cstdint>

#include "acan/core/names.h"

namespace acan {

using tuplespace::FieldPattern;
using tuplespace::Operation;
using tuplespace::Pattern;
using tuplespace::Role;
using tuplespace::Rule;

namespace {

constexpr std::size_t kRun = 0;  // in the keys of steps; begins with the id of the job
constexpr std::size_t kJob = 1;  // in the keys of ("leader", job) and the like
constexpr std::size_t kId = 1;   // in the keys of handlers and reports

Rule Limited(Rule rule, std::size_t field) {
  rule.limited_field = field;
  return rule;
}

std::vector<Operation> AllOperations() {
  return {Operation::kRead,     Operation::kPut,    Operation::kPutTask,  Operation::kGet,
          Operation::kComplete, Operation::kRetire, Operation::kWatermark};
}

// ("leader", job), ("done", job), ("run", job, name), ("quarantine", job, id).
void AddJobRules(const std::vector<Operation>& operations, std::vector<Rule>& rules) {
  for (const char* what : {"leader", "done"}) {
    rules.push_back(
        {operations, {{FieldPattern::Exact(what), FieldPattern::Any()}, false}, {}, kJob});
  }
  for (const char* what : {"run", "quarantine"}) {
    rules.push_back({operations,
                     {{FieldPattern::Exact(what), FieldPattern::Any(), FieldPattern::Any()}, false},
                     {},
                     kJob});
  }
}

}  // namespace

std::vector<Role> AccessRoles() {
  const Pattern everything{{FieldPattern::Any()}, true};
  // (run, step, what, ...): what is no step's has a string in the second place.
  const Pattern of_steps{
      {FieldPattern::Any(), FieldPattern::AtLeast(INT64_MIN), FieldPattern::Any()}, true};
  // What handlers say of themselves.
  const std::vector<Rule> about_handlers{Rule{{Operation::kRead}, AllHandlers(), {}},
                                         Rule{{Operation::kRead}, AllReports(), {}}};

  const Rule tasks{{Operation::kGet}, RunnableTasks(true, true), {}};
  const Rule results{{Operation::kRead, Operation::kComplete}, of_steps, {}};
  const Rule itself{{Operation::kPut}, AllHandlers(), kId};
  const Rule its_reports{{Operation::kPut, Operation::kRetire}, AllReports(), kId};
  const Role handler{kHandlerRole,
                     {tasks, results, itself, its_reports},
                     {Limited(tasks, kRun), Limited(results, kRun), itself, its_reports}};

  Role manager{kManagerRole, {Rule{AllOperations(), everything, {}}}, about_handlers};
  manager.limited_rules.push_back(Rule{AllOperations(), everything, {}, kRun});
  AddJobRules(AllOperations(), manager.limited_rules);

  Role observer{kObserverRole, about_handlers, about_handlers};
  observer.rules.push_back(Rule{{Operation::kReadMetadata}, everything, {}});
  observer.limited_rules.push_back(Rule{{Operation::kReadMetadata}, everything, {}, kRun});
  AddJobRules({Operation::kReadMetadata}, observer.limited_rules);
  return {handler, manager, observer};
}

}  // namespace acan
