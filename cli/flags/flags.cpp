#include "flags.h"

#include <cerrno>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <optional>
#include <type_traits>
#include <vector>

#include "CLI/CLI.hpp"
#include "fmt/format.h"

namespace acan::cli {
namespace {

// CLI11 adds 2^64 to negative numbers, and takes the largest number for those above it.
std::string ProblemOfUnsigned(const std::string& text) {
  errno = 0;
  std::strtoull(text.c_str(), nullptr, 0);
  if (errno != ERANGE && text.find('-') == std::string::npos) return "";
  return fmt::format("must be an integer from 0 to {}", std::numeric_limits<std::uint64_t>::max());
}

}  // namespace

Flag& Flag::TypeName(const std::string& name) {
  option_->type_name(name);
  return *this;
}

Flag& Flag::ShowDefault() {
  option_->capture_default_str();
  return *this;
}

Flag& Flag::Required(bool required) {
  option_->required(required);
  return *this;
}

Flag& Flag::Hidden() {
  option_->group("");
  return *this;
}

Flag& Flag::Excludes(const Flag& other) {
  option_->excludes(other.option_);
  return *this;
}

Flag& Flag::Needs(const Flag& other) {
  option_->needs(other.option_);
  return *this;
}

Flag& Flag::Repeated() {
  option_->take_all()->expected(1)->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  return *this;
}

Flag& Flag::Delimiter(char delimiter) {
  option_->delimiter(delimiter);
  return *this;
}

Flag& Flag::Between(int least, int most) {
  option_->check(CLI::Range(least, most));
  return *this;
}

Flag& Flag::Between(double least, double most) {
  const CLI::Range range(least, most);
  // NaN passes every comparison of the range.
  option_->check([](const std::string& value) {
    double number = 0;
    const bool is_number = CLI::detail::lexical_cast(value, number);
    return is_number && std::isnan(number) ? fmt::format("\"{}\" is not a number", value) : "";
  });
  option_->check(range);
  return *this;
}

Flag& Flag::Check(const std::function<std::string(const std::string&)>& problem) {
  option_->check(problem);
  return *this;
}

Command Command::AddCommand(const std::string& name, const std::string& description) {
  return Command(*app_->add_subcommand(name, description));
}

void Command::RequireCommand() {
  app_->require_subcommand(1);
}

template <typename Value>
Flag Command::AddOption(const std::string& name, Value& value, const std::string& description) {
  CLI::Option* const option = app_->add_option(name, value, description);
  if constexpr (std::is_same_v<Value, std::uint64_t>) option->check(ProblemOfUnsigned);
  return Flag(option);
}

template Flag Command::AddOption(const std::string&, std::string&, const std::string&);
template Flag Command::AddOption(const std::string&, int&, const std::string&);
template Flag Command::AddOption(const std::string&, std::optional<int>&, const std::string&);
template Flag Command::AddOption(const std::string&, std::optional<double>&, const std::string&);
template Flag Command::AddOption(const std::string&, std::int64_t&, const std::string&);
template Flag Command::AddOption(const std::string&, std::uint64_t&, const std::string&);
template Flag Command::AddOption(const std::string&, double&, const std::string&);
template Flag Command::AddOption(const std::string&, std::vector<std::string>&, const std::string&);
template Flag Command::AddOption(const std::string&, std::vector<int>&, const std::string&);
template Flag Command::AddOption(const std::string&, std::vector<std::int64_t>&,
                                 const std::string&);
template Flag Command::AddOption(const std::string&, std::vector<double>&, const std::string&);

Flag Command::AddFlag(const std::string& name, bool& value, const std::string& description) {
  return Flag(app_->add_flag(name, value, description));
}

Flag Command::AddOptionFunction(const std::string& name,
                                const std::function<void(const std::string&)>& take,
                                const std::string& description) {
  return Flag(app_->add_option_function<std::string>(name, take, description));
}

void Command::Footer(const std::string& text) {
  app_->footer(text);
}

void Command::OnParsed(const std::function<void()>& done) {
  app_->callback(done);
}

CommandLine::CommandLine(const std::string& description)
    : app_(std::make_unique<CLI::App>(description)), program_(*app_) {}
CommandLine::~CommandLine() = default;

std::optional<int> CommandLine::Parse(int argc, char** argv) {
  try {
    app_->parse(argc, argv);
  } catch (const CLI::ParseError& end) {
    return app_->exit(end) == 0 ? 0 : 2;
  }
  return std::nullopt;
}

}  // namespace acan::cli
