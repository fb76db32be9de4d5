// The program's commands; each has a file of its own.
#pragma once

#include <functional>

#include "flags.h"

namespace acan::cli {

// The command that the command line names. A command's Add function sets `run` when the command is
// chosen. It runs after the whole command line has been parsed, and returns the exit code.
struct Chosen {
  std::function<int()> run;
};

void AddTrain(Command& app, Chosen& chosen);
void AddBroker(Command& app, Chosen& chosen);
void AddHandler(Command& app, Chosen& chosen);
void AddManager(Command& app, Chosen& chosen);
void AddChaos(Command& app, Chosen& chosen);
void AddCheck(Command& app, Chosen& chosen);
void AddKeygen(Command& app, Chosen& chosen);
void AddDevices(Command& app, Chosen& chosen);
void AddPlan(Command& app, Chosen& chosen);
void AddEval(Command& app, Chosen& chosen);
void AddGenerate(Command& app, Chosen& chosen);
void AddPredict(Command& app, Chosen& chosen);
void AddEmbed(Command& app, Chosen& chosen);
void AddGraph(Command& app, Chosen& chosen);
void AddVerify(Command& app, Chosen& chosen);
void AddBench(Command& app, Chosen& chosen);            // only in builds with ACAN_BENCH
void AddBackendsBench(Command& bench, Chosen& chosen);  // its subcommand `backends`
void AddVersion(Command& app, Chosen& chosen);

}  // namespace acan::cli
