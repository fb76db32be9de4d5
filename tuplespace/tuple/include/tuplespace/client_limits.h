// How much of a space one client may use. A role has limits of its own (access.h). A client that
// joins without a key has no limits, as it may do everything anyway.
#pragma once

#include <cstdint>

namespace tuplespace {

struct ClientLimits {
  // For its ephemeral tuples and their payloads. Results of tasks do not count, as they belong to
  // the task. If the client leaves nothing, those of all clients of its key together are limited,
  // too (SpaceLimits::own_part_of_key).
  std::uint64_t own_tuples = UINT64_MAX;
  std::uint64_t own_payload_bytes = UINT64_MAX;
  std::uint64_t open_patterns = UINT64_MAX;       // of all its waiting Reads together
  std::uint64_t open_pattern_bytes = UINT64_MAX;  // the memory that these patterns take
  // The same for all clients of its key together; patterns of waiting Reads that are not whole
  // keys; and keys whose arrival would end a Read, as each may use the place of a tuple.
  std::uint64_t open_pattern_bytes_of_key = UINT64_MAX;
  std::uint64_t read_patterns_of_key = UINT64_MAX;
  std::uint64_t watched_keys_of_key = UINT64_MAX;
  // Different patterns of Gets that the clients of its key began, all together, and apart from
  // them different whole keys. One that clients of another key began does not count, and one that
  // they use, too, still counts.
  std::uint64_t get_patterns_of_key = UINT64_MAX;
  std::uint64_t get_keys_of_key = UINT64_MAX;
  // Copies that all clients of its key together hold; the space does not remember more. Payloads
  // that stay with them count, but are always remembered.
  std::uint64_t held_keys_of_key = UINT64_MAX;
  // The broker's memory for answers that the clients of its key have not read yet, all together.
  std::uint64_t unread_bytes_of_key = UINT64_MAX;
  // The space's memory for what unfinished Lists of all clients of its key have found.
  std::uint64_t listed_bytes_of_key = UINT64_MAX;
  // Reads and Gets that wait, Lists and Counts in progress.
  std::uint64_t open_requests = UINT64_MAX;
  std::uint64_t open_gets = UINT64_MAX;  // Gets that wait
  std::uint64_t leases = UINT64_MAX;
  // Not the default: this client only borrows plain tuples, for which others wait, too. A lease of
  // one ends this time after it began, however often it is extended. The client cannot complete it.
  // A Get brings it a plain tuple only if it names the whole key; all others bring tasks only. Of
  // the Gets that name one whole key the client may have one open, and only while it has not
  // borrowed that tuple, so that it queues behind those that wait when it gives the tuple back.
  std::int64_t borrow_us = INT64_MAX;
  std::uint64_t per_request = UINT64_MAX;  // tuples, patterns, keys or grants of one request
  // Everything that it puts is ephemeral, whatever it says, because no other client would remove
  // it. See also SpaceLimits::asked_ahead_bytes.
  bool leaves_nothing = false;
  // The broker compares the payloads that it puts with their hashes, except those in shared memory,
  // and refuses those that differ (kDamaged). If they are results of a task, the task has failed.
  // Otherwise the readers would find out, and could not do their tasks.
  bool checks_payloads = false;
  // Watermarks that clients of its key raised; beyond that, the one of these that was raised
  // longest ago is dropped.
  std::uint64_t watermarks_of_key = UINT64_MAX;
  // Only with `judges_apart`: different lists TaskSpec::not_by, without the empty one, of the tasks
  // of its key that are not done. As many different lists of clients may wait until others have
  // tried a task of its key that failed on them; beyond that, such a task is kept from nobody. Each
  // list costs every Get a look.
  std::uint64_t exclusions_of_key = UINT64_MAX;
  // What others do with the tasks of its key counts only for these tasks: who keeps them without
  // doing them gets none of them for a while, and all others. For clients that decide only about
  // some tasks, and must not be able to keep the others from anybody.
  bool judges_apart = false;
};

}  // namespace tuplespace
