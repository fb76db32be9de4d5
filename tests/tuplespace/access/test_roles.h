// Roles for tests, as real programs would define them.
#pragma once

#include <vector>

#include "tuplespace/access.h"

namespace tuplespace {

// The roles of a program with a master and workers.
std::vector<Role> Roles();
// The same for a program with projects: a worker's tasks are (project, "task", ...) instead of
// ("task", ...).
std::vector<Role> RolesWithLimits();

}  // namespace tuplespace
