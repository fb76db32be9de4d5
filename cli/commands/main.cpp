// The program: reads the command line and runs the command. Every command builds what it needs
// itself, explicitly.
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <new>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

#include "CLI/CLI.hpp"
#include "acan/core/error.h"
#include "acan/core/text/one_line.h"
#include "acan/core/text/system_error_text.h"
#include "acan/manager/closest_word.h"
#include "command.h"
#include "fmt/format.h"
#include "process_setup.h"

namespace acan::cli {
namespace {

constexpr int kUsage = 2;
constexpr int kFailure = 1;

constexpr const char* kFooter = R"(
First steps:
  acan train examples/regression.toml              everything on this machine, one command
  acan train --help                                the help of a command
  acan devices                                     the devices of this machine

Exit codes: 0 done, 1 failure, 2 usage, 128 + n stopped by signal n.)";

// What names a file or its content may hold what a terminal obeys.
void Complain(const std::string& text) {
  std::fputs(("acan: " + OneLine(text) + "\n").c_str(), stderr);
}

// CLI11 does not know what the user may have meant.
std::string Hint(const CLI::App& app, int argc, char** argv) {
  if (argc < 2 || !app.get_subcommands().empty()) return "";
  if (argv[1][0] == '-') {
    return fmt::format("\"{}\" is not a flag of acan itself: write the command first", argv[1]);
  }
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(command->get_name());
  }
  return fmt::format("\"{}\" is not a command{}", argv[1], DidYouMean(argv[1], names));
}

// An empty value is a variable of a script that was not set, and never what somebody wants.
void RefuseEmptyValues(CLI::App& app) {
  for (CLI::Option* option : app.get_options()) {
    if (option->get_items_expected_max() == 0) continue;
    option->check([](const std::string& value) {
      return value.empty() ? "the value is empty: give one, or leave the option out" : "";
    });
  }
  for (CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    RefuseEmptyValues(*command);
  }
}

// Says what the exception that is being handled says. Returns the exit code.
int ComplainOfCurrentException() {
  try {
    throw;
  } catch (const Error& error) {
    Complain(error.what());
    return error.exit_code();
  } catch (const std::invalid_argument& error) {
    Complain(error.what());
    return kUsage;
  } catch (const std::bad_alloc&) {
    Complain("not enough memory: " + SystemErrorText(ENOMEM));
    return kFailure;
  } catch (const std::filesystem::filesystem_error& error) {
    Complain(error.what());
    return kFailure;
  } catch (const std::system_error& error) {
    Complain(fmt::format("the system cannot start another thread of this process: {}",
                         SystemErrorText(error.code().value())));
    return kFailure;
  } catch (const std::exception& error) {
    Complain(error.what());
    return kFailure;
  }
}

int RunChosen(const Chosen& chosen) {
  try {
    RequireStacks();
    return chosen.run();
  } catch (...) {
    return ComplainOfCurrentException();
  }
}

// What no thread catches. Memory and threads that the system refuses are no bug of the program, so
// they end it with a sentence; anything else leaves a core file.
[[noreturn]] void EndByUncaught() {
  try {
    if (const std::exception_ptr current = std::current_exception()) {
      std::rethrow_exception(current);
    }
  } catch (const std::bad_alloc&) {
    ::_exit(ComplainOfCurrentException());
  } catch (const std::system_error&) {
    ::_exit(ComplainOfCurrentException());
  } catch (const std::exception& error) {
    Complain(fmt::format("ended by an uncaught exception: {}", error.what()));
  } catch (...) {
  }
  std::abort();
}

int Main(int argc, char** argv) {
  SetUpProcess();
  std::set_terminate(EndByUncaught);
  CLI::App app(
      "acan trains neural networks on whatever devices are available, with bit-identical results.",
      "acan");
  app.require_subcommand(1);
  app.footer(kFooter);
  app.set_version_flag("--version", std::string("acan ") + ACAN_VERSION);
  Command program(app);
  Chosen chosen;
  for (const auto& add :
       {AddTrain, AddBroker, AddHandler, AddManager, AddKeygen, AddCheck, AddDevices, AddEval,
        AddGenerate, AddEmbed, AddGraph, AddPlan, AddVerify, AddChaos,
#ifdef ACAN_HAS_BENCH
        AddBench,
#endif
        AddVersion}) {
    add(program, chosen);
  }
  RefuseEmptyValues(app);
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
    Complain(fmt::format("see \"acan {}--help\"", commands));
    return kUsage;
  }
  return RunChosen(chosen);
}

}  // namespace
}  // namespace acan::cli

int main(int argc, char** argv) {
  return acan::cli::Main(argc, argv);
}
