// Key files: the broker's own with the list of those who may connect, and one access file for each
// of them. TOML, mode 0600; read and written nowhere else.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
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
// its offset; in a year that key files can hold. Throws as ParseJobs does.
std::int64_t ParseUntil(const std::string& text, const std::string& origin);

enum class Existing { kRefuse, kReplace };

// A key file that is being made or changed. Its new text stands in PATH.new until Finish. That name
// is taken while this object is there, so of two keygens at a time the second is refused. Whoever
// changes a file makes this before reading it: then nobody else changes it in between.
class KeyFileChange {
 public:
  // Throws Error (failure) if there is another, or nothing can be created there.
  explicit KeyFileChange(std::string path);
  ~KeyFileChange();  // drops what is not finished
  KeyFileChange(const KeyFileChange&) = delete;
  KeyFileChange& operator=(const KeyFileChange&) = delete;

  // Once. Readable for the owner only from its first byte on. Throws Error: usage for what key
  // files cannot hold, failure if it cannot be written, or cannot be read again.
  void Write(const BrokerFile& file);
  void Write(const AccessFile& file);
  // What was written is the file from here on. Throws Error (failure).
  void Finish(Existing existing);

 private:
  void WriteText(const std::string& text, const std::function<void()>& read);
  void Close();

  const std::string path_, temporary_;
  int fd_ = -1;
  bool finished_ = false;
};

// A KeyFileChange at once.
void WriteBrokerFile(const std::string& path, const BrokerFile& file, Existing existing);
void WriteAccessFile(const std::string& path, const AccessFile& file);

// Adds --keys (ACAN_KEYS), a path.
void AddKeys(Command& app, Setting& setting, const std::string& what);

}  // namespace acan::cli
