// The commands of the program: one file each.
#pragma once

#include <functional>

#include "flags.h"

namespace acan::cli {

// What the command line asks for. A command's Add function sets `run` when it is chosen; the
// command runs after the whole line was read and returns the exit code.
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
void AddEmbed(Command& app, Chosen& chosen);
void AddGraph(Command& app, Chosen& chosen);
void AddVerify(Command& app, Chosen& chosen);
void AddBench(Command& app, Chosen& chosen);            // only in builds with ACAN_BENCH
void AddBackendsBench(Command& bench, Chosen& chosen);  // its `backends`
void AddVersion(Command& app, Chosen& chosen);

}  // namespace acan::cli
