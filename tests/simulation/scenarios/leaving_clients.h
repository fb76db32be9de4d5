// A directed scenario of clients that keep a task for almost as long as they may, and then leave.
#pragma once

#include <string>

namespace acan::simulation {

// First, clients of one key that have completed no task take one each, keep it, and leave before
// its lease ends. Then clients of another key complete a task first, extend the lease of the next
// one, and leave when they have kept it for longer than it is meant to take. Another client could
// do all these tasks. Returns the violation; empty: none.
std::string RunLeavingClients();

}  // namespace acan::simulation
