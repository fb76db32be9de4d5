// NamedWaits: how long tasks are reserved for the clients that they name (TaskSpec::prefers). A
// client that does not come for such tasks must not delay each of them, so the time shrinks until
// it comes. The shrinkage is remembered by the client's key, or by its id if it has no key;
// otherwise a client could delay tasks for ever by joining again and again.
//
// The tasks of each judge count apart (empty: those that have none). Otherwise a judge could name a
// client that does not come for its tasks, and so shorten the reservations of all other tasks.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "space_state.h"

namespace tuplespace::internal {

class NamedWaits {
 public:
  explicit NamedWaits(SpaceState& state) : state_(state) {}

  void Begin(ClientState& client) const;  // the client has joined
  // `client` leaves. `waited_for_by`: tasks of these judges are reserved for it.
  void End(ClientState& client, const std::set<std::string>& waited_for_by);
  // How long a task of this judge that asks for `prefer_us` is reserved for `client` after it
  // becomes ready.
  std::int64_t KeptUs(const ClientState& client, std::string_view judge,
                      std::int64_t prefer_us) const;
  // NoteCame: it took a task of this judge that names it. NoteDidNotCome: another client took such
  // a task late.
  static void NoteCame(ClientState& client, std::string_view judge);
  static void NoteDidNotCome(ClientState& client, std::string_view judge);

 private:
  struct Remembered {
    std::uint32_t kept_less = 0;  // of ClientState::kept_less, as of `since_us`
    std::int64_t since_us = 0;
  };
  std::uint32_t Left(const Remembered& of) const;
  void ForgetSome();

  SpaceState& state_;
  // Of clients that have left, by principal and judge.
  std::map<std::pair<std::string, std::string>, Remembered> remembered_;
};

}  // namespace tuplespace::internal
