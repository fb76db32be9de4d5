// acan version.
#include "CLI/CLI.hpp"
#include "command.h"

namespace acan::cli {

void AddVersion(CLI::App& app, Chosen& chosen) {
  CLI::App* command = app.add_subcommand("version", "Print the version");
  command->footer("\nExample:\n  acan version");
  command->callback([&chosen] {
    chosen.run = [] {
      PrintLine(std::string("acan ") + ACAN_VERSION);
      return 0;
    };
  });
}

}  // namespace acan::cli
