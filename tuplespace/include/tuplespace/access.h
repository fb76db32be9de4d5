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

// What a request does. Extend, Store, Fail, Hold, Cancel and GetStats concern only what the client
// has already, or counts: every role may send them.
enum class Operation : std::uint8_t {
  kRead,     // Read, List, Count
  kPut,      // tuples that are no tasks
  kPutTask,  // tuples that are tasks, also as results
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
  // What asks by a pattern must ask for one whole key: looking for more takes the broker's time.
  bool whole_keys = false;
};

struct Role {
  std::string name;
  std::vector<Rule> rules;  // what none of them allows is refused
  ClientLimits limits = {};
};

struct AllowedPeer {
  std::string name;  // unique; the ids of its clients begin with "NAME/"
  std::string public_key;
  std::string role;  // the name of a Role
};

struct BrokerAccess {
  KeyPair keys;
  std::vector<Role> roles;
  std::vector<AllowedPeer> peers;
};

struct ClientAccess {
  std::string name;  // as the broker's list has it
  KeyPair keys;
  std::string broker_public_key;
};

}  // namespace tuplespace
