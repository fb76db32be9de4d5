// acan_hostile: runs a hostile client that attacks until it gets SIGINT or SIGTERM.
// tests/end_to_end/kills/soak.py runs some of these beside a cluster.
#include <signal.h>

#include <cstdint>
#include <cstdio>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "access_file.h"
#include "flags.h"
#include "fmt/format.h"
#include "hostile_client.h"

int main(int argc, char** argv) {
  std::vector<std::string> endpoints;
  std::string key_file;
  std::uint64_t seed = 1;
  bool observer = false;
  acan::cli::CommandLine line(
      "Attacks a broker with the key that it is given, until SIGINT or SIGTERM");
  acan::cli::Command& program = line.program();
  program
      .AddOption("--connect", endpoints, "the broker; if there are several, one is drawn each time")
      .Required();
  program.AddOption("--keys", key_file, "the key file of a handler or an observer").Required();
  program.AddOption("--seed", seed, "decides which attacks follow each other");
  program.AddFlag("--observer", observer,
                  "makes the attacks of an observer, not those of a handler");
  if (const std::optional<int> code = line.Parse(argc, argv)) return *code;

  sigset_t stop;
  sigemptyset(&stop);
  sigaddset(&stop, SIGINT);
  sigaddset(&stop, SIGTERM);
  // Blocks these signals before any thread starts, so that only sigwait() receives them.
  pthread_sigmask(SIG_BLOCK, &stop, nullptr);
  try {
    using acan::testing::Attacker;
    using acan::testing::Progress;
    const auto progress = std::make_shared<Progress>();
    Attacker attacker(
        {endpoints, acan::cli::ReadAccessFile(key_file).access, seed, progress},
        observer ? acan::testing::AttacksOfAnObserver() : acan::testing::AttacksOfAHandler());
    int signal = 0;
    sigwait(&stop, &signal);
    attacker.Stop();
    const Progress::Counts counts = progress->counts();
    fmt::print("{{\"rounds\":{},\"refusals\":{},\"taken\":{}}}\n", counts.rounds, counts.refusals,
               counts.taken);
  } catch (const std::exception& error) {
    fmt::print(stderr, "acan_hostile: {}\n", error.what());
    return 1;
  }
  return 0;
}
