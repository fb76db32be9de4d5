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

// What a handler needs, many times over: its own tuples are its capacity and a report or two, its
// open requests one Get and the inputs of the tasks that it has taken.
tuplespace::ClientLimits HandlerLimits() {
  tuplespace::ClientLimits limits;
  limits.own_tuples = 64;
  limits.own_payload_bytes = 1 << 20;
  limits.open_requests = 256;
  limits.open_patterns = 65'536;
  limits.leases = 4096;
  limits.per_request = 4096;
  limits.leaves_nothing = true;
  return limits;
}

tuplespace::ClientLimits ObserverLimits() {
  tuplespace::ClientLimits limits;
  limits.own_tuples = limits.own_payload_bytes = limits.leases = 0;
  limits.open_requests = 64;
  limits.open_patterns = 4096;
  limits.per_request = 4096;
  limits.leaves_nothing = true;
  return limits;
}

}  // namespace

std::vector<Role> AccessRoles() {
  constexpr std::size_t kId = 1;  // in the keys of handlers and reports
  const Pattern everything{{FieldPattern::Any()}, true};
  // (run, step, what, ...): what is no step's has a string in the second place.
  const Pattern of_steps{
      {FieldPattern::Any(), FieldPattern::AtLeast(INT64_MIN), FieldPattern::Any()}, true};
  // Of a step it reads the inputs of its tasks, which it knows by their keys.
  const Role handler{kHandlerRole,
                     {Rule{{Operation::kGet}, RunnableTasks(true, true), {}},
                      Rule{{Operation::kRead}, of_steps, {}, /*whole_keys=*/true},
                      Rule{{Operation::kComplete}, of_steps, {}},
                      Rule{{Operation::kPut}, AllHandlers(), kId},
                      Rule{{Operation::kPut, Operation::kRetire}, AllReports(), kId}},
                     HandlerLimits()};
  const Role manager{kManagerRole,
                     {Rule{{Operation::kRead, Operation::kPut, Operation::kPutTask, Operation::kGet,
                            Operation::kComplete, Operation::kRetire, Operation::kWatermark},
                           everything,
                           {}}}};
  const Role observer{
      kObserverRole, {Rule{{Operation::kRead}, everything, {}}}, ObserverLimits()};
  return {handler, manager, observer};
}

}  // namespace acan
