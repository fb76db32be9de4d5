// Who may join a space and do what there: CURVE keys and roles. Plain values and pure functions;
// the library knows no files and no names of roles, its callers do.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tuplespace/client_limits.h"
#include "tuplespace/key.h"

namespace tuplespace {

// A CURVE key pair (Curve25519), each key as 40 characters of Z85.
struct KeyPair {
  std::string public_key;
  std::string secret_key;
};

// Random. Throws std::runtime_error if libzmq was built without CURVE.
KeyPair MakeKeyPair();
// nullopt if `text` is a key in Z85, else what is wrong with it. Never repeats the text.
std::optional<std::string> KeyProblem(const std::string& text);
// Both are keys and the public one belongs to the secret one.
std::optional<std::string> KeyPairProblem(const KeyPair& keys);

inline constexpr std::size_t kMaxPeerNameBytes = 32;
// nullopt for 1..kMaxPeerNameBytes of letters, digits, '.', '_' and '-'; else what is wrong.
std::optional<std::string> PeerNameProblem(const std::string& name);

// What a request does. Extend, Release, Fail, Cancel and GetStats concern only what the client has
// already, or counts: every role may send them. Who may get anything may hold what it may read, put
// or complete a task with.
enum class Operation : std::uint8_t {
  kReadMetadata,  // Read and List with metadata_only, Count: keys, sizes, hashes, who put it
  kRead,          // Read and List with payloads; and whatever kReadMetadata allows
  kPut,           // tuples that are no tasks
  kPutTask,       // tuples that are tasks, also as results; all inputs must be allowed by kRead
  kGet,
  kComplete,   // results that are no tasks
  kRetire,     // without a watermark
  kWatermark,  // Retire with one
};

// Allows `operations` on keys that match `pattern`. What names keys by a pattern (Read, Get, ...)
// is allowed if all that its pattern can match is matched by this one.
struct Rule {
  std::vector<Operation> operations;
  Pattern pattern;
  // This field of `pattern`, whatever stands there, must be the id of the asking client.
  std::optional<std::size_t> own_id_field;
  // Of a peer with a limit: this field, whatever stands there, must begin with the limit. A pattern
  // that leaves the field open asks for what the limit leaves of it, and is not refused.
  std::optional<std::size_t> limited_field = {};
  // What asks by a pattern must ask for one whole key: looking for more takes the broker's time.
  bool whole_keys = false;
};

struct Role {
  std::string name;
  std::vector<Rule> rules;  // what none of them allows is refused
  // In place of `rules` for peers with a limit. Empty: no such peer may have this role.
  std::vector<Rule> limited_rules = {};
  ClientLimits limits = {};
};

inline constexpr std::int64_t kNoEnd = INT64_MAX;

struct AllowedPeer {
  std::string name;  // unique; the ids of its clients begin with "NAME/"
  std::string public_key;
  std::string role;                    // the name of a Role
  std::string limit = {};              // see Rule::limited_field; empty: none
  std::int64_t until_unix_s = kNoEnd;  // from this second on the key counts no more
};

// "2027-01-01 00:00:00 UTC".
std::string TimeText(std::int64_t unix_s);

struct BrokerAccess {
  KeyPair keys;
  std::vector<Role> roles;
  std::vector<AllowedPeer> peers;
};

struct ClientAccess {
  std::string name;  // as the broker's list has it
  KeyPair keys;
  std::string broker_public_key;
  // What the broker's list said when the key was made; only the list itself counts.
  std::string limit = {};
  std::int64_t until_unix_s = kNoEnd;
};

}  // namespace tuplespace
