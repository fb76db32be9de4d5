// The choices that a seed made before its cluster started. Later choices are in the trace.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "seed.h"
#include "world/network.h"

namespace acan::simulation {

struct HandlerTraits {
  std::uint64_t memory_bytes = 0;
  double gflops = 1;            // as it advertises
  std::int64_t task_us = 1000;  // the usual duration of a task
  double wrong_results = 0;     // share
  bool own_memory = false;      // its device has its own memory: results may stay there
  bool over_link = false;       // its data crosses a link: results and inputs stay with it
};

struct Drawn {
  std::uint64_t seed = 0;
  std::string job;  // its name
  // Each manager has its own folder, as on hosts without a shared file system; otherwise all share
  // one.
  bool own_folders = false;
  // Managers plan for links, and tasks name handlers. Then most inputs of a task are where it runs.
  bool knows_links = true;
  bool many_links = false;              // between handlers and the broker
  std::uint64_t task_bytes = 0;         // of weights per task, at most; 0: as the job says
  std::int64_t task_rows = 0;           // samples per task, at most; 0: as the job says
  std::vector<HandlerTraits> handlers;  // at the start
  NetworkConditions network;
  std::vector<Fault> faults;      // that may happen; empty: no faults
  bool faults_are_given = false;  // SeedOptions::faults
  std::int64_t mean_gap_us = 1'000'000;
  std::int64_t heals_at_us = 0;      // in the world's time
  std::int64_t device_failures = 0;  // at most
  std::uint64_t lies_one_in = 0;     // results that are put again with other bytes; 0: none
  std::string hostile;               // what the hostile handler does; empty: there is none
  bool key_is_shared = false;        // all honest handlers have the hostile handler's key
  bool adds_hostile = false;         // SeedOptions::hostile
  std::string hostile_manager;       // what the hostile manager does; empty: there is none
};

// Returns a block of lines that names each option.
std::string Describe(const Drawn& drawn);

}  // namespace acan::simulation
