// The commands of the program: one file each.
#pragma once

#include <functional>
#include <string>

#include "acan/core/error.h"

namespace CLI {
class App;
}

namespace acan::cli {

// What the command line asks for. A command's Add function sets `run` when it is chosen; the
// command runs after the whole line was read and returns the exit code.
struct Chosen {
  std::function<int()> run;
};

void AddTrain(CLI::App& app, Chosen& chosen);
void AddBroker(CLI::App& app, Chosen& chosen);
void AddHandler(CLI::App& app, Chosen& chosen);
void AddManager(CLI::App& app, Chosen& chosen);
void AddChaos(CLI::App& app, Chosen& chosen);
void AddKeygen(CLI::App& app, Chosen& chosen);
void AddDevices(CLI::App& app, Chosen& chosen);
void AddEval(CLI::App& app, Chosen& chosen);
void AddVerify(CLI::App& app, Chosen& chosen);
void AddBench(CLI::App& app, Chosen& chosen);            // only in builds with ACAN_BENCH
void AddBackendsBench(CLI::App& bench, Chosen& chosen);  // its `backends`
void AddVersion(CLI::App& app, Chosen& chosen);

// Writes to stdout at once, so that a reader of a pipe sees it. Throws Error (failure) if nobody
// takes it.
void Print(const std::string& text);
void PrintLine(const std::string& line);

// "ipc", "tcp" or "inproc" and what follows "://". Throws Error (usage).
void CheckEndpoint(const std::string& endpoint, const std::string& origin);

// "host7": this machine's name.
std::string HostName();

}  // namespace acan::cli
