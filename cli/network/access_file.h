// Key files: the broker's own file, with the list of those who may connect, and one access file for
// each of them. They are TOML with mode 0600; only this code reads and writes them.
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

// Both throw Error (usage), which names the file and the field, if the file does not exist, is
// accessible to anyone but its owner, is not TOML, lacks a field or has an unknown one, or if a key
// or a role is invalid.
BrokerFile ReadBrokerFile(const std::string& path);
AccessFile ReadAccessFile(const std::string& path);
// The access file that --keys names, for a client that must have `role`; nullopt if none is given.
std::optional<tuplespace::ClientAccess> AccessOf(const Setting& keys, const std::string& role);

inline constexpr std::size_t kJobIdDigits = 16;  // of TrainingId
// The jobs that a key is limited to: "3f2a*" gives "3f2a", and a whole id gives itself. Throws
// Error (usage), whose text begins with `origin`.
std::string ParseJobs(const std::string& text, const std::string& origin);
// The second from which on a key is invalid: the end of a date, in UTC, or a date and time with its
// offset, in a year that key files can hold. Throws as ParseJobs does.
std::int64_t ParseUntil(const std::string& text, const std::string& origin);

enum class Existing { kRefuse, kReplace };

// A key file that is being made or changed. Its new text is in PATH.new until Finish. This object
// holds that name, so of two concurrent keygens the second is refused. To change a file, make this
// object before reading the file; then nobody else changes it in between.
class KeyFileChange {
 public:
  // Throws Error (failure) if another change is in progress, or if PATH.new cannot be created. The
  // message names what a killed keygen has left, if PATH is the broker's file.
  explicit KeyFileChange(const std::string& path);
  ~KeyFileChange();  // drops an unfinished change
  KeyFileChange(const KeyFileChange&) = delete;
  KeyFileChange& operator=(const KeyFileChange&) = delete;

  // Call once. From its first byte on, the file is readable only for its owner. Throws Error: usage
  // for what key files cannot hold, failure if the file cannot be written or cannot be read back.
  void Write(const BrokerFile& file);
  void Write(const AccessFile& file);
  // Puts the written text in the place of the file. Throws Error (failure).
  void Finish(Existing existing);

 private:
  void WriteText(const std::string& text, const std::function<void()>& read);
  void Close();

  const std::string path_, temporary_;
  int fd_ = -1;
  bool finished_ = false;
};

// Make a KeyFileChange, write and finish.
void WriteBrokerFile(const std::string& path, const BrokerFile& file, Existing existing);
void WriteAccessFile(const std::string& path, const AccessFile& file);

// Adds --keys (ACAN_KEYS), a path.
void AddKeys(Command& app, Setting& setting, const std::string& what);

}  // namespace acan::cli
