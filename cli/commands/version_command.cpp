// acan version.
#include "command.h"
#include "standard_output.h"

namespace acan::cli {

void AddVersion(Command& app, Chosen& chosen) {
  Command command = app.AddCommand("version", "Print the version");
  command.Footer("\nExample:\n  acan version");
  command.OnParsed([&chosen] {
    chosen.run = [] {
      PrintLine(std::string("acan ") + ACAN_VERSION);
      return 0;
    };
  });
}

}  // namespace acan::cli
