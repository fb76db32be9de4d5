#include "acan/manager/small_handlers.h"

#include "acan/core/text/size_text.h"
#include "acan/manager/excluded.h"
#include "fmt/format.h"

namespace acan {
namespace {

using tuplespace::ClientId;

constexpr std::int64_t kSameKeyAgainUs = 30'000'000;

}  // namespace

std::vector<std::string> SmallHandlers::Name(const std::map<std::string, Capacity>& present,
                                             std::uint64_t need_bytes) {
  std::erase_if(named_, [&](const ClientId& id) { return !present.contains(id); });
  std::erase_if(named_until_us_, [&](const auto& one) { return one.second <= now_us_; });
  std::map<ClientId, std::vector<ClientId>> by_owner;
  for (const auto& [id, capacity] : present) {
    if (capacity.memory_bytes >= need_bytes || named_.contains(id)) continue;
    if (!named_until_us_.contains(OwnerOf(id))) by_owner[OwnerOf(id)].push_back(id);
  }
  std::vector<std::string> lines;
  for (const auto& [owner, ids] : by_owner) {
    const Capacity& first = present.at(ids.front());
    lines.push_back(
        fmt::format("the largest task needs {}, this handler offers {}: {} takes only smaller ones",
                    SizeText(need_bytes), SizeText(first.memory_bytes), first.name));
    if (ids.size() > 1) {
      lines.back() += fmt::format(" (as do {} more of its key's handlers)", ids.size() - 1);
    }
    named_.insert(ids.begin(), ids.end());
    named_until_us_[owner] = now_us_ + kSameKeyAgainUs;
  }
  return lines;
}

}  // namespace acan
