// Key files: the broker's, which has an access list, and a client's.
//
// Input: [1: the broker's file, else a client's: 1][file]
#include <cstring>

#include "acan/core/error.h"
#include "access_file.h"
#include "memory_file.h"
#include "scratch_folder.h"
#include "target.h"

namespace acan::fuzz::access_target {
namespace {

using cli::AccessFile;
using cli::BrokerFile;

constexpr std::uint64_t kBroker = 1;
// The example key pairs of ZeroMQ's manual, which protect nothing.
const tuplespace::KeyPair kKeys{"rq:rM>}U?@Lns47E1%kR.o@n%FcmmsL/@{H8]yf7",
                                "JTKVSB%%)wK0E.X)V>+}o?pNmC{O&4W4b!Ni{Lh6"};

void CheckBroker(const BrokerFile& file) {
  static const ScratchFolder folder;
  const std::string path = folder.Path("broker.key");
  cli::WriteBrokerFile(path, file, cli::Existing::kReplace);
  const BrokerFile again = cli::ReadBrokerFile(path);
  Require(again.keys.public_key == file.keys.public_key &&
              again.keys.secret_key == file.keys.secret_key &&
              again.peers.size() == file.peers.size(),
          "a broker's file changes when it is written and read");
  for (std::size_t i = 0; i < file.peers.size(); ++i) {
    const tuplespace::AllowedPeer &a = file.peers[i], &b = again.peers[i];
    Require(a.name == b.name && a.public_key == b.public_key && a.role == b.role,
            "entry {} changes when it is written and read", i);
  }
}

void CheckAccess(const AccessFile& file) {
  const ScratchFolder folder;
  cli::WriteAccessFile(folder.Path("access.key"), file);
  const AccessFile again = cli::ReadAccessFile(folder.Path("access.key"));
  Require(again.role == file.role && again.access.name == file.access.name &&
              again.access.broker_public_key == file.access.broker_public_key &&
              again.access.keys.public_key == file.access.keys.public_key &&
              again.access.keys.secret_key == file.access.keys.secret_key,
          "an access file changes when it is written and read");
}

bool Run(std::string_view input) {
  InputReader in(input);
  const bool broker = in.Number(1) == kBroker;
  const std::string_view bytes = in.Rest();
  const MemoryFile file(bytes);
  const HeapWatch heap;
  try {
    if (broker) {
      const BrokerFile read = cli::ReadBrokerFile(file.path());
      heap.RequireAtMost((1 << 20) + 1024 * bytes.size());
      CheckBroker(read);
    } else {
      const AccessFile read = cli::ReadAccessFile(file.path());
      heap.RequireAtMost((1 << 20) + 1024 * bytes.size());
      CheckAccess(read);
    }
    return true;
  } catch (const Error& refused) {
    heap.RequireAtMost((1 << 20) + 1024 * bytes.size());
    Require(refused.kind() == Error::Kind::kUsage && std::strlen(refused.what()) > 0, "{}",
            refused.what());
    return false;
  }
}

std::vector<Seed> Seeds() {
  const ScratchFolder folder;
  const std::string other = "Yne@$w-vo<fVvi]a<NY6T1ed:M$fCG*[IaLV{hID";
  cli::WriteBrokerFile(folder.Path("alone"), {kKeys, {}}, cli::Existing::kRefuse);
  cli::WriteBrokerFile(folder.Path("list"),
                       {kKeys, {{"one", kKeys.public_key, "handler"}, {"two", other, "manager"}}},
                       cli::Existing::kRefuse);
  cli::WriteAccessFile(folder.Path("access"), {"handler", {"one", kKeys, other}});
  const std::string flag = NumberBytes(kBroker, 1);
  return {{"broker", flag + folder.Read("alone")},
          {"broker-list", flag + folder.Read("list")},
          {"access", NumberBytes(0, 1) + folder.Read("access")}};
}

std::vector<Seed> Hostile() {
  const std::string dots = Repeated("a.", 300'000) + "a = 1\n";
  return {{"broker-dotted-key", NumberBytes(kBroker, 1) + dots},
          {"access-dotted-key", NumberBytes(0, 1) + dots}};
}

const Registration registration({"access", Run, Seeds, Hostile});

}  // namespace
}  // namespace acan::fuzz::access_target
