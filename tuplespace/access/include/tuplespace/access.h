// Who may join a space and what they may do: CURVE keys and roles. Plain values and pure functions.
// The library knows neither files nor the names of roles; its callers do.
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

// A random pair. Throws std::runtime_error if libzmq was built without CURVE.
KeyPair MakeKeyPair();
// nullopt if `text` is a key in Z85, otherwise what is wrong with it. Never quotes the text.
std::optional<std::string> KeyProblem(const std::string& text);
// nullopt if both are keys and the public key belongs to the secret one.
std::optional<std::string> KeyPairProblem(const KeyPair& keys);

inline constexpr std::size_t kMaxPeerNameBytes = 32;
// nullopt for 1..kMaxPeerNameBytes letters, digits, '.', '_' and '-'; otherwise what is wrong.
std::optional<std::string> PeerNameProblem(const std::string& name);

// What a request does. Every role may send Extend, Release, Fail, Cancel and GetStats, because they
// concern only what the client has already, or counts. A client that may get something may also
// hold what it may read, put or complete a task with.
enum class Operation : std::uint8_t {
  kReadMetadata,  // Read and List with metadata_only, and Count: keys, sizes, hashes, producers
  kRead,          // Read and List with payloads; also what kReadMetadata allows
  kPut,           // tuples that are not tasks
  kPutTask,       // tuples that are tasks, also as results; all inputs must be allowed by kRead
  kGet,
  kComplete,   // results that are not tasks
  kRetire,     // without a watermark
  kWatermark,  // Retire with a watermark
};

// Allows `operations` on keys that match `pattern`. A request with a pattern (Read, Get, ...) is
// allowed if this rule's pattern matches everything that the request's pattern can match.
struct Rule {
  std::vector<Operation> operations;
  Pattern pattern;
  // The index of the field of `pattern`, whatever its value, that must be the id of the requesting
  // client.
  std::optional<std::size_t> own_id_field;
  // For a peer with a limit: the index of the field, whatever its value, that must begin with the
  // limit. A request's pattern that leaves the field open is narrowed to the limit and not refused.
  std::optional<std::size_t> limited_field = {};
  // Requests with patterns must name one whole key, because searching takes the broker's time.
  bool whole_keys = false;
  // The maximum payload of a tuple that is put or completed under this rule.
  std::uint64_t payload_bytes = UINT64_MAX;
};

struct Role {
  std::string name;
  std::vector<Rule> rules;  // a request that none of them allows is refused
  // Replaces `rules` for peers with a limit. Empty: peers with a limit cannot have this role.
  std::vector<Rule> limited_rules = {};
  ClientLimits limits = {};
  // Replaces `limits` for peers with a limit, if set.
  std::optional<ClientLimits> limited_limits = {};
};

inline constexpr std::int64_t kNoEnd = INT64_MAX;

struct AllowedPeer {
  std::string name;  // unique; the ids of its clients begin with "NAME/"
  std::string public_key;
  std::string role;                    // the name of a Role
  std::string limit = {};              // see Rule::limited_field; empty: no limit
  std::int64_t until_unix_s = kNoEnd;  // the key is invalid from this second on
};

// A time in the form "2027-01-01 00:00:00 UTC".
std::string TimeText(std::int64_t unix_s);

struct BrokerAccess {
  KeyPair keys;
  std::vector<Role> roles;
  std::vector<AllowedPeer> peers;
};

struct ClientAccess {
  std::string name;  // as in the broker's list
  KeyPair keys;
  std::string broker_public_key;
  // What the broker's list said when the key was made. Only the list itself is authoritative.
  std::string limit = {};
  std::int64_t until_unix_s = kNoEnd;
};

}  // namespace tuplespace
