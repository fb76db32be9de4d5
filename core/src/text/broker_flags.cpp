#include "acan/core/text/broker_flags.h"

#include <array>
#include <string_view>

#include "fmt/format.h"

namespace acan {
namespace {

struct LimitFlag {
  std::string_view limit;  // and the colon after it: other limits begin with the same text
  std::string_view flag;
};

constexpr std::array kLimitFlags{
    LimitFlag{"limits.payload_bytes:", "--payloads, or ACAN_PAYLOADS,"},
    LimitFlag{"limits.tuples:", "--tuples"},
};

}  // namespace

std::string WithBrokerFlag(const std::string& text) {
  for (const auto& [limit, flag] : kLimitFlags) {
    if (text.find(limit) != std::string::npos) {
      return fmt::format("{} (acan broker {} is this limit)", text, flag);
    }
  }
  return text;
}

}  // namespace acan
