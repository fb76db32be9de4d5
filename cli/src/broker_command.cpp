// acan broker: serves a tuple space until it is stopped.
#include <vector>

#include "CLI/CLI.hpp"
#include "command.h"
#include "fmt/format.h"
#include "role.h"
#include "scratch_folder.h"
#include "tuplespace/broker.h"

namespace acan::cli {
namespace {

struct Flags {
  std::vector<std::string> listen;
  Setting listen_variable;
  RoleFlags role;
};

constexpr const char* kExample = R"(
Prints each endpoint as bound, one a line: tcp://127.0.0.1:* takes a free port.
Nobody is authenticated yet, so only loopback and ipc addresses are accepted.

Example, three terminals:
  acan broker  --listen tcp://127.0.0.1:5555
  acan handler --connect tcp://127.0.0.1:5555 --device cpu:1
  acan manager --connect tcp://127.0.0.1:5555 examples/regression.toml --out out/regression)";

int RunBroker(const Flags& flags) {
  Role role(flags.role, "broker");
  tuplespace::BrokerOptions options;
  options.listen = flags.listen;
  const std::string origin =
      flags.listen.empty() && flags.listen_variable.set() ? "ACAN_LISTEN" : "--listen";
  if (options.listen.empty()) {
    options.listen = {flags.listen_variable.set() ? flags.listen_variable.value : kDefaultEndpoint};
  }
  for (const std::string& endpoint : options.listen) CheckEndpoint(endpoint, origin);
  options.log = [&role](const std::string& line) { role.log().Info(line); };
  int code = 0;
  {
    tuplespace::Broker broker(std::move(options));
    for (const std::string& endpoint : broker.endpoints()) PrintLine(endpoint);
    code = role.Serve([&broker] { broker.Run(); }, [&broker] { broker.Stop(); });
  }
  // Whether the parent still lives cannot be told for sure at this moment; it would do the same.
  if (flags.role.parent != 0) RemoveFolderOf(flags.listen.front());
  return code;
}

}  // namespace

void AddBroker(CLI::App& app, Chosen& chosen) {
  const auto flags = std::make_shared<Flags>();
  CLI::App* command =
      app.add_subcommand("broker", "Serve a tuple space: where managers and handlers meet");
  command
      ->add_option("--listen", flags->listen,
                   std::string("where to listen; may be given again (default: ") +
                       kDefaultEndpoint + ") [$ACAN_LISTEN]")
      ->type_name("ENDPOINT");
  const char* variable = std::getenv("ACAN_LISTEN");
  if (variable != nullptr && *variable != '\0') flags->listen_variable = {variable, "ACAN_LISTEN"};
  AddRoleFlags(*command, flags->role);
  command->footer(kExample);
  command->callback([flags, &chosen] { chosen.run = [flags] { return RunBroker(*flags); }; });
}

}  // namespace acan::cli
