// acan keygen: makes the key files that let other hosts connect, adds keys and revokes them.
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <string>
#include <vector>

#include "acan/core/access_roles.h"
#include "acan/core/error.h"
#include "acan/core/text/system_error_text.h"
#include "acan/manager/descriptor.h"
#include "acan/manager/file_lock.h"
#include "acan/manager/initial_weights.h"
#include "acan/manager/job.h"
#include "acan/manager/load_data.h"
#include "acan/manager/snapshot.h"
#include "acan/manager/training_id.h"
#include "access_file.h"
#include "command.h"
#include "fmt/format.h"
#include "job_flags.h"
#include "standard_output.h"
#include "stop_signals.h"

namespace acan::cli {
namespace {

struct KeygenFlags {
  std::string out = "keys";
  std::string add;
  std::string name;
  JobFlags jobs;  // the path is a job file or, without overrides, a pattern of ids
  std::string until;
  std::string revoke;
};

constexpr const char* kKeygenExample = R"(
Without --add and --revoke it makes DIR/broker.key, which stays with the broker, and DIR/handler.key
and DIR/manager.key, which you copy to the hosts of handlers and managers. Group and others must
have no access to a key file (mode 0600), and it must belong to the user or to root. A running
broker applies --add and --revoke within a second or two.
An added key can be limited. With --jobs it works only for jobs with this id (acan manager prints it
when it starts; 3f2a* means all ids that begin so, and FILE.toml means the id of this job with the
data that it names; --set and ACAN_SET override keys of this job, so give the manager the same).
With --until it expires, and the broker disconnects whoever still uses it. Both limits are in the
list in broker.key, and the broker enforces them.

Example:
  acan keygen --out keys
  acan keygen --out keys --add handler --name gpu7
  acan keygen --out keys --add handler --name guest --jobs my.toml --until 2027-01-31
  acan keygen --out keys --revoke gpu7
  acan broker --listen tcp://0.0.0.0:5555 --keys keys/broker.key
  acan handler --connect tcp://broker-host:5555 --keys handler.key)";

std::string BrokerPath(const KeygenFlags& flags) {
  return flags.out + "/broker.key";
}
std::string PathOf(const KeygenFlags& flags, const std::string& name) {
  return fmt::format("{}/{}.key", flags.out, name);
}

// The limits of a key.
struct Limits {
  std::string jobs;
  std::int64_t until_unix_s = tuplespace::kNoEnd;
};

bool NamesJobFile(const KeygenFlags& flags) {
  return flags.jobs.path.ends_with(".toml");
}

Limits LimitsOf(const KeygenFlags& flags) {
  Limits limits;
  if (NamesJobFile(flags)) {
    Job job = ReadJob(flags.jobs);
    HoldToInitialWeights(&job, JobOrigin::kUser);
    const Data data = LoadData(job);
    limits.jobs = TrainingId(job, data.train_sha256(), data.test_sha256());
  } else if (!flags.jobs.path.empty()) {
    limits.jobs = ParseJobs(flags.jobs.path, "--jobs");
  }
  if (flags.until.empty()) return limits;
  limits.until_unix_s = ParseUntil(flags.until, "--until");
  if (limits.until_unix_s <= std::time(nullptr)) {
    throw UsageError(fmt::format("--until: \"{}\" is in the past: the key would have expired at {}",
                                 flags.until, tuplespace::TimeText(limits.until_unix_s)));
  }
  return limits;
}

std::string TextOf(const Limits& limits) {
  std::string text;
  if (limits.jobs.size() == kJobIdDigits) {
    text += ", for the job with the id " + limits.jobs;
  } else if (!limits.jobs.empty()) {
    text += ", for jobs whose id begins with " + limits.jobs;
  }
  if (limits.until_unix_s != tuplespace::kNoEnd) {
    text += ", until " + tuplespace::TimeText(limits.until_unix_s);
  }
  return text;
}

// Makes a key pair and puts it on the list. Returns the access file for the owner of the key.
AccessFile Add(BrokerFile& file, const std::string& role, const std::string& name,
               const Limits& limits = {}) {
  const tuplespace::KeyPair keys = tuplespace::MakeKeyPair();
  file.peers.push_back({name, keys.public_key, role, limits.jobs, limits.until_unix_s});
  return {role, {name, keys, file.keys.public_key, limits.jobs, limits.until_unix_s}};
}

constexpr std::array kStopSignals = {SIGINT, SIGTERM, SIGHUP};
// The first of them that came, and when by the monotonic clock; 0 if none came.
std::atomic<int> stop_signal{0};
std::atomic<std::int64_t> stopped_at_ns{0};
static_assert(std::atomic<int>::is_always_lock_free &&
              std::atomic<std::int64_t>::is_always_lock_free);  // used in a signal handler

extern "C" void NoteStopSignal(int signal) {
  const int saved = errno;
  struct timespec now {};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  const std::int64_t now_ns =
      (std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec)).count();
  std::int64_t first_ns = 0;
  if (stopped_at_ns.compare_exchange_strong(first_ns, now_ns)) {
    stop_signal = signal;
  } else if (now_ns - first_ns >= std::chrono::nanoseconds(kRepeatedStop).count()) {
    ::signal(signal, SIG_DFL);
    ::raise(signal);
  }
  errno = saved;
}

// While this lives, a signal to stop waits, so that a change of the files is either complete or
// dropped; then the process ends by it. A further signal ends the process at once, because the disk
// may never answer. But one within kRepeatedStop of the first means the same request: timeout(1)
// signals its child and then its group. Nothing is printed meanwhile, because a reader may never
// read.
class LateStop {
 public:
  LateStop() {
    struct sigaction note {};
    note.sa_handler = NoteStopSignal;
    note.sa_flags = SA_RESTART;
    sigemptyset(&note.sa_mask);
    for (std::size_t i = 0; i < kStopSignals.size(); ++i) {
      ::sigaction(kStopSignals[i], nullptr, &before_[i]);
      if (before_[i].sa_handler != SIG_IGN) ::sigaction(kStopSignals[i], &note, nullptr);
    }
  }
  ~LateStop() {
    for (std::size_t i = 0; i < kStopSignals.size(); ++i) {
      ::sigaction(kStopSignals[i], &before_[i], nullptr);
    }
    if (stop_signal != 0) ::raise(stop_signal);
  }
  LateStop(const LateStop&) = delete;
  LateStop& operator=(const LateStop&) = delete;

 private:
  std::array<struct sigaction, kStopSignals.size()> before_{};
};

// Removes the access files that it wrote unless their keys get onto the list. Otherwise they would
// be useless, and the next attempt would find their names taken.
class NewAccessFiles {
 public:
  NewAccessFiles() = default;
  ~NewAccessFiles() {
    for (const std::string& path : paths_) ::unlink(path.c_str());
  }
  NewAccessFiles(const NewAccessFiles&) = delete;
  NewAccessFiles& operator=(const NewAccessFiles&) = delete;

  void Write(const std::string& path, const AccessFile& file) {
    WriteAccessFile(path, file);
    paths_.push_back(path);
  }
  void Keep() { paths_.clear(); }

 private:
  std::vector<std::string> paths_;
};

int Make(const KeygenFlags& flags) {
  if (::mkdir(flags.out.c_str(), S_IRWXU) != 0 && errno != EEXIST) {
    throw FailureError(fmt::format("{}: cannot create: {}", flags.out, SystemErrorText(errno)));
  }
  {
    const LateStop late_stop;
    KeyFileChange change(BrokerPath(flags));
    if (::access(BrokerPath(flags).c_str(), F_OK) == 0) {
      throw UsageError(
          fmt::format("{} exists and is not replaced; --add adds a key to it, --revoke removes one",
                      BrokerPath(flags)));
    }
    BrokerFile file{tuplespace::MakeKeyPair(), {}};
    const AccessFile handler = Add(file, kHandlerRole, kHandlerRole);
    const AccessFile manager = Add(file, kManagerRole, kManagerRole);
    change.Write(file);
    NewAccessFiles files;
    files.Write(PathOf(flags, kHandlerRole), handler);
    files.Write(PathOf(flags, kManagerRole), manager);
    change.Finish(Existing::kRefuse);
    files.Keep();
  }
  PrintLine(fmt::format("{}: stays with the broker", BrokerPath(flags)));
  PrintLine(fmt::format("{}: for handlers, on any number of hosts", PathOf(flags, kHandlerRole)));
  PrintLine(fmt::format("{}: for managers", PathOf(flags, kManagerRole)));
  return 0;
}

int AddOne(const KeygenFlags& flags) {
  const std::string name = flags.name.empty() ? flags.add : flags.name;
  if (const auto problem = tuplespace::PeerNameProblem(name)) {
    throw UsageError(fmt::format("--name: \"{}\" {}", name, *problem));
  }
  const std::vector<tuplespace::Role> roles = AccessRoles();
  if (std::none_of(roles.begin(), roles.end(),
                   [&](const auto& r) { return r.name == flags.add; })) {
    throw UsageError(fmt::format(
        "--add: \"{}\" is not a role; the roles are handler, manager and observer", flags.add));
  }
  const Limits limits = LimitsOf(flags);
  ReadBrokerFile(BrokerPath(flags));  // fails if there is none, before anything is created
  {
    const LateStop late_stop;
    KeyFileChange change(BrokerPath(flags));
    BrokerFile file = ReadBrokerFile(BrokerPath(flags));
    if (name == "broker" || std::any_of(file.peers.begin(), file.peers.end(),
                                        [&](const auto& peer) { return peer.name == name; })) {
      throw UsageError(
          fmt::format("--name: \"{}\" is taken in {}; give another", name, BrokerPath(flags)));
    }
    const AccessFile access = Add(file, flags.add, name, limits);
    change.Write(file);
    NewAccessFiles files;
    files.Write(PathOf(flags, name), access);
    change.Finish(Existing::kReplace);
    files.Keep();
  }
  const char* article = flags.add == kObserverRole ? "an" : "a";
  PrintLine(
      fmt::format("{}: for {} {}{}", PathOf(flags, name), article, flags.add, TextOf(limits)));
  return 0;
}

int Revoke(const KeygenFlags& flags) {
  ReadBrokerFile(BrokerPath(flags));  // as in AddOne
  {
    const LateStop late_stop;
    KeyFileChange change(BrokerPath(flags));
    BrokerFile file = ReadBrokerFile(BrokerPath(flags));
    const auto peer = std::find_if(file.peers.begin(), file.peers.end(),
                                   [&](const auto& one) { return one.name == flags.revoke; });
    if (peer == file.peers.end()) {
      std::vector<std::string> names;
      for (const auto& one : file.peers) names.push_back(one.name);
      throw UsageError(fmt::format("--revoke: \"{}\" is not in {}, which has {}", flags.revoke,
                                   BrokerPath(flags), fmt::join(names, ", ")));
    }
    file.peers.erase(peer);
    change.Write(file);
    // Once the list is replaced, the file and its copies are useless, and the name may belong to
    // another new key. But while this file is there, no keygen makes another of its name.
    const std::string access = PathOf(flags, flags.revoke);
    const Descriptor file_of_key(::open(access.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
    change.Finish(Existing::kReplace);
    if (file_of_key.get() >= 0 && IsFileOf(access, file_of_key.get())) ::unlink(access.c_str());
  }
  PrintLine(fmt::format("{}: \"{}\" is revoked", BrokerPath(flags), flags.revoke));
  return 0;
}

int RunKeygen(const KeygenFlags& flags) {
  if (!flags.revoke.empty()) {
    if (!flags.name.empty() || !flags.jobs.path.empty() || !flags.jobs.set.empty() ||
        !flags.until.empty()) {
      throw UsageError(
          "--name, --jobs, --set and --until are for keys to add; --revoke names the key and ends "
          "it now");
    }
    return Revoke(flags);
  }
  if (!flags.jobs.set.empty() && !NamesJobFile(flags)) {
    throw UsageError("--set overrides a key of a job file: give --jobs FILE.toml as well");
  }
  if (!flags.add.empty()) return AddOne(flags);
  if (!flags.name.empty()) throw UsageError("--name names a key to add: give --add as well");
  if (!flags.jobs.path.empty() || !flags.until.empty()) {
    throw UsageError("--jobs and --until limit a key to add: give --add as well");
  }
  return Make(flags);
}

}  // namespace

void AddKeygen(Command& app, Chosen& chosen) {
  const auto flags = std::make_shared<KeygenFlags>();
  Command command = app.AddCommand("keygen", "Make keys for handlers and managers on other hosts");
  command.AddOption("--out", flags->out, "the folder of the key files")
      .TypeName("DIR")
      .ShowDefault();
  const Flag add =
      command
          .AddOption("--add", flags->add, "adds a key with this role: handler, manager or observer")
          .TypeName("ROLE");
  command.AddOption("--name", flags->name, "the name of the added key (default: its role)")
      .TypeName("NAME");
  command
      .AddOption("--jobs", flags->jobs.path,
                 "limits the added key to jobs with this id, like 3f2a* or my.toml")
      .TypeName("PATTERN");
  AddOverrides(command, flags->jobs);
  command
      .AddOption("--until", flags->until,
                 "the last day on which the added key is valid, like 2027-01-31")
      .TypeName("DATE");
  command.AddOption("--revoke", flags->revoke, "revokes the key with this name")
      .TypeName("NAME")
      .Excludes(add);
  command.Footer(kKeygenExample);
  command.OnParsed([flags, &chosen] { chosen.run = [flags] { return RunKeygen(*flags); }; });
}

}  // namespace acan::cli
