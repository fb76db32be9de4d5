// Command and Flag: how commands declare their flags; CommandLine: the flags of a small program.
// They are implemented with CLI11, in flags.cpp alone, because its header adds about five seconds
// to the compilation of every source that includes it.
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

// A flag, or an argument without a name, of a command. A copy refers to the same flag. Each
// function returns the flag itself. REQUIRES: the CLI::App of its command lives.
class Flag {
 public:
  explicit Flag(CLI::Option* option) : option_(option) {}

  Flag& TypeName(const std::string& name);  // the name of its value in the help
  Flag& ShowDefault();                      // the help shows the variable's current value
  Flag& Required(bool required = true);
  Flag& Hidden();  // not in the help
  Flag& Excludes(const Flag& other);
  Flag& Needs(const Flag& other);  // is refused without it
  // The flag may be repeated; each occurrence takes one value.
  Flag& Repeated();
  // One value is a list, with this character between its elements.
  Flag& Delimiter(char delimiter);
  Flag& Between(int least, int most);
  Flag& Between(double least, double most);
  // `problem` returns what is wrong with a value, or an empty text.
  Flag& Check(const std::function<std::string(const std::string&)>& problem);

 private:
  CLI::Option* option_;
};

// The program or one of its commands. A copy refers to the same command. REQUIRES: the CLI::App
// lives.
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

  void Footer(const std::string& text);  // text below the help
  // Parsing calls `done` if the command line names this command.
  void OnParsed(const std::function<void()>& done);

 private:
  CLI::App* app_;
};

// The command line of a program that has no commands, such as a bench or a test tool.
class CommandLine {
 public:
  explicit CommandLine(const std::string& description);
  ~CommandLine();
  CommandLine(const CommandLine&) = delete;
  CommandLine& operator=(const CommandLine&) = delete;

  Command& program() { return program_; }  // its flags
  // Returns the exit code if the program ends here: 0 after --help, 2 after a usage error, which it
  // reports.
  [[nodiscard]] std::optional<int> Parse(int argc, char** argv);

 private:
  std::unique_ptr<CLI::App> app_;
  Command program_;
};

}  // namespace acan::cli
