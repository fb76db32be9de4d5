// Sets how many files (sockets, shared memory) this process may have open.
#pragma once

namespace tuplespace {

// Raises the soft limit to the hard one. Soft limits are mostly 1024 for the sake of select(),
// which nothing here uses; with that many a broker can serve only a few hundred clients. Call it
// before creating Brokers and Clients.
void RaiseDescriptorLimit();

}  // namespace tuplespace
