// The program: reads the command line and runs the command. Every command builds what it needs
// itself, explicitly.
#include <signal.h>
#include <sys/prctl.h>

#include <cstdio>
#include <exception>
#include <stdexcept>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "acan/manager/nearest.h"
#include "command.h"
#include "fmt/format.h"

namespace acan::cli {
namespace {

constexpr int kUsage = 2;
constexpr int kFailure = 1;

constexpr const char* kFooter = R"(
First steps:
  acan train examples/regression.toml              everything on this machine, one command
  acan train --help                                each command explains itself
  acan devices                                     what this machine has

Exit codes: 0 done, 1 failure, 2 usage, 128 + n stopped by signal n.)";

void Complain(const std::string& text) {
  std::fputs(("acan: " + text + "\n").c_str(), stderr);
}

// CLI11 does not know what the user may have meant.
std::string Hint(const CLI::App& app, int argc, char** argv) {
  if (argc < 2 || !app.get_subcommands().empty() || argv[1][0] == '-') return "";
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(command->get_name());
  }
  return fmt::format("\"{}\" is no command{}", argv[1], DidYouMean(argv[1], names));
}

int RunChosen(const Chosen& chosen) {
  try {
    return chosen.run();
  } catch (const Error& error) {
    Complain(error.what());
    return error.exit_code();
  } catch (const std::invalid_argument& error) {
    Complain(error.what());
    return kUsage;
  } catch (const std::bad_alloc&) {
    Complain("not enough memory");
    return kFailure;
  } catch (const std::exception& error) {
    Complain(error.what());
    return kFailure;
  }
}

int Main(int argc, char** argv) {
  ::signal(SIGPIPE, SIG_IGN);  // a reader that went away is an error of write, not our end
  ::prctl(PR_SET_NAME,
          "acan");  // children run /proc/self/exe, and would be called "exe" by ps and top
  CLI::App app("acan trains neural networks on whatever devices there are, to the same bits.",
               "acan");
  app.require_subcommand(1);
  app.footer(kFooter);
  app.set_version_flag("--version", std::string("acan ") + ACAN_VERSION);
  Chosen chosen;
  for (const auto& add : {AddTrain, AddBroker, AddHandler, AddManager, AddKeygen, AddDevices,
                          AddEval, AddVerify, AddChaos,
#ifdef ACAN_HAS_BENCH
                          AddBench,
#endif
                          AddVersion}) {
    add(app, chosen);
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& success) {  // --help and --version
    return app.exit(success);
  } catch (const CLI::ParseError& error) {
    const std::string hint = Hint(app, argc, argv);
    Complain(hint.empty() ? error.what() : hint);
    std::string commands;
    for (const CLI::App* at = &app; !at->get_subcommands().empty();) {
      at = at->get_subcommands().front();
      commands += at->get_name() + " ";
    }
    Complain(fmt::format("\"acan {}--help\" explains", commands));
    return kUsage;
  }
  return RunChosen(chosen);
}

}  // namespace
}  // namespace acan::cli

int main(int argc, char** argv) {
  return acan::cli::Main(argc, argv);
}
