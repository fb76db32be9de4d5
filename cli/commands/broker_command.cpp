// acan broker: serves a tuple space until it is stopped.
#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <vector>

#include "acan/core/access_roles.h"
#include "acan/core/error.h"
#include "acan/core/names.h"
#include "access_file.h"
#include "command.h"
#include "device_list.h"
#include "file_watch.h"
#include "fmt/format.h"
#include "machine.h"
#include "meeting_point.h"
#include "process_setup.h"
#include "role.h"
#include "scratch_folder.h"
#include "standard_output.h"
#include "tuplespace/broker.h"

namespace acan::cli {
namespace {

struct BrokerFlags {
  std::vector<std::string> listen;
  Setting listen_variable;
  Setting keys;
  bool check_payloads = false;
  Setting shared_memory;
  Setting payloads;
  int clients = 0;  // 0: the default limits
  int tuples = 0;   // likewise
  RoleFlags role;
};

constexpr const char* kBrokerExample = R"(
Without --listen it serves this user alone, at the socket "space" in $XDG_RUNTIME_DIR/acan (if the
variable is not set: in /run/user/UID/acan, or /tmp/acan-UID), where handlers and managers without
--connect look for it. The folder must belong to this user and have mode 0700.

Prints each endpoint that it listens at, one per line: tcp://127.0.0.1:* takes a free port. Without
--keys anybody who reaches an address has full access; therefore it then accepts only ipc addresses,
whose sockets get mode 0600, and loopback addresses, which every local user can reach. With a key
file of acan keygen it admits only the keys on the file's list, and encrypts everything; the file may
change while the broker runs.

Example, three terminals:
  acan broker
  acan handler --device cpu:1
  acan manager examples/regression.toml --out out/regression)";

// All tuples are in this machine's memory, whoever put them, and so is what has been received of
// others.
void LimitMemory(const Setting& payloads, tuplespace::BrokerOptions& options) {
  const std::optional<std::uint64_t> memory_bytes = UsableMemoryBytes();
  if (memory_bytes) {
    options.limits.payload_bytes = DefaultPayloadBytes(*memory_bytes);
    const ReceiveBytes receive = DefaultReceiveBytes(*memory_bytes);
    tuplespace::ConnectionLimits& connections = options.connections;
    connections.least_unfinished_bytes_of_key = receive.unfinished;
    connections.unfinished_bytes = connections.unread_bytes_of_all = receive.unread;
    connections.unread_bytes = std::min(connections.unread_bytes, receive.unread);
    options.waiting_bytes = receive.waiting;
  }
  if (payloads.set()) options.limits.payload_bytes = ParseMemory(payloads.value, payloads.origin);
}

// A stop of all processes of a job, as by scancel, reaches the broker at the same time as the
// manager, which then writes a last snapshot: by default for at most 10 s (--stop-within).
constexpr std::int64_t kServeManagerUs = 15'000'000;

tuplespace::BrokerLinger ServeManagersOn() {
  return {AllLeaders(), kServeManagerUs,
          "leads a job and may still write a snapshot (SIGINT ends this broker at once)"};
}

constexpr int kMostClients = 65'536;  // as many as a manager lists
constexpr int kLeastTuples = 10'000;
constexpr int kMostTuples = 1'000'000'000;

// Clients that are refused connect again and again, so that the broker can tell them why.
constexpr std::uint64_t kSpareConnections = 64;

// All clients may have the same key and address, as behind a tunnel.
void LimitClients(int clients, tuplespace::BrokerOptions& options) {
  const auto most = static_cast<std::uint64_t>(clients);
  const std::uint64_t connections = most + kSpareConnections;
  const std::uint64_t possible = tuplespace::PossibleConnections(options.shared_segments);
  if (connections > possible) {
    throw FailureError(fmt::format(
        "--clients: {} clients need {} connections, but this process may open files for only {}; "
        "raise the limit (ulimit -n)",
        clients, connections, possible));
  }
  options.limits.clients = options.clients_per_key = most;
  options.connections.connections = options.connections.connections_per_address = connections;
}

void LimitTuples(int tuples, tuplespace::BrokerOptions& options) {
  options.limits.tuples = static_cast<std::uint64_t>(tuples);
  options.limits.watched_keys = options.limits.tuples / 4;
}

// Applies the changed list of the key file. A file that cannot be used, or changes meanwhile,
// changes nothing; false is returned, and a problem is logged unless it is `said` already.
bool ReadAgain(const std::string& path, const tuplespace::KeyPair& keys, tuplespace::Broker& broker,
               Log& log, std::string* said) {
  try {
    const std::string look = LookOf(path);
    const BrokerFile file = ReadBrokerFile(path);
    if (LookOf(path) != look) return false;
    broker.SetPeers(file.peers);
    log.Info(fmt::format("{} has changed: {} keys may connect now", path, file.peers.size()));
    if (file.keys.public_key != keys.public_key) {
      log.Warning(fmt::format(
          "{}: the broker's own keys have changed: restart the broker to use them", path));
    }
    said->clear();
    return true;
  } catch (const std::exception& error) {
    if (*said == error.what()) return false;
    *said = error.what();
    log.Error(fmt::format("{}; the previous list stays in force", error.what()));
    return false;
  }
}

// Ports have no owner, so only keys can do for them what the mode does for a socket.
void WarnOfOthers(const std::vector<std::string>& endpoints, Log& log) {
  for (const std::string& endpoint : endpoints) {
    if (!endpoint.starts_with("tcp://")) continue;
    log.Warning(fmt::format(
        "{} has no keys: any user of this host may connect to it and act as a manager, that is, "
        "read and replace weights and data, and end jobs; give --keys, or leave out --listen for a "
        "socket that only this user can reach",
        endpoint));
  }
}

int RunBroker(const BrokerFlags& flags) {
  // `acan train` starts its broker only for itself.
  const bool guarded = flags.keys.set() && flags.role.parent == 0;
  RequireLimits("acan broker", kMinDescriptors,
                guarded ? kMinThreadsOfBrokerWithKeys : kMinThreadsOfBroker);
  RoleProcess role(flags.role, "broker");
  tuplespace::BrokerOptions options;
  options.listen = flags.listen;
  const std::string origin =
      flags.listen.empty() && flags.listen_variable.set() ? "ACAN_LISTEN" : "--listen";
  if (options.listen.empty()) {
    options.listen = {flags.listen_variable.set() ? flags.listen_variable.value
                                                  : DefaultEndpoint("--listen")};
  }
  for (const std::string& endpoint : options.listen) CheckEndpoint(endpoint, origin);
  std::string known;
  if (guarded) {
    known = LookOf(flags.keys.value);
    BrokerFile file = ReadBrokerFile(flags.keys.value);
    options.access = {std::move(file.keys), AccessRoles(), std::move(file.peers)};
  }
  const tuplespace::KeyPair keys = guarded ? options.access->keys : tuplespace::KeyPair{};
  options.first_tuples = FirstTuples();
  options.check_payloads = flags.check_payloads;
  LimitMemory(flags.payloads, options);
  if (!IsOn(flags.shared_memory)) options.shared_segments = 0;
  if (flags.clients > 0) LimitClients(flags.clients, options);
  if (flags.tuples > 0) LimitTuples(flags.tuples, options);
  // `acan train` ends its broker after everything else.
  if (flags.role.parent == 0) options.linger = ServeManagersOn();
  options.log = [&role](const std::string& line) { role.log().Info(line); };
  ::umask(S_IRWXG | S_IRWXO);  // so that nobody else can ever access a socket
  int code = 0;
  {
    tuplespace::Broker broker(std::move(options));
    if (!guarded) WarnOfOthers(broker.endpoints(), role.log());
    for (const std::string& endpoint : broker.endpoints()) PrintLine(endpoint);
    std::string said;
    std::optional<FileWatch> watch;
    if (guarded) {
      watch.emplace(flags.keys.value, known,
                    [&] { return ReadAgain(flags.keys.value, keys, broker, role.log(), &said); });
    }
    code = role.Serve([&broker] { broker.Run(); }, [&broker] { broker.StopSoon(); });
  }
  // Whether the parent still lives is uncertain at this moment; the parent would do the same.
  if (flags.role.parent != 0) RemoveFolderOf(flags.listen.front());
  return code;
}

}  // namespace

void AddBroker(Command& app, Chosen& chosen) {
  const auto flags = std::make_shared<BrokerFlags>();
  Command command = app.AddCommand(
      "broker", "Serve a tuple space, through which managers and handlers communicate");
  command
      .AddOption("--listen", flags->listen,
                 std::string("where to listen; may be repeated (default: ") + kDefaultPlace +
                     ") [$ACAN_LISTEN]")
      .TypeName("ENDPOINT");
  const char* variable = std::getenv("ACAN_LISTEN");
  if (variable != nullptr && *variable != '\0') flags->listen_variable = {variable, "ACAN_LISTEN"};
  AddKeys(command, flags->keys,
          "the broker's key file; required for addresses other than ipc and loopback");
  command.AddFlag(
      "--check-payloads", flags->check_payloads,
      "checks the hash of each payload when it arrives, not only where it is used (with "
      "keys, those of handlers are always checked)");
  AddSetting(
      command, flags->shared_memory, "--shared-memory", "ACAN_SHARED_MEMORY",
      "off sends payloads over the sockets even between processes of this host (default: on)")
      .TypeName("on|off");
  AddSetting(command, flags->payloads, "--payloads", "ACAN_PAYLOADS",
             "the maximum size of all payloads together, like 64GiB (default: three quarters of "
             "this machine's memory, or of the memory limit of its control group)")
      .TypeName("SIZE");
  command
      .AddOption(
          "--clients", flags->clients,
          "the maximum number of clients, also of one key and of one address (default: 4096, "
          "1024 of one key, 512 connections of one address)")
      .Between(1, kMostClients)
      .TypeName("N");
  command
      .AddOption("--tuples", flags->tuples,
                 "the maximum number of tuples, whatever their size (default: 4000000)")
      .Between(kLeastTuples, kMostTuples)
      .TypeName("N");
  AddRoleFlags(command, flags->role);
  command.Footer(kBrokerExample);
  command.OnParsed([flags, &chosen] { chosen.run = [flags] { return RunBroker(*flags); }; });
}

}  // namespace acan::cli
