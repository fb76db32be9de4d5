// Key files: the broker's own with the list of those who may connect, and one access file for each
// of them. TOML, mode 0600; read and written nowhere else.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "flags.h"
#include "setting.h"
#include "tuplespace/access.h"

namespace acan::cli {

struct BrokerFile {
  tuplespace::KeyPair keys;
  std::vector<tuplespace::AllowedPeer> peers;
};
struct AccessFile {
  std::string role;
  tuplespace::ClientAccess access;
};

// Both throw Error (usage) that names the file and the field: it is not there, others than its
// owner may read or write it, is no TOML, lacks a field or has one too many, a key is none, a role
// another.
BrokerFile ReadBrokerFile(const std::string& path);
AccessFile ReadAccessFile(const std::string& path);
// The file of --keys for a client that has to have `role`; nullopt if none is given.
std::optional<tuplespace::ClientAccess> AccessOf(const Setting& keys, const std::string& role);

inline constexpr std::size_t kJobIdDigits = 16;  // of TrainingId
// What jobs a key is limited to: "3f2a*" is "3f2a", and so is a whole id itself. Throws Error
// (usage) that begins with `origin`.
std::string ParseJobs(const std::string& text, const std::string& origin);
// The second from which on a key counts no more: the end of a date, in UTC, or a date and time with
// its offset. Throws as ParseJobs does.
std::int64_t ParseUntil(const std::string& text, const std::string& origin);

enum class Existing { kRefuse, kReplace };
// Written whole or not at all, readable for the owner only from its first byte on. Throws Error.
void WriteBrokerFile(const std::string& path, const BrokerFile& file, Existing existing);
void WriteAccessFile(const std::string& path, const AccessFile& file);

// Adds --keys (ACAN_KEYS), a path.
void AddKeys(Command& app, Setting& setting, const std::string& what);

}  // namespace acan::cli
