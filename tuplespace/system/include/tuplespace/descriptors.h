// How many files (sockets, shared memory) this process may have open.
#pragma once

namespace tuplespace {

// As many as the system lets it: the soft limit becomes the hard one. Soft limits are 1024 in most
// places for the sake of select(), which nothing here uses; a broker serves a few hundred clients
// with so many. Call it before Brokers and Clients are made.
void RaiseDescriptorLimit();

}  // namespace tuplespace
