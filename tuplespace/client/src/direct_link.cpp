#include "direct_link.h"

#include <fmt/format.h>

#include <exception>
#include <utility>

#include "endpoint.h"
#include "tuplespace/clock.h"

namespace tuplespace {

namespace {
constexpr std::int64_t kSayFailedEveryUs = 30'000'000;
// Each may copy a payload from a device. In between, the client does its own work, such as
// extending its leases.
constexpr int kAskedAtOnce = 4;
}  // namespace

DirectLink::DirectLink(const ClientOptions& options, WakeUp& wake, DirectReads::Submit submit,
                       DirectReads::Submit read_again)
    : options_(options),
      wake_(wake),
      reads_({.submit = std::move(submit),
              .read_again = std::move(read_again),
              .fetch =
                  [this](std::uint64_t fetch, const FoundTuple& found) {
                    courier_->Fetch(fetch, found.key, found.payload_bytes, *found.place,
                                    found.put_by, found.hash);
                  },
              .forget = [this](std::uint64_t fetch) { courier_->Forget(fetch); },
              .now_us = [] { return MonotonicUs(); }}) {}

void DirectLink::NoteAddress(const std::string& address) {
  if (!address.empty()) address_ = address;
}

void DirectLink::Follow(std::uint64_t session, bool shares) {
  if (session == session_ && broker_us_ == 0) return;
  if (session == 0) {
    if (session_ != 0) courier_->SessionEnded();
    session_ = 0;
    listening_due_ = false;
    provided_.clear();
    return;
  }
  const std::int64_t broker_us = std::exchange(broker_us_, 0);
  if (!options_.direct || shares || broker_us == 0) return;
  if (!courier_ && !failed_) Open();
  if (!works()) return;
  courier_->SessionBegan(session, broker_us);
  listening_due_ = listening_due_ || session != session_;
  session_ = session;
}

void DirectLink::Open() {
  CourierOptions courier;
  courier.listen = options_.direct_listen;
  courier.address = address_;
  courier.client = options_.id;
  if (options_.access) courier.keys = options_.access->keys;
  try {
    if (courier.listen.empty()) {
      if (address_.empty()) throw std::runtime_error("its own address is not known");
      courier.listen = fmt::format("tcp://{}:*", address_);
    }
    courier_ = std::make_unique<Courier>(std::move(courier), wake_);
  } catch (const std::exception& error) {
    NoteNone(error.what());
  }
}

void DirectLink::ChangeId() {
  if (courier_) courier_->ChangeClient(options_.id);
}

void DirectLink::NoteNone(const std::string& why) {
  failed_ = true;
  if (on_problem_) {
    on_problem_(fmt::format("no direct transfers, all bytes go through the broker: {}", why));
  }
}

// The courier stays, because it still has to end the fetches that it was told of. The broker learns
// it in the next session, in which this client does not listen; until then readers are refused.
void DirectLink::OnDied(const std::string& why) {
  courier_->SessionEnded();  // frees what was offered
  session_ = 0;
  listening_due_ = false;
  provided_.clear();
  NoteNone(why);
}

std::optional<std::string> DirectListenProblem(const std::string& endpoint, bool has_access) {
  try {
    const std::string address = ListenAddress(endpoint, has_access);
    if (address.starts_with("tcp://")) return std::nullopt;
    return fmt::format("\"{}\" is not a tcp:// endpoint", endpoint);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
}

std::optional<Listening> DirectLink::TakeListening() {
  if (!std::exchange(listening_due_, false)) return std::nullopt;
  return courier_->listening();
}

void DirectLink::ReadDirectly(std::vector<FoundTuple> wanted, std::int64_t wait_us,
                              Client::ReplyHandler on_reply) {
  if (!works()) {  // places are of no use
    for (FoundTuple& tuple : wanted) tuple.place = nullptr;
  }
  reads_.Begin(std::move(wanted), wait_us, /*direct=*/works(), std::move(on_reply));
}

void DirectLink::Offer(const Key& key, Payload payload) {
  if (!listens()) return;
  provided_.insert(key);
  courier_->Offer(key, std::move(payload));
}

void DirectLink::Withdraw(const Key& key) {
  if (provided_.erase(key) > 0) courier_->Withdraw(key);
}

int DirectLink::HandleEvents() {
  if (!courier_) return 0;
  if (next_event_ == events_.size()) {
    events_ = courier_->TakeEvents();
    next_event_ = 0;
  }
  int handled = 0;
  for (int asked = 0; next_event_ < events_.size() && asked < kAskedAtOnce; ++handled) {
    if (std::holds_alternative<Courier::Asked>(events_[next_event_])) ++asked;
    HandleEvent(std::move(events_[next_event_++]));
  }
  return handled;
}

void DirectLink::HandleEvent(Courier::Event&& event) {
  if (auto* fetched = std::get_if<FetchedPayload>(&event)) {
    const bool failed =
        reads_.OnFetched(fetched->id, std::move(fetched->payload), fetched->ticket_expired);
    if (failed && !failed_) NoteFailed(fetched->why);
    return;
  }
  if (const auto* died = std::get_if<Courier::Died>(&event)) return OnDied(died->why);
  const Key& key = std::get<Courier::Asked>(event).key;
  Payload payload;
  try {
    if (on_asked_) payload = on_asked_(key);
  } catch (...) {
    courier_->Provide(key, {});  // otherwise the reader would wait
    throw;
  }
  if (!payload.empty()) provided_.insert(key);
  courier_->Provide(key, std::move(payload));
}

// Other clients cause it, so it is reported only once in a while.
void DirectLink::NoteFailed(const std::string& why) {
  const std::int64_t now_us = MonotonicUs();
  if (!on_problem_ || now_us < say_failed_at_us_) return;
  say_failed_at_us_ = now_us + kSayFailedEveryUs;
  on_problem_(fmt::format(
      "a payload comes through the broker, because it could not be fetched from its holder: {}",
      why));
}

DirectCounts DirectLink::counts() const {
  if (!courier_) return {};
  const CourierCounts counts = courier_->counts();
  return {.sent_payloads = counts.holder.sent_payloads,
          .sent_bytes = counts.holder.sent_bytes,
          .fetched_payloads = counts.fetched_payloads,
          .fetched_bytes = counts.fetched_bytes,
          .failed_fetches = counts.failed_fetches,
          .refused_tickets = counts.holder.forged + counts.holder.expired,
          .malformed = counts.holder.malformed};
}

}  // namespace tuplespace
