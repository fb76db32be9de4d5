// NamedWaits: how long tasks are reserved for the clients that they name (TaskSpec::prefers). A
// client that does not come for such tasks must not delay each of them, so the time shrinks until
// it comes. The shrinkage is remembered by the client's key, or by its id if it has no key;
// otherwise a client could delay tasks for ever by joining again and again.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "space_state.h"

namespace tuplespace::internal {

class NamedWaits {
 public:
  explicit NamedWaits(SpaceState& state) : state_(state) {}

  void Begin(ClientState& client) const;  // the client has joined
  // `client` leaves. `is_waited_for`: tasks are reserved for it.
  void End(ClientState& client, bool is_waited_for);
  // How long a task that asks for `prefer_us` is reserved for `client` after it becomes ready.
  std::int64_t KeptUs(const ClientState& client, std::int64_t prefer_us) const;
  // NoteCame: it took a task that names it. NoteDidNotCome: another client took such a task late.
  static void NoteCame(ClientState& client);
  static void NoteDidNotCome(ClientState& client);

 private:
  struct Remembered {
    std::uint32_t kept_less = 0;  // ClientState::kept_less as of `since_us`
    std::int64_t since_us = 0;
  };
  std::uint32_t Left(const Remembered& of) const;
  void ForgetSome();

  SpaceState& state_;
  std::map<std::string, Remembered> remembered_;  // by principal, of clients that have left
};

}  // namespace tuplespace::internal
