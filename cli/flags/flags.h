// Command and Flag: how commands declare their flags; CommandLine: those of a small program. CLI11
// stands behind them, in flags.cpp alone, because its header costs every source that includes it
// about five seconds of compilation.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace acan::cli {

// A flag, or an argument without a name, of a command. A copy means the same flag. Each function
// returns the flag itself. REQUIRES: the CLI::App of its command lives.
class Flag {
 public:
  explicit Flag(CLI::Option* option) : option_(option) {}

  Flag& TypeName(const std::string& name);  // what the help calls its value
  Flag& ShowDefault();                      // the help names what the variable holds now
  Flag& Required(bool required = true);
  Flag& Hidden();  // not in the help
  Flag& Excludes(const Flag& other);
  // It may be given again; each occurrence takes one value.
  Flag& Repeated();
  // One value is a list, with this character between its elements.
  Flag& Delimiter(char delimiter);
  Flag& Between(int least, int most);
  Flag& Between(double least, double most);
  // `problem` returns what is wrong with a value; an empty text if nothing is.
  Flag& Check(const std::function<std::string(const std::string&)>& problem);

 private:
  CLI::Option* option_;
};

// The program or one of its commands. A copy means the same command. REQUIRES: the CLI::App lives.
class Command {
 public:
  explicit Command(CLI::App& app) : app_(&app) {}

  Command AddCommand(const std::string& name, const std::string& description);
  void RequireCommand();  // one of its commands must be given

  // Parsing writes the value to `value`, which must outlive the CLI::App. `Value` is one of the
  // types that flags.cpp instantiates; the linker rejects any other.
  template <typename Value>
  Flag AddOption(const std::string& name, Value& value, const std::string& description);
  Flag AddFlag(const std::string& name, bool& value, const std::string& description);
  // Parsing calls `take` with the value.
  Flag AddOptionFunction(const std::string& name,
                         const std::function<void(const std::string&)>& take,
                         const std::string& description);

  void Footer(const std::string& text);  // stands below the help
  // Parsing calls `done` if the command line names this command.
  void OnParsed(const std::function<void()>& done);

 private:
  CLI::App* app_;
};

// The command line of a program that has no commands: a bench, or a tool of the tests.
class CommandLine {
 public:
  explicit CommandLine(const std::string& description);
  ~CommandLine();
  CommandLine(const CommandLine&) = delete;
  CommandLine& operator=(const CommandLine&) = delete;

  Command& program() { return program_; }  // its flags
  // Returns the exit code if the program ends here: 0 after --help, 2 after a mistake, which it
  // says.
  [[nodiscard]] std::optional<int> Parse(int argc, char** argv);

 private:
  std::unique_ptr<CLI::App> app_;
  Command program_;
};

}  // namespace acan::cli
