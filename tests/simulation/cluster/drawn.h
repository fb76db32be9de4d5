// What a seed drew before its cluster started. What it draws later is in the trace.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "seed.h"
#include "world/network.h"

namespace acan::simulation {

struct HandlerTraits {
  std::uint64_t memory_bytes = 0;
  double gflops = 1;            // as it says of itself
  std::int64_t task_us = 1000;  // the usual duration of a task
  double wrong_results = 0;     // share
  bool own_memory = false;      // of its device: results may stay there
  bool over_link = false;       // what leaves it crosses a link: results and inputs stay with it
};

struct Drawn {
  std::uint64_t seed = 0;
  std::string job;  // its name
  // Each manager has one, as on hosts that share none; else all write to the same.
  bool own_folders = false;
  // Managers plan for links, and tasks name handlers: then most inputs of a task are where it runs.
  bool knows_links = true;
  bool many_links = false;              // between handlers and the broker
  std::uint64_t task_bytes = 0;         // of weights, at most; 0: as the job says
  std::int64_t task_rows = 0;           // samples, at most; 0: as the job says
  std::vector<HandlerTraits> handlers;  // at the start
  NetworkConditions network;
  std::vector<Fault> faults;      // that may happen; empty: none does
  bool faults_are_given = false;  // SeedOptions::faults
  std::int64_t mean_gap_us = 1'000'000;
  std::int64_t heals_at_us = 0;      // in the world's time
  std::int64_t device_failures = 0;  // at most
  std::uint64_t lies_one_in = 0;     // results that are put again with other bytes; 0: none
  std::string hostile;               // what the hostile handler does; empty: there is none
  bool key_is_shared = false;        // the hostile handler's, with all honest ones
  bool adds_hostile = false;         // SeedOptions::hostile
};

// A block of lines, each option by name.
std::string Describe(const Drawn& drawn);

}  // namespace acan::simulation
