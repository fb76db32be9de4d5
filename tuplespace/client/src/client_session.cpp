#include "client_session.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "seconds_text.h"
#include "tuplespace/client.h"
#include "tuplespace/planted.h"
#include "wire.h"

namespace tuplespace {

namespace {

// Pings in each silence time: two may be lost or late.
constexpr std::int64_t kPingsPerSilence = 4;
constexpr std::uint64_t kRequestOverheadBytes = 256;
constexpr std::int64_t kSayBusyEveryUs = 30'000'000;
// An answer may take this long, and a broker may be away this long, before it is reported.
constexpr std::int64_t kAnswerPatienceUs = 7'000'000;
constexpr std::int64_t kLookUnansweredEveryUs = 1'000'000;
// The space itself ends the wait of a Read or Get, and that answer needs time to arrive.
constexpr std::int64_t kAnswerGraceUs = 250'000;
// After a part of a message the next one may take this long over a slow link.
constexpr std::int64_t kNextPartUs = 5'000'000;
// A client that is never idle sends Pings, too, because only a Pong has the broker's clock.
constexpr std::int64_t kClockEveryUs = 60'000'000;

std::int64_t After(std::int64_t now_us, std::int64_t wait_us) {
  return wait_us >= kForeverUs - now_us ? kForeverUs : now_us + wait_us;
}

const std::vector<Tuple>* TuplesOf(const RequestBody& body) {
  if (const auto* put = std::get_if<Put>(&body)) return &put->tuples;
  if (const auto* complete = std::get_if<Complete>(&body)) return &complete->results;
  if (const auto* supply = std::get_if<Supply>(&body)) return &supply->tuples;
  return nullptr;
}

std::uint64_t KeptBytes(const RequestBody& body) {
  std::uint64_t bytes = kRequestOverheadBytes + ControlBytesBound(body);
  if (const auto* tuples = TuplesOf(body)) {
    for (const Tuple& tuple : *tuples) bytes += tuple.payload.size();
  }
  return bytes;
}

struct NameOfRequest {
  const char* operator()(const Put&) const { return "Put"; }
  const char* operator()(const Read&) const { return "Read"; }
  const char* operator()(const Get&) const { return "Get"; }
  const char* operator()(const Complete&) const { return "Complete"; }
  const char* operator()(const Supply&) const { return "Supply"; }
  const char* operator()(const List&) const { return "List"; }
  const char* operator()(const Count&) const { return "Count"; }
  const char* operator()(const Retire&) const { return "Retire"; }
  const char* operator()(const GetStats&) const { return "Stats"; }
  const char* operator()(const auto&) const { return "request"; }
};

std::int64_t* WaitOf(RequestBody& body) {
  if (auto* read = std::get_if<Read>(&body)) return &read->wait_us;
  if (auto* get = std::get_if<Get>(&body)) return &get->wait_us;
  return nullptr;
}

std::optional<LeaseRef>* UnderOf(RequestBody& body) {
  if (auto* put = std::get_if<Put>(&body)) return &put->under;
  if (auto* retire = std::get_if<Retire>(&body)) return &retire->under;
  return nullptr;
}

}  // namespace

ClientSession::ClientSession(SessionOptions options)
    : options_(std::move(options)),
      joining_{.nonce = options_.first_nonce, .timeout_us = options_.hello_timeout_us} {}

RequestId ClientSession::Submit(RequestBody body, std::int64_t now_us) {
  std::optional<LeaseRef>* const under = UnderOf(body);
  if (under != nullptr && !*under) *under = requests_.under;
  const std::uint64_t bytes = KeptBytes(body);
  if (bytes >
      options_.unanswered_bytes - std::min(requests_.kept_bytes, options_.unanswered_bytes)) {
    throw SpaceError(
        ErrorCode::kBusy,
        fmt::format("the unanswered requests of this client hold {} bytes and this one "
                    "{} more, over the limit unanswered_bytes = {}: wait for answers",
                    requests_.kept_bytes, bytes, options_.unanswered_bytes));
  }
  return Insert(std::move(body), /*internal=*/false, now_us);
}

RequestId ClientSession::ReadAgain(Read read, std::int64_t now_us) {
  return Insert(std::move(read), /*internal=*/false, now_us);
}

RequestId ClientSession::Insert(RequestBody body, bool internal, std::int64_t now_us) {
  const std::uint64_t bytes = KeptBytes(body);
  const RequestId id = requests_.next_id++;
  Pending& pending = requests_.pending[id];
  pending.request.id = id;
  pending.request.body = std::move(body);
  pending.bytes = bytes;
  pending.internal = internal;
  if (internal) ++requests_.internal_count;
  requests_.kept_bytes += bytes;
  if (const std::int64_t* wait_us = WaitOf(pending.request.body)) {
    pending.deadline_us = After(now_us, *wait_us);
  }
  if (state_ == State::kJoined) Queue(id, pending);
  return id;
}

void ClientSession::Erase(std::unordered_map<RequestId, Pending>::iterator it) {
  requests_.kept_bytes -= it->second.bytes;
  if (it->second.internal) --requests_.internal_count;
  requests_.pending.erase(it);
}

void ClientSession::Queue(RequestId id, Pending& pending) {
  if (pending.queued) return;
  pending.queued = true;
  requests_.to_send.push_back(id);
}

void ClientSession::Replace(RequestId id, Get get, std::int64_t now_us) {
  const auto it = requests_.pending.find(id);
  if (it == requests_.pending.end() || !std::holds_alternative<Get>(it->second.request.body))
    return;
  Pending& pending = it->second;
  requests_.kept_bytes -= pending.bytes;
  pending.deadline_us = After(now_us, get.wait_us);
  pending.request.body = std::move(get);
  pending.bytes = KeptBytes(pending.request.body);
  requests_.kept_bytes += pending.bytes;
  if (state_ == State::kJoined && !pending.backing_off) Queue(id, pending);
}

void ClientSession::Abandon(RequestId id, std::int64_t now_us) {
  const auto it = requests_.pending.find(id);
  if (it == requests_.pending.end()) return;
  const bool open = it->second.sent > 0 && WaitOf(it->second.request.body) != nullptr;
  Erase(it);
  if (open && state_ == State::kJoined) Insert(Cancel{id}, /*internal=*/true, now_us);
}

void ClientSession::Leave() {
  if (state_ == State::kJoined) bye_due_ = true;
  if (state_ != State::kFailed) state_ = State::kLeft;
}

void ClientSession::Heard(std::int64_t now_us) {
  NoteHeard(now_us);
  link_.part_at_us = now_us;
}

void ClientSession::NoteHeard(std::int64_t now_us) {
  link_.heard_at_us = now_us;
  link_.ping_sent_at_us = kForeverUs;
}

void ClientSession::Receive(ToClient&& envelope, std::int64_t now_us) {
  for (BrokerMessage& message : envelope.messages) {
    if (state_ != State::kJoining && state_ != State::kJoined) return;
    // A message that is not of this session, such as a connection probe, does not prove that the
    // broker knows the session.
    if (state_ == State::kJoining || envelope.session == welcome_.session) NoteHeard(now_us);
    if (const auto* welcome = std::get_if<Welcome>(&message)) {
      OnWelcome(*welcome, now_us);
    } else if (auto* error = std::get_if<RequestError>(&message)) {
      OnSessionError(std::move(*error), envelope.session, now_us);
    } else if (state_ != State::kJoined || envelope.session != welcome_.session) {
      continue;  // of an earlier session: this one gets its own answer
    } else if (auto* reply = std::get_if<Reply>(&message)) {
      OnReply(std::move(*reply), now_us);
    } else if (const auto* done = std::get_if<Done>(&message)) {
      for (const RequestId id : done->requests) OnDone(id, now_us);
    } else if (auto* notice = std::get_if<Notice>(&message)) {
      events_.emplace_back(std::move(*notice));
    } else if (std::holds_alternative<Goodbye>(message)) {
      LinkDown("the broker ended", now_us);
    }
  }
}

void ClientSession::ReceiveBad(const RequestError& error) {
  Fail(error);
}

void ClientSession::OnWelcome(const Welcome& welcome, std::int64_t now_us) {
  if (state_ != State::kJoining || welcome.nonce != joining_.nonce) return;
  state_ = State::kJoined;
  welcome_ = welcome;
  link_.joined_at_us = link_.sent_at_us = now_us;
  link_.clock_asked_at_us = now_us;  // the Welcome has the clock, too
  delays_.alone_since_us = kForeverUs;
  joining_.hello_due = false;
  joining_.deadline_us = joining_.retry_at_us = kForeverUs;
  joining_.timeout_us = options_.hello_timeout_us;
  joining_.ignored = 0;
  joining_.busy_delay_us = 0;
  requests_.to_send.clear();
  requests_.retries.clear();
  for (auto& [id, pending] : requests_.pending) {
    if (IsPlanted(Planted::kSessionDoesNotResend) && pending.sent > 0) continue;
    pending.queued = true;
    pending.backing_off = false;
    pending.sent = 0;
    requests_.to_send.push_back(id);
  }
  std::sort(requests_.to_send.begin(), requests_.to_send.end());
  events_.emplace_back(ConnectionChanged{true, "welcome"});
}

void ClientSession::OnSessionError(RequestError&& error, std::uint64_t session,
                                   std::int64_t now_us) {
  if (error.code == ErrorCode::kHelloRequired) {
    if (state_ != State::kJoined || session != welcome_.session) return;
    events_.emplace_back(ConnectionChanged{false, error.text});
    delays_.alone_since_us = now_us;
    BeginHello(now_us);
  } else if (error.code == ErrorCode::kBusy) {
    if (state_ != State::kJoining) return;
    joining_.ignored = 0;
    joining_.busy_delay_us = std::clamp(2 * joining_.busy_delay_us, options_.min_busy_delay_us,
                                        options_.max_busy_delay_us);
    joining_.retry_at_us = now_us + joining_.busy_delay_us;
    joining_.deadline_us = kForeverUs;
    delays_.alone_since_us = now_us;  // there is a broker
    NoteBusy(joining_.busy_delay_us, "it admits no further client for the moment: " + error.text,
             now_us);
  } else {
    Fail(error);
  }
}

// At most once in kSayBusyEveryUs, for a back-off that has reached its maximum.
void ClientSession::NoteBusy(std::int64_t busy_delay_us, std::string text, std::int64_t now_us) {
  if (busy_delay_us < options_.max_busy_delay_us || now_us < delays_.say_busy_at_us) return;
  delays_.say_busy_at_us = After(now_us, kSayBusyEveryUs);
  events_.emplace_back(RequestDelayed{std::move(text)});
}

// Once until there is a broker again.
void ClientSession::NoteAlone(std::int64_t now_us) {
  if (unanswered() == 0 || now_us < AloneDueUs()) return;
  events_.emplace_back(
      RequestDelayed{fmt::format("no answer for {} s; waiting requests: {}",
                                 (now_us - delays_.alone_since_us) / 1'000'000, unanswered())});
  delays_.alone_since_us = kForeverUs;
}

// There is a session, but the broker is silent or does not answer a request. A Read or Get may wait
// for its tuples as long as it says.
void ClientSession::NoteUnanswered(std::int64_t now_us) {
  if (now_us < delays_.look_unanswered_at_us) return;
  delays_.look_unanswered_at_us = now_us + kLookUnansweredEveryUs;
  const auto say = [&](std::string text) {
    delays_.look_unanswered_at_us = now_us + kSayBusyEveryUs;
    events_.emplace_back(RequestDelayed{std::move(text)});
  };
  const bool silent =
      link_.ping_sent_at_us != kForeverUs && now_us - link_.heard_at_us >= kAnswerPatienceUs;
  if (silent && unanswered() > 0) {
    return say(fmt::format("nothing was heard from it for {} s; waiting requests: {}",
                           (now_us - link_.heard_at_us) / 1'000'000, unanswered()));
  }
  for (auto& [id, pending] : requests_.pending) {
    if (pending.sent == 0 || pending.queued) continue;
    const bool waits = WaitOf(pending.request.body) != nullptr;
    const std::int64_t from_us =
        waits ? std::max(pending.sent_at_us, pending.deadline_us) : pending.sent_at_us;
    if (now_us - from_us < kAnswerPatienceUs) continue;
    return say(fmt::format("it has not answered a {} for {} s; waiting requests: {}",
                           std::visit(NameOfRequest(), pending.request.body),
                           (now_us - from_us) / 1'000'000, unanswered()));
  }
}

void ClientSession::Fail(const RequestError& error) {
  if (state_ == State::kJoined) events_.emplace_back(ConnectionChanged{false, error.text});
  state_ = State::kFailed;
  failure_ = error;
}

std::int64_t ClientSession::AloneDueUs() const {
  return unanswered() == 0 ? kForeverUs : After(delays_.alone_since_us, kAnswerPatienceUs);
}

std::int64_t ClientSession::PingDueUs() const {
  if (state_ != State::kJoined || link_.ping_due_at_us != kForeverUs ||
      link_.ping_sent_at_us != kForeverUs) {
    return kForeverUs;
  }
  // Both directions count: the broker must hear the client, and the client must hear the broker.
  return std::min(
      std::min(link_.heard_at_us, link_.sent_at_us) + welcome_.silence_us / kPingsPerSilence,
      link_.clock_asked_at_us + kClockEveryUs);
}

// For output that is not taken: the broker has ended this session and cannot say so, or is gone.
std::int64_t ClientSession::StuckUs() const {
  if (link_.ping_due_at_us == kForeverUs) return kForeverUs;
  return std::max({link_.ping_due_at_us, link_.heard_at_us, link_.moved_at_us}) +
         welcome_.silence_us;
}

void ClientSession::Tick(std::int64_t now_us) {
  if (state_ == State::kNoLink && now_us >= link_.relink_at_us) {
    link_.relink_at_us = kForeverUs;
    events_.emplace_back(RelinkWanted{});
  }
  if (state_ == State::kJoining && now_us >= joining_.retry_at_us) BeginHello(now_us);
  if (state_ == State::kJoining && now_us >= joining_.deadline_us) {
    joining_.timeout_us = std::min(2 * joining_.timeout_us, MostHelloTimeoutUs());
    if (joining_.established) ++joining_.ignored;
    LinkDown("no welcome", now_us);
  }
  if (state_ == State::kNoLink || state_ == State::kJoining) NoteAlone(now_us);
  if (state_ != State::kJoined) return;
  NoteUnanswered(now_us);
  if (link_.ping_sent_at_us != kForeverUs &&
      now_us - link_.ping_sent_at_us >= welcome_.silence_us) {
    LinkDown(fmt::format("nothing heard from the broker for {}", SecondsText(welcome_.silence_us)),
             now_us);
    return;
  }
  if (now_us >= StuckUs()) {
    LinkDown(fmt::format("the broker accepted nothing for {}", SecondsText(welcome_.silence_us)),
             now_us);
    return;
  }
  if (now_us >= PingDueUs()) link_.ping_due_at_us = now_us;
  while (!requests_.retries.empty() && requests_.retries.begin()->first <= now_us) {
    const RequestId id = requests_.retries.begin()->second;
    requests_.retries.erase(requests_.retries.begin());
    const auto it = requests_.pending.find(id);
    if (it == requests_.pending.end()) continue;
    it->second.backing_off = false;
    Queue(id, it->second);
  }
}

std::int64_t ClientSession::NextDeadlineUs() const {
  switch (state_) {
    case State::kNoLink:
      return std::min(link_.relink_at_us, AloneDueUs());
    case State::kJoining:
      return std::min({joining_.deadline_us, joining_.retry_at_us, AloneDueUs()});
    case State::kJoined: {
      std::int64_t next_us = std::min(PingDueUs(), StuckUs());
      if (link_.ping_sent_at_us != kForeverUs)
        next_us = link_.ping_sent_at_us + welcome_.silence_us;
      if (link_.ping_sent_at_us != kForeverUs && unanswered() > 0) {
        next_us = std::min(next_us, std::max(delays_.look_unanswered_at_us,
                                             link_.ping_sent_at_us + kLookUnansweredEveryUs));
      }
      if (!requests_.retries.empty()) next_us = std::min(next_us, requests_.retries.begin()->first);
      return next_us;
    }
    case State::kFailed:
    case State::kLeft:
      break;
  }
  return kForeverUs;
}

// While parts of messages come, the answer may be one of these messages or follow them. Giving up
// would waste the bytes, and the answer to the next attempt would queue behind them.
std::int64_t ClientSession::GiveUpUs(RequestId id, std::int64_t deadline_us) const {
  if (state_ != State::kJoined) return deadline_us;
  const std::int64_t late_us = After(deadline_us, kAnswerGraceUs);
  const auto it = requests_.pending.find(id);
  if (it == requests_.pending.end() || it->second.sent == 0) return late_us;
  return std::max(late_us, link_.part_at_us + kNextPartUs);
}

bool ClientSession::HasOutput() const {
  return joining_.hello_due || bye_due_ ||
         (state_ == State::kJoined &&
          (link_.ping_due_at_us != kForeverUs || !requests_.to_send.empty()));
}

std::optional<RequestError> ClientSession::TooLarge(const Pending& pending) const {
  const RequestBody& body = pending.request.body;
  const std::size_t control_bytes = ControlBytesBound(body);
  if (control_bytes > welcome_.control_frame_bytes) {
    return RequestError{
        ErrorCode::kTooLarge,
        fmt::format("the request needs up to {} bytes of control frame, the broker takes "
                    "{}: cut it into several",
                    control_bytes, welcome_.control_frame_bytes)};
  }
  const std::size_t frames = PayloadFramesBound(body);
  if (frames > kMaxPayloadFrames) {
    return RequestError{
        ErrorCode::kTooLarge,
        fmt::format("the request has {} payloads above {} bytes, at most {} go into one", frames,
                    kInlinePayloadBytes, kMaxPayloadFrames)};
  }
  if (const auto* tuples = TuplesOf(body)) {
    for (const Tuple& tuple : *tuples) {
      if (tuple.payload.size() <= welcome_.message_bytes) continue;
      return RequestError{
          ErrorCode::kTooLarge,
          fmt::format("tuple {} has a payload of {} bytes, the broker takes message_bytes "
                      "= {}",
                      tuple.key.ToString(), tuple.payload.size(), welcome_.message_bytes)};
    }
  }
  return std::nullopt;
}

ClientSession::Output ClientSession::TakeOutput(std::int64_t now_us) {
  Output output;
  if (bye_due_) {
    output.session = welcome_.session;
    output.messages.emplace_back(Bye{});
    bye_due_ = false;
    return output;
  }
  if (joining_.hello_due) {
    output.messages.emplace_back(Hello{joining_.nonce, options_.name});
    joining_.hello_due = false;
    return output;
  }
  if (state_ != State::kJoined) return output;
  output.session = welcome_.session;
  if (link_.ping_due_at_us != kForeverUs) {
    output.messages.emplace_back(Ping{});
    link_.ping_due_at_us = kForeverUs;
    link_.ping_sent_at_us = link_.clock_asked_at_us = now_us;
  }
  output.messages.reserve(output.messages.size() + requests_.to_send.size());
  for (const RequestId id : requests_.to_send) {
    const auto it = requests_.pending.find(id);
    if (it == requests_.pending.end()) continue;
    Pending& pending = it->second;
    pending.queued = false;
    if (auto error = TooLarge(pending)) {
      events_.emplace_back(Reply{id, *std::move(error)});
      Erase(it);
      continue;
    }
    if (std::int64_t* wait_us = WaitOf(pending.request.body);
        wait_us != nullptr && pending.deadline_us != kForeverUs) {
      *wait_us = std::max<std::int64_t>(0, pending.deadline_us - now_us);
    }
    ++pending.sent;
    pending.sent_at_us = now_us;
    output.messages.emplace_back(&pending.request);
  }
  requests_.to_send.clear();
  if (!output.messages.empty()) link_.sent_at_us = now_us;
  return output;
}

std::vector<SessionEvent> ClientSession::TakeEvents() {
  return std::exchange(events_, {});
}

}  // namespace tuplespace
