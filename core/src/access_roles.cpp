#include "acan/core/access_roles.h"

#include <cstdint>

#include "acan/core/names.h"

namespace acan {

using tuplespace::FieldPattern;
using tuplespace::Operation;
using tuplespace::Pattern;
using tuplespace::Role;
using tuplespace::Rule;

std::vector<Role> AccessRoles() {
  constexpr std::size_t kId = 1;  // in the keys of handlers and reports
  const Pattern everything{{FieldPattern::Any()}, true};
  // (run, step, what, ...): what is no step's has a string in the second place.
  const Pattern of_steps{
      {FieldPattern::Any(), FieldPattern::AtLeast(INT64_MIN), FieldPattern::Any()}, true};
  const Role handler{kHandlerRole,
                     {Rule{{Operation::kGet}, RunnableTasks(true, true), {}},
                      Rule{{Operation::kRead, Operation::kComplete}, of_steps, {}},
                      Rule{{Operation::kPut}, AllHandlers(), kId},
                      Rule{{Operation::kPut, Operation::kRetire}, AllReports(), kId}}};
  const Role manager{kManagerRole,
                     {Rule{{Operation::kRead, Operation::kPut, Operation::kPutTask, Operation::kGet,
                            Operation::kComplete, Operation::kRetire, Operation::kWatermark},
                           everything,
                           {}}}};
  const Role observer{kObserverRole, {Rule{{Operation::kRead}, everything, {}}}};
  return {handler, manager, observer};
}

}  // namespace acan
