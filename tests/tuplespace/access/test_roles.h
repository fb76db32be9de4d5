// Roles as programs would have them.
#pragma once

#include <vector>

#include "tuplespace/access.h"

namespace tuplespace {

// Two roles as a program of workers and a master would have them.
std::vector<Role> Roles();
// As a program with projects would have it: ("task", ...) of a worker's are (project, "task", ...).
std::vector<Role> RolesWithLimits();

}  // namespace tuplespace
