#include "test_roles.h"

#include <cstdint>

namespace tuplespace {
namespace {

using F = FieldPattern;

}  // namespace

std::vector<Role> Roles() {
  const auto integer = F::AtLeast(INT64_MIN);
  return {{"master",
           {{{Operation::kRead, Operation::kPut, Operation::kPutTask, Operation::kGet,
              Operation::kComplete, Operation::kRetire, Operation::kWatermark},
             {{F::Any()}, true},
             {}}}},
          {"worker",
           {{{Operation::kGet}, {{F::Exact("task")}, true}, {}},
            {{Operation::kRead, Operation::kComplete}, {{F::Exact("data"), integer}, true}, {}},
            {{Operation::kPut, Operation::kRetire}, {{F::Exact("me"), F::Any()}, false}, 1}}}};
}

std::vector<Role> RolesWithLimits() {
  const Pattern tasks{{F::Any(), F::Exact("task")}, true};
  const Pattern data{{F::Any(), F::Exact("data")}, true};
  return {{"worker",
           {{{Operation::kGet}, tasks, {}}},
           {{{Operation::kGet}, tasks, {}, 0}, {{Operation::kRead}, data, {}, 0}}},
          {"master",
           {{{Operation::kRead, Operation::kPutTask}, {{F::Any()}, true}, {}}},
           {{{Operation::kRead, Operation::kPutTask}, {{F::Any()}, true}, {}, 0}}},
          {"watcher",
           {{{Operation::kReadMetadata}, {{F::Any()}, true}, {}},
            {{Operation::kRead}, {{F::Exact("me")}, true}, {}}}}};
}

}  // namespace tuplespace
