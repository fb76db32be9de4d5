// NamedWaits: for how long tasks are kept for the clients that they name (TaskSpec::prefers). A
// client that does not come for such tasks must not make each of them late, so they are kept for it
// ever less, until it comes. What it lost so stays with its key, or with its id where it has no
// key: else a client could make tasks wait for ever by joining again and again.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "space_state.h"

namespace tuplespace::internal {

class NamedWaits {
 public:
  explicit NamedWaits(SpaceState& state) : state_(state) {}

  void Begin(ClientState& client) const;  // which has joined
  // `client` leaves; `is_waited_for`: tasks are kept for it.
  void End(ClientState& client, bool is_waited_for);
  // For how long a task that asks for `prefer_us` is kept for `client`, from when it was ready.
  std::int64_t KeptUs(const ClientState& client, std::int64_t prefer_us) const;
  // It took a task that names it; another client took one, which was late.
  static void NoteCame(ClientState& client);
  static void NoteDidNotCome(ClientState& client);

 private:
  struct Remembered {
    std::uint32_t kept_less = 0;  // as of `since_us`
    std::int64_t since_us = 0;
  };
  std::uint32_t Left(const Remembered& of) const;
  void ForgetSome();

  SpaceState& state_;
  std::map<std::string, Remembered> remembered_;  // by principal, of clients that left
};

}  // namespace tuplespace::internal
