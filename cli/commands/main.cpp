// The program: parses the command line and runs the command. Every command explicitly builds what
// it needs.
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <new>
#include <sstream>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

#include "CLI/CLI.hpp"
#include "acan/core/error.h"
#include "acan/core/ieee_mode.h"
#include "acan/core/text/one_line.h"
#include "acan/core/text/system_error_text.h"
#include "acan/manager/closest_word.h"
#include "command.h"
#include "fmt/format.h"
#include "log.h"
#include "process_setup.h"
#include "standard_output.h"

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

// The command whose log is JSON; empty: complaints are text.
std::string& JsonCommand() {
  static std::string name;
  return name;
}

// The format of the log that the command line and its variable ask for. Reads the words themselves,
// because a parser that stops at a mistake does not know those behind it.
std::string FormatIn(int argc, char** argv) {
  const std::string flag = "--log-format";
  const char* variable = std::getenv("ACAN_LOG_FORMAT");
  std::string format = variable == nullptr ? "" : variable;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == flag && i + 1 < argc) format = argv[i + 1];
    if (word.starts_with(flag + "=")) format = word.substr(flag.size() + 1);
  }
  return format;
}

void ChooseFormat(const CLI::App& app, int argc, char** argv) {
  for (const CLI::App* command : app.get_subcommands()) {
    if (command->get_option_no_throw("--log-format") == nullptr) continue;
    if (FormatIn(argc, argv) == "json") JsonCommand() = command->get_name();
  }
}

// Names and contents of files may contain control sequences of terminals.
void Complain(const std::string& text) {
  if (!JsonCommand().empty()) {
    try {
      return Log(LogFormat::kJson, JsonCommand()).Error(text);
    } catch (const std::exception&) {  // there may be no memory for it
    }
  }
  std::fputs(("acan: " + OneLine(text) + "\n").c_str(), stderr);
}

std::vector<std::string> CommandsOf(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(command->get_name());
  }
  return names;
}

// Of a command that has commands of its own; `word` follows it.
std::string HintOfGroup(const CLI::App& group, const char* word) {
  const std::vector<std::string> names = CommandsOf(group);
  if (names.empty() || !group.get_subcommands().empty()) return "";
  const std::string who = "acan " + group.get_name();
  if (word == nullptr) return fmt::format("{} needs a command{}", who, DidYouMean("", names));
  if (word[0] == '-') return "";
  return fmt::format("\"{}\" is not a command of {}{}", word, who, DidYouMean(word, names));
}

// A hint at what the user may have meant, which CLI11 cannot give.
std::string Hint(const CLI::App& app, int argc, char** argv) {
  if (argc < 2) return "";
  if (!app.get_subcommands().empty()) {
    return HintOfGroup(*app.get_subcommands().front(), argc > 2 ? argv[2] : nullptr);
  }
  if (argv[1][0] == '-') {
    return fmt::format("\"{}\" is not a flag of acan itself: write the command first", argv[1]);
  }
  return fmt::format("\"{}\" is not a command{}", argv[1], DidYouMean(argv[1], CommandsOf(app)));
}

// An empty value comes from an unset variable in a script, and is never intended.
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

// Prints the message of the exception that is being handled. Returns the exit code.
int ComplainOfCurrentException() {
  try {
    throw;
  } catch (const ReaderGone&) {
    return 128 + SIGPIPE;  // as for a program that the signal ended
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
    const int code = error.code().value();
    const bool of_thread = code == EAGAIN || code == ENOMEM;
    Complain(of_thread ? fmt::format("the system cannot start another thread of this process: {}",
                                     SystemErrorText(code))
                       : error.what());
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

// Prints what --help or --version asks for. CLI11 would not notice if stdout cannot be written.
int PrintAsked(const CLI::App& app, const CLI::Success& asked) {
  std::ostringstream text;
  const int code = app.exit(asked, text);
  try {
    Print(text.str());
    return code;
  } catch (...) {
    return ComplainOfCurrentException();
  }
}

// Handles exceptions that no thread catches. If the system refuses memory or threads, that is no
// bug of the program, so the process ends with a message. Anything else leaves a core file.
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
        AddPredict, AddGenerate, AddEmbed, AddGraph, AddPlan, AddVerify, AddChaos,
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
    return PrintAsked(app, success);
  } catch (const CLI::ParseError& error) {
    ChooseFormat(app, argc, argv);
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
  ChooseFormat(app, argc, argv);
  return RunChosen(chosen);
}

}  // namespace
}  // namespace acan::cli

int main(int argc, char** argv) {
  // For all threads of the process. Start-up code that -ffast-math linked, or a library's, may have
  // switched this thread to another mode.
  const acan::IeeeMode ieee;
  return acan::cli::Main(argc, argv);
}
