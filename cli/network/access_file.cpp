#include "access_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <initializer_list>
#include <utility>

#include "acan/core/access_roles.h"
#include "acan/core/error.h"
#include "acan/core/text/system_error_text.h"
#include "acan/core/text/toml_text.h"
#include "acan/manager/atomic_file.h"
#include "acan/manager/text_file.h"
#include "fmt/format.h"
#include "toml++/toml.h"

namespace acan::cli {
namespace {

constexpr const char* kBrokerRole = "broker";
constexpr std::int64_t kMaxFileBytes = 16 << 20;

// The second of this date and time, in UTC.
std::int64_t SecondOf(const toml::date& date, const toml::time& time = {}) {
  const std::chrono::sys_days day = std::chrono::year{date.year} / date.month / date.day;
  return std::chrono::sys_seconds(day).time_since_epoch().count() + time.hour * 3600 +
         time.minute * 60 + time.second;
}

std::int64_t EndOfDay(const toml::date& date) {
  return SecondOf(date) + 24 * 3600;
}

// TOML has years of four digits. The end of 9999-12-31 is in the next year.
bool HasTomlYear(std::int64_t unix_s) {
  return unix_s >= SecondOf({0, 1, 1}) && unix_s < EndOfDay({9999, 12, 31});
}

// 2027-01-31T18:00:00Z. REQUIRES: HasTomlYear
std::string TomlTime(std::int64_t unix_s) {
  const std::chrono::sys_seconds time{std::chrono::seconds(unix_s)};
  const auto day = std::chrono::floor<std::chrono::days>(time);
  const std::chrono::year_month_day date(day);
  const std::chrono::hh_mm_ss clock(time - day);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z", static_cast<int>(date.year()),
                     static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                     clock.hours().count(), clock.minutes().count(), clock.seconds().count());
}

// The limits as key files store them. Throws Error (usage) for a time that they cannot store, which
// a person may have written in a form that can be read (until = 9999-12-31).
std::string LimitLines(const std::string& name, const std::string& limit,
                       std::int64_t until_unix_s) {
  std::string lines;
  if (!limit.empty()) {
    lines += fmt::format("jobs = \"{}{}\"\n", limit, limit.size() < kJobIdDigits ? "*" : "");
  }
  if (until_unix_s == tuplespace::kNoEnd) return lines;
  if (!HasTomlYear(until_unix_s)) {
    throw UsageError(fmt::format(
        "the key \"{}\" is valid until {}, but a key file can only hold years from 0000 to 9999; "
        "write an earlier date, or leave out until for a key that does not expire",
        name, tuplespace::TimeText(until_unix_s)));
  }
  return lines + fmt::format("until = {}\n", TomlTime(until_unix_s));
}

// Throws Error (usage) unless only the file's owner can use its secret key.
void CheckSecretFile(const std::string& path, const struct stat& info) {
  if (!S_ISREG(info.st_mode)) throw UsageError(fmt::format("{}: is not a file", path));
  if ((info.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    throw UsageError(
        fmt::format("{}: has mode {:04o}, so other users may use its secret key; it must be 0600 "
                    "(chmod 600 {}), and if other users could read it, make new keys",
                    path, info.st_mode & 07777, path));
  }
  if (info.st_uid != ::geteuid() && info.st_uid != 0) {
    throw UsageError(
        fmt::format("{}: belongs to user {}, but must belong to this user ({}) or to root", path,
                    info.st_uid, ::geteuid()));
  }
}

std::string ReadSecretFile(const std::string& path) {
  return ReadTextFile(path, kMaxFileBytes, "a key file",
                      [&path](const struct stat& opened) { CheckSecretFile(path, opened); });
}

// One table of a key file. `where` names it: "keys/broker.key, allowed[2]".
class Fields {
 public:
  Fields(const toml::table& table, std::string where, std::initializer_list<const char*> known)
      : table_(table), where_(std::move(where)) {
    for (const auto& [name, value] : table) {
      if (std::find(known.begin(), known.end(), name.str()) == known.end()) {
        throw UsageError(fmt::format("{}: the field \"{}\" is unknown; known are {}", where_,
                                     name.str(), fmt::join(known, ", ")));
      }
    }
  }

  std::string Text(const char* name) const {
    const toml::node* node = table_.get(name);
    if (node == nullptr) throw UsageError(fmt::format("{}: the field {} is missing", where_, name));
    if (!node->is_string()) {
      throw UsageError(fmt::format("{}: {} must be a string", where_, name));
    }
    return node->as_string()->get();
  }
  // Messages never repeat a key's value, which may be secret.
  std::string Key(const char* name) const {
    std::string text = Text(name);
    if (const auto problem = tuplespace::KeyProblem(text)) {
      throw UsageError(fmt::format("{}: {} {}; it must be 40 characters as acan keygen writes them",
                                   where_, name, *problem));
    }
    return text;
  }
  tuplespace::KeyPair Pair() const {
    tuplespace::KeyPair pair{Key("public_key"), Key("secret_key")};
    if (const auto problem = tuplespace::KeyPairProblem(pair)) {
      throw UsageError(fmt::format("{}: public_key, secret_key: {}", where_, *problem));
    }
    return pair;
  }
  // The limit that a pattern of jobs stands for; empty if there is no pattern.
  std::string Jobs() const {
    if (table_.get("jobs") == nullptr) return "";
    return ParseJobs(Text("jobs"), where_ + ": jobs");
  }
  // kNoEnd if there is none. A date without a time is valid to its end.
  std::int64_t Until() const {
    const toml::node* node = table_.get("until");
    if (node == nullptr) return tuplespace::kNoEnd;
    if (const auto* date = node->as_date()) return EndOfDay(date->get());
    const auto* time = node->as_date_time();
    if (time != nullptr && time->get().offset) {
      return SecondOf(time->get().date, time->get().time) - time->get().offset->minutes * 60;
    }
    throw UsageError(
        fmt::format("{}: until must be a date, or a date and time with its offset, without quotes: "
                    "2027-01-31 or 2027-01-31T18:00:00Z",
                    where_));
  }
  std::string Name() const {
    std::string name = Text("name");
    if (const auto problem = tuplespace::PeerNameProblem(name)) {
      throw UsageError(fmt::format("{}: name \"{}\" {}", where_, name, *problem));
    }
    return name;
  }

 private:
  const toml::table& table_;
  std::string where_;
};

toml::table Parse(const std::string& path) {
  const std::string text = ReadSecretFile(path);
  if (const auto problem = TomlDotsProblem(text)) {
    throw UsageError(fmt::format("{}: {}", path, *problem));
  }
  try {
    return toml::parse(text, path);
  } catch (const toml::parse_error& error) {
    throw UsageError(fmt::format("{}, line {}: not valid TOML: {}", path, error.source().begin.line,
                                 error.description()));
  }
}

void CheckRole(const std::string& path, const std::string& found, const std::string& wanted) {
  if (found == wanted) return;
  throw UsageError(fmt::format("{}: role is \"{}\", but must be \"{}\" here", path, found, wanted));
}

// Checks the role of a client.
void CheckIsRole(const std::string& where, const std::string& found) {
  const std::vector<tuplespace::Role> roles = AccessRoles();
  if (std::any_of(roles.begin(), roles.end(),
                  [&](const tuplespace::Role& role) { return role.name == found; })) {
    return;
  }
  throw UsageError(
      fmt::format("{}: role is \"{}\", but must be handler, manager or observer", where, found));
}

std::string RoleOf(const std::string& path, const toml::table& table) {
  const toml::node* role = table.get("role");
  if (role == nullptr || !role->is_string()) {
    throw UsageError(fmt::format("{}: the field role is missing or not a string", path));
  }
  return role->as_string()->get();
}

Error FileError(const std::string& path, const char* doing) {
  return FailureError(fmt::format("{}: cannot {}: {}", path, doing, SystemErrorText(errno)));
}

std::string TextOf(const BrokerFile& file) {
  std::string text = fmt::format(
      "# The broker's keys and who may connect. Stays on the broker's host: whoever has the secret "
      "key\n"
      "# can pose as the broker. A running broker follows changes of the list.\n"
      "role = \"{}\"\npublic_key = \"{}\"\nsecret_key = \"{}\"\n",
      kBrokerRole, file.keys.public_key, file.keys.secret_key);
  for (const tuplespace::AllowedPeer& peer : file.peers) {
    text += fmt::format("\n[[allowed]]\nname = \"{}\"\nrole = \"{}\"\npublic_key = \"{}\"\n",
                        peer.name, peer.role, peer.public_key);
    text += LimitLines(peer.name, peer.limit, peer.until_unix_s);
  }
  return text;
}

std::string TextOf(const AccessFile& file) {
  return fmt::format(
      "# Admits a {} to the broker with this public key. Secret: copy it to where the {} runs, "
      "with scp.\n"
      "role = \"{}\"\nname = \"{}\"\nbroker_public_key = \"{}\"\n"
      "public_key = \"{}\"\nsecret_key = \"{}\"\n{}",
      file.role, file.role, file.role, file.access.name, file.access.broker_public_key,
      file.access.keys.public_key, file.access.keys.secret_key,
      LimitLines(file.access.name, file.access.limit, file.access.until_unix_s));
}

}  // namespace

std::string ParseJobs(const std::string& text, const std::string& origin) {
  const bool open = text.ends_with('*');
  std::string digits = open ? text.substr(0, text.size() - 1) : text;
  const bool hex = digits.find_first_not_of("0123456789abcdef") == std::string::npos;
  const std::size_t most = open ? kJobIdDigits - 1 : kJobIdDigits;
  // Words of the space, such as "done", may begin with one of these digits, but not with two.
  const std::size_t least = open ? 2 : kJobIdDigits;
  if (hex && digits.size() <= most && digits.size() >= least) return digits;
  throw UsageError(fmt::format(
      "{}: \"{}\" does not name jobs; write the id of a job, {} digits of 0-9 and a-f (acan "
      "manager prints it when it starts), or at least two digits of the beginning and a star, like "
      "3f2a*",
      origin, text, kJobIdDigits));
}

std::int64_t ParseUntil(const std::string& text, const std::string& origin) {
  std::optional<std::int64_t> until_unix_s;
  try {
    const toml::table table = toml::parse("until = " + text);
    if (table.size() == 1) until_unix_s = Fields(table, origin, {"until"}).Until();
  } catch (const toml::parse_error&) {
  } catch (const Error&) {
  }
  if (until_unix_s && HasTomlYear(*until_unix_s)) return *until_unix_s;
  if (until_unix_s) {
    throw UsageError(
        fmt::format("{}: \"{}\" means until {}, but a key file can only hold years from 0000 to "
                    "9999; write an earlier date, or give none for a key that does not expire",
                    origin, text, tuplespace::TimeText(*until_unix_s)));
  }
  throw UsageError(
      fmt::format("{}: \"{}\" is not a date; write 2027-01-31, which means the end of that day in "
                  "UTC, or a date and time with its offset: 2027-01-31T18:00:00Z",
                  origin, text));
}

BrokerFile ReadBrokerFile(const std::string& path) {
  const toml::table table = Parse(path);
  CheckRole(path, RoleOf(path, table), kBrokerRole);
  const Fields fields(table, path, {"role", "public_key", "secret_key", "allowed"});
  BrokerFile file{fields.Pair(), {}};
  const toml::node* allowed = table.get("allowed");
  if (allowed == nullptr) return file;
  if (!allowed->is_array()) {
    throw UsageError(fmt::format("{}: allowed must be tables: [[allowed]]", path));
  }
  for (const toml::node& node : *allowed->as_array()) {
    const std::string where = fmt::format("{}, allowed[{}]", path, file.peers.size());
    if (!node.is_table()) throw UsageError(where + ": must be a table");
    const Fields entry(*node.as_table(), where, {"name", "role", "public_key", "jobs", "until"});
    const tuplespace::AllowedPeer peer{entry.Name(), entry.Key("public_key"), entry.Text("role"),
                                       entry.Jobs(), entry.Until()};
    CheckIsRole(where, peer.role);
    for (const tuplespace::AllowedPeer& other : file.peers) {
      if (other.name == peer.name || other.public_key == peer.public_key) {
        throw UsageError(fmt::format("{}: has the {} of an earlier entry", where,
                                     other.name == peer.name ? "name" : "public_key"));
      }
    }
    file.peers.push_back(peer);
  }
  return file;
}

AccessFile ReadAccessFile(const std::string& path) {
  const toml::table table = Parse(path);
  AccessFile file;
  file.role = RoleOf(path, table);
  if (file.role == kBrokerRole) {
    throw UsageError(
        fmt::format("{}: role is \"broker\": only the broker uses this file; a handler or manager "
                    "needs its own key file, which acan keygen writes next to it",
                    path));
  }
  CheckIsRole(path, file.role);
  const Fields fields(
      table, path,
      {"role", "name", "broker_public_key", "public_key", "secret_key", "jobs", "until"});
  file.access.name = fields.Name();
  file.access.limit = fields.Jobs();
  file.access.until_unix_s = fields.Until();
  file.access.broker_public_key = fields.Key("broker_public_key");
  file.access.keys = fields.Pair();
  return file;
}

std::optional<tuplespace::ClientAccess> AccessOf(const Setting& keys, const std::string& role) {
  if (!keys.set()) return std::nullopt;
  AccessFile file = ReadAccessFile(keys.value);
  CheckRole(keys.value, file.role, role);
  return std::move(file.access);
}

namespace {

// A rename would replace a link and leave its file as it is.
std::string WithoutLinks(const std::string& path) {
  std::error_code none;
  if (!std::filesystem::is_symlink(path, none)) return path;
  const std::filesystem::path file = std::filesystem::canonical(path, none);
  return none ? path : file.string();
}

bool IsFileOfKey(const std::string& path, const std::string& public_key) {
  try {
    return ReadAccessFile(path).access.keys.public_key == public_key;
  } catch (const Error&) {
    return false;
  }
}

// The access files beside the broker's file `path` that a keygen has made for the keys that only
// the list in `unfinished` has. They are of no use without that list, and in the way of the next
// keygen. Empty if one of the lists cannot be read.
std::vector<std::string> FilesMadeFor(const std::string& path, const std::string& unfinished) {
  std::vector<std::string> made;
  BrokerFile before, after;
  try {
    after = ReadBrokerFile(unfinished);
    if (::access(path.c_str(), F_OK) == 0 || errno != ENOENT) before = ReadBrokerFile(path);
  } catch (const Error&) {
    return made;
  }
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  for (const tuplespace::AllowedPeer& peer : after.peers) {
    if (std::any_of(before.peers.begin(), before.peers.end(),
                    [&](const auto& other) { return other.public_key == peer.public_key; })) {
      continue;
    }
    const std::string file = (folder / (peer.name + ".key")).string();
    if (IsFileOfKey(file, peer.public_key)) made.push_back(file);
    if (::access((file + ".new").c_str(), F_OK) == 0) made.push_back(file + ".new");
  }
  return made;
}

}  // namespace

KeyFileChange::KeyFileChange(const std::string& path)
    : path_(WithoutLinks(path)), temporary_(path_ + ".new") {
  fd_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, S_IRUSR | S_IWUSR);
  if (fd_ >= 0) return;
  if (errno != EEXIST) throw FileError(temporary_, "create");
  const std::vector<std::string> made = FilesMadeFor(path, temporary_);
  throw FailureError(fmt::format(
      "{} exists: another acan keygen is running; if none is, remove that file{}", temporary_,
      made.empty() ? "" : fmt::format(", and what it made: {}", fmt::join(made, ", "))));
}

KeyFileChange::~KeyFileChange() {
  Close();
  // After Finish, the name may belong to another change.
  if (!finished_) ::unlink(temporary_.c_str());
}

void KeyFileChange::Write(const BrokerFile& file) {
  WriteText(TextOf(file), [this] { ReadBrokerFile(temporary_); });
}

void KeyFileChange::Write(const AccessFile& file) {
  WriteText(TextOf(file), [this] { ReadAccessFile(temporary_); });
}

void KeyFileChange::WriteText(const std::string& text, const std::function<void()>& read) {
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t count = ::write(fd_, text.data() + done, text.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw FileError(temporary_, "write");
    done += static_cast<std::size_t>(count);
  }
  if (::fsync(fd_) != 0) throw FileError(temporary_, "write");
  Close();
  try {
    read();
  } catch (const Error& error) {
    throw FailureError(fmt::format("{} was not written, because it could not be read back: {}",
                                   path_, error.what()));
  }
}

void KeyFileChange::Finish(Existing existing) {
  if (existing == Existing::kReplace) {
    if (::rename(temporary_.c_str(), path_.c_str()) != 0) throw FileError(path_, "replace");
  } else {
    if (::link(temporary_.c_str(), path_.c_str()) != 0) {
      if (errno != EEXIST) throw FileError(path_, "create");
      throw FailureError(
          fmt::format("{}: cannot create: it exists, and no key file is replaced; remove it if it "
                      "is of no use, as after an acan keygen that was killed",
                      path_));
    }
    ::unlink(temporary_.c_str());
  }
  finished_ = true;
  SyncFolderOf(path_);
}

void KeyFileChange::Close() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

void WriteBrokerFile(const std::string& path, const BrokerFile& file, Existing existing) {
  KeyFileChange change(path);
  change.Write(file);
  change.Finish(existing);
}

void WriteAccessFile(const std::string& path, const AccessFile& file) {
  KeyFileChange change(path);
  change.Write(file);
  change.Finish(Existing::kRefuse);
}

void AddKeys(Command& app, Setting& setting, const std::string& what) {
  AddSetting(app, setting, "--keys", "ACAN_KEYS", what).TypeName("FILE");
}

}  // namespace acan::cli
