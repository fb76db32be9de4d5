#include "cluster/message_text.h"

#include <array>
#include <variant>

#include "fmt/format.h"

namespace acan::simulation {

using namespace tuplespace;  // NOLINT: this file is about its messages

namespace {

std::string TextOf(const LeaseRef& lease) {
  return fmt::format("{} under fence {}", lease.key.ToString(), lease.fence);
}

std::string TextOf(PutStatus status) {
  static constexpr std::array kNames = {"stored", "duplicate", "conflict", "retired", "refused"};
  return kNames.at(static_cast<std::size_t>(status));
}

std::string TextOf(LeaseStatus status) {
  return status == LeaseStatus::kOk ? "ok" : "stale";
}

template <class Values, class Text>
std::string Joined(const Values& values, Text text) {
  std::string joined;
  for (const auto& value : values) joined += " " + text(value);
  return joined;
}

std::string Statuses(const std::vector<PutStatus>& statuses) {
  return Joined(statuses, [](PutStatus status) { return TextOf(status); });
}

std::string Keys(const std::vector<Tuple>& tuples) {
  return Joined(tuples, [](const Tuple& tuple) {
    return tuple.key.ToString() + (tuple.task ? " (a task)" : "") +
           (tuple.resident_bytes > 0 ? " (stays)" : "");
  });
}

struct RequestText {
  std::string operator()(const Put& put) const { return "Put" + Keys(put.tuples); }
  std::string operator()(const Supply& supply) const { return "Supply" + Keys(supply.tuples); }
  std::string operator()(const Read& read) const {
    return "Read" + Joined(read.patterns, [](const Pattern& each) { return each.ToString(); });
  }
  std::string operator()(const List& list) const { return "List " + list.pattern.ToString(); }
  std::string operator()(const Count& count) const { return "Count " + count.pattern.ToString(); }
  std::string operator()(const Get& get) const {
    return fmt::format("Get {}, at most {}", get.pattern.ToString(), get.max_count);
  }
  std::string operator()(const Complete& complete) const {
    return "Complete " + TextOf(complete.lease) + " with" + Keys(complete.results);
  }
  std::string operator()(const Extend& extend) const {
    return fmt::format("Extend {} by {} us", TextOf(extend.lease), extend.lease_us);
  }
  std::string operator()(const Release& release) const {
    return "Release " + TextOf(release.lease);
  }
  std::string operator()(const Fail& fail) const {
    return "Fail " + TextOf(fail.lease) + ": " + fail.cause;
  }
  std::string operator()(const Retire& retire) const {
    return "Retire " + retire.pattern.ToString() + (retire.watermark ? " for good" : "");
  }
  std::string operator()(const Hold& hold) const {
    const auto text = [](const Key& key) { return key.ToString(); };
    return "Hold" + Joined(hold.held, text) + ", drop" + Joined(hold.dropped, text);
  }
  std::string operator()(const Cancel& cancel) const {
    return fmt::format("Cancel {}", cancel.request);
  }
  std::string operator()(const GetStats&) const { return "GetStats"; }
};

struct ReplyText {
  std::string operator()(const PutReply& reply) const { return "put:" + Statuses(reply.status); }
  std::string operator()(const Found& found) const {
    return "found" +
           Joined(found.tuples, [](const FoundTuple& tuple) { return tuple.key.ToString(); });
  }
  std::string operator()(const CountReply& reply) const {
    return fmt::format("count {}", reply.count);
  }
  std::string operator()(const Grants& grants) const {
    return "granted" + Joined(grants.grants, [](const Grant& grant) {
             return fmt::format("{} under fence {} for {} us", grant.key.ToString(), grant.fence,
                                grant.lease_us);
           });
  }
  std::string operator()(const CompleteReply& reply) const {
    return "complete: " + TextOf(reply.lease) + Statuses(reply.results);
  }
  std::string operator()(const LeaseReply& reply) const { return "lease: " + TextOf(reply.lease); }
  std::string operator()(const RetireReply& reply) const {
    return fmt::format("retired {}", reply.removed);
  }
  std::string operator()(const Ok&) const { return "ok"; }
  std::string operator()(const Stats&) const { return "statistics"; }
  std::string operator()(const RequestError& error) const { return "error: " + error.text; }
};

struct ClientText {
  std::string operator()(const Request& request) const {
    return fmt::format("#{} {}", request.id, std::visit(RequestText(), request.body));
  }
  std::string operator()(const Hello& hello) const { return fmt::format("Hello {}", hello.nonce); }
  std::string operator()(const Bye&) const { return "Bye"; }
  std::string operator()(const auto&) const { return ""; }
};

struct BrokerText {
  std::string operator()(const Reply& reply) const {
    return fmt::format("#{} {}", reply.id, std::visit(ReplyText(), reply.body));
  }
  std::string operator()(const Done& done) const {
    return "done:" + Joined(done.requests, [](RequestId id) { return fmt::format("#{}", id); });
  }
  std::string operator()(const Notice& notice) const {
    return fmt::format("notice of {} by {}: {}", notice.key.ToString(), notice.by, notice.text);
  }
  std::string operator()(const Welcome& welcome) const {
    return fmt::format("Welcome {}", welcome.nonce);
  }
  std::string operator()(const RequestError& error) const { return "error: " + error.text; }
  std::string operator()(const auto&) const { return ""; }
};

}  // namespace

std::string Describe(const ClientMessage& message) {
  return std::visit(ClientText(), message);
}

std::string Describe(const BrokerMessage& message) {
  return std::visit(BrokerText(), message);
}

}  // namespace acan::simulation
