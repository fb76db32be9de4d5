#include "acan/manager/run_state.h"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

#include "acan/core/text/json_text.h"
#include "acan/manager/contributors.h"
#include "nlohmann/json.hpp"
#include "tuplespace/messages.h"

namespace acan {
namespace {

// Such counts can be added without limit: the sum stays at this.
constexpr std::uint64_t kMaxCounted = std::uint64_t{1} << 62;

void Add(std::uint64_t more, std::uint64_t* sum) {
  *sum = std::min(*sum + more, kMaxCounted);
}

void Add(std::int64_t more, std::int64_t* sum) {
  auto unsigned_sum = static_cast<std::uint64_t>(*sum);
  Add(static_cast<std::uint64_t>(more), &unsigned_sum);
  *sum = static_cast<std::int64_t>(unsigned_sum);
}

nlohmann::json NumbersOf(const HandlerSeen& handler) {
  return {{"capacity_bytes", handler.capacity_bytes},
          {"peak_bytes", handler.peak_bytes},
          {"tasks", handler.tasks},
          {"fetched_bytes", handler.fetched_bytes}};
}

void AddFields(const HandlerTotals& totals, nlohmann::json* fields) {
  for (const auto& [id, handler] : totals.by_id) {
    nlohmann::json one = NumbersOf(handler);
    one["id"] = id;
    one["name"] = handler.name;
    one["device"] = handler.device;
    (*fields)["handlers"].push_back(std::move(one));
  }
  if (totals.other_count == 0) return;
  nlohmann::json others = NumbersOf(totals.others);
  others["count"] = totals.other_count;
  (*fields)["other_handlers"] = std::move(others);
}

// As of nlohmann::json::at: throws nlohmann::json::exception.
std::uint64_t CountIn(const nlohmann::json& object, const char* name, bool* good) {
  const nlohmann::json& value = object.at(name);
  *good = *good && value.is_number_unsigned() && value.get<std::uint64_t>() <= kMaxCounted;
  return *good ? value.get<std::uint64_t>() : 0;
}

HandlerSeen NumbersIn(const nlohmann::json& object, bool* good) {
  HandlerSeen handler;
  handler.capacity_bytes = CountIn(object, "capacity_bytes", good);
  handler.peak_bytes = CountIn(object, "peak_bytes", good);
  handler.tasks = static_cast<std::int64_t>(CountIn(object, "tasks", good));
  handler.fetched_bytes = CountIn(object, "fetched_bytes", good);
  return handler;
}

// States of earlier releases do not have these fields.
HandlerTotals TotalsIn(const nlohmann::json& fields, bool* good) {
  HandlerTotals totals;
  if (fields.contains("handlers")) {
    for (const nlohmann::json& one : fields.at("handlers")) {
      HandlerSeen handler = NumbersIn(one, good);
      handler.name = one.at("name").get<std::string>();
      handler.device = one.at("device").get<std::string>();
      totals.by_id.emplace(one.at("id").get<std::string>(), std::move(handler));
    }
  }
  if (fields.contains("other_handlers")) {
    const nlohmann::json& others = fields.at("other_handlers");
    totals.others = NumbersIn(others, good);
    totals.other_count = static_cast<std::int64_t>(CountIn(others, "count", good));
  }
  *good = *good && totals.by_id.size() <= HandlerTotals::kMaxKept;
  return totals;
}

}  // namespace

void HandlerTotals::PutTogether(const std::string& id) {
  const HandlerSeen& one = by_id.at(id);
  others.capacity_bytes = std::max(others.capacity_bytes, one.capacity_bytes);
  others.peak_bytes = std::max(others.peak_bytes, one.peak_bytes);
  Add(one.tasks, &others.tasks);
  Add(one.fetched_bytes, &others.fetched_bytes);
  Add(1, &other_count);
  by_id.erase(id);
}

std::int64_t HandlerTotals::tasks() const {
  std::int64_t sum = others.tasks;
  for (const auto& [id, handler] : by_id) Add(handler.tasks, &sum);
  return sum;
}

bool RunState::HasUnconfirmedOf(const DoubtfulKeys& keys) const {
  if (version == 0) return false;
  return std::any_of(contributors.begin(), contributors.end(), [&](const std::string& one) {
    const auto key = keys.find(one);
    return key != keys.end() && failures <= key->second;
  });
}

bool RunState::MayDependOn(const std::set<std::string>& wrong) const {
  return !ContributorsAmong(wrong).empty();
}

// States of earlier releases may name any number of contributors, and `names` may be as many.
std::set<std::string> RunState::ContributorsAmong(const std::set<std::string>& names) const {
  if (version == 0) return {};
  if (unnamed_contributors) return names;
  const std::set<std::string_view> named(contributors.begin(), contributors.end());
  std::set<std::string_view> keys, keys_of_clients;
  for (const std::string_view one : named) {
    const std::string_view key = tuplespace::KeyPrefixOf(one);
    keys.insert(key);
    if (one != key) keys_of_clients.insert(key);
  }
  std::set<std::string> among;
  for (const std::string& name : names) {
    const std::string all = Contributors::AllClientsOf(name);
    const bool is_all = name == all && keys_of_clients.contains(tuplespace::KeyPrefixOf(name));
    if (is_all || named.contains(name) || named.contains(all) || keys.contains(name)) {
      among.insert(name);
    }
  }
  return among;
}

std::string TextOf(const RunState& state) {
  nlohmann::json fields = {{"version", state.version},
                           {"tasks_done", state.tasks_done},
                           {"seconds", state.seconds},
                           {"failures", state.failures},
                           {"audit_share", state.audit_share}};
  if (state.losses != state.failures) fields["losses"] = state.losses;
  if (!state.audited) fields["audited"] = false;
  if (!state.contributors.empty()) fields["contributors"] = state.contributors;
  if (state.unnamed_contributors) fields["unnamed_contributors"] = true;
  if (state.audits_passed > 0) fields["audits_passed"] = state.audits_passed;
  if (state.audits_skipped > 0) fields["audits_skipped"] = state.audits_skipped;
  AddFields(state.handlers, &fields);
  if (state.tasks_reissued > 0) fields["tasks_reissued"] = state.tasks_reissued;
  if (state.tasks_duplicated > 0) fields["tasks_duplicated"] = state.tasks_duplicated;
  if (!state.begun) fields["begun"] = false;
  for (const ResultConflict& conflict : state.conflicts) {
    fields["conflicts"].push_back({{"key", conflict.key}, {"text", conflict.text}});
  }
  if (state.train_loss && std::isfinite(*state.train_loss))
    fields["train_loss"] = *state.train_loss;
  // Names and the texts of conflicts contain words that handlers choose.
  return JsonTextReplacing(fields);
}

std::optional<RunState> ParseRunState(const std::string& text) {
  const nlohmann::json fields = ParseJsonOrDiscard(text);
  try {
    bool good = true;
    const auto count = [&](const char* name) -> std::int64_t {
      const nlohmann::json& value = fields.at(name);
      good = good && value.is_number_unsigned() && value.get<std::uint64_t>() <= INT64_MAX;
      return good ? value.get<std::int64_t>() : 0;
    };
    RunState state;
    state.version = count("version");
    state.tasks_done = count("tasks_done");
    state.seconds = fields.at("seconds").get<double>();
    state.failures = count("failures");
    state.losses = fields.contains("losses") ? count("losses") : state.failures;
    if (fields.contains("contributors")) {
      state.contributors = fields.at("contributors").get<std::vector<std::string>>();
    }
    // A state of an earlier release does not say which of its lives had audits, and names nobody
    // who contributed in lives without them.
    const bool says_share = fields.contains("audit_share");
    if (says_share) state.audit_share = fields.at("audit_share").get<double>();
    good = good && state.audit_share >= 0 && state.audit_share <= 1;
    state.unnamed_contributors =
        fields.value("unnamed_contributors", !says_share && state.version > 0);
    state.audited = fields.value("audited", true);
    if (fields.contains("audits_passed")) state.audits_passed = count("audits_passed");
    if (fields.contains("audits_skipped")) state.audits_skipped = count("audits_skipped");
    state.handlers = TotalsIn(fields, &good);
    if (fields.contains("tasks_reissued")) state.tasks_reissued = count("tasks_reissued");
    if (fields.contains("tasks_duplicated")) state.tasks_duplicated = count("tasks_duplicated");
    state.begun = fields.value("begun", true);
    if (fields.contains("conflicts")) {
      for (const nlohmann::json& one : fields.at("conflicts")) {
        state.conflicts.push_back(
            {one.at("key").get<std::string>(), one.at("text").get<std::string>()});
      }
    }
    if (fields.contains("train_loss")) state.train_loss = fields.at("train_loss").get<double>();
    if (!good) return std::nullopt;
    return state;
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  }
}

}  // namespace acan
