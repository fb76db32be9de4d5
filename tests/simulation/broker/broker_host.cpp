#include "broker/broker_host.h"

#include <algorithm>
#include <cassert>
#include <iterator>
#include <map>
#include <utility>

#include "acan/core/names.h"
#include "cluster/message_text.h"
#include "fmt/format.h"

namespace acan::simulation {

using tuplespace::BrokerCore;
using tuplespace::BrokerCoreOptions;
using tuplespace::BrokerMessage;
using tuplespace::ClientId;
using tuplespace::ClientMessage;
using tuplespace::FieldPattern;
using tuplespace::Found;
using tuplespace::Key;
using tuplespace::Pattern;
using tuplespace::Reply;
using tuplespace::ReplyBody;
using tuplespace::Request;
using tuplespace::RequestBody;
using tuplespace::RequestError;
using tuplespace::ToBroker;
using tuplespace::Tuple;

namespace {

constexpr const char* kObserver = OwnClients::kObserver;
constexpr const char* kLiar = OwnClients::kLiar;
constexpr std::uint64_t kProbeOneIn = 16;  // messages
constexpr std::uint64_t kWalkOneIn = 16;   // probes
constexpr std::uint64_t kMaxPayloadBytes = 64u << 20;

// Computes the hashes that the wire format would carry. These messages bypass the wire format
// because their contents are such as no client would encode.
void HashPayloads(ToBroker& envelope) {
  const auto hash = [](std::vector<Tuple>& tuples) {
    for (Tuple& tuple : tuples) {
      if (tuple.payload.empty() || tuple.payload.hash()) continue;
      tuple.payload = std::move(tuple.payload).WithHash(tuplespace::HashOf(tuple.payload.bytes()));
    }
  };
  for (ClientMessage& message : envelope.messages) {
    auto* request = std::get_if<Request>(&message);
    if (request == nullptr) continue;
    if (auto* put = std::get_if<tuplespace::Put>(&request->body)) hash(put->tuples);
    if (auto* complete = std::get_if<tuplespace::Complete>(&request->body)) {
      hash(complete->results);
    }
    if (auto* supply = std::get_if<tuplespace::Supply>(&request->body)) hash(supply->tuples);
  }
}

}  // namespace

BrokerHost::BrokerHost(World& world, Network& network, Results& results)
    : world_(world), network_(network), results_(results), clock_(world), routes_(network) {
  network_.SetListener(this);
}

BrokerHost::~BrokerHost() {
  network_.SetListener(nullptr);
}

void BrokerHost::Start() {
  assert(!running());
  BrokerCoreOptions options;
  options.limits.least_kept_bytes = 1;  // keeps also the small tuples of simulated jobs
  options.first_tuples = FirstTuples();
  options.first_session = world_.random().Next();
  core_ = std::make_unique<BrokerCore>(options);
  observer_ = std::make_unique<Observer>(results_,
                                         [this](const std::string& what) { world_.Report(what); });
  clock_.SetAhead(world_.random().Magnitude(1, 1'000'000'000'000));
  suspension_.Forget();
  ++life_;
  Join(kObserver);
  Join(kLiar);
  observer_->SetHostile([](const ClientId& client) {
    return HostileHandler::Is(client) || HostileManager::Is(client);
  });
  observer_->SetJudgedApart(HostileManager::Owns);
  if (hostile_.handler != nullptr) {
    observer_->SetLimits([this](const ClientId& client) { return KeyOf(client) != nullptr; },
                         hostile_.handler->who().role->limits);
    hostile_.handler->OnBroker();
    LetAct(*hostile_.handler, &BrokerHost::ActHostileHandler);
  }
  if (hostile_.manager != nullptr) {
    hostile_.manager->OnBroker();
    LetAct(*hostile_.manager, &BrokerHost::ActHostileManager);
  }
  SetTimer();
}

void BrokerHost::Kill() {
  if (!running()) return;
  CheckAll();
  core_.reset();
  observer_.reset();
  routes_.Clear();
  suspension_.Forget();
  liar_.TakeTruths();
  own_clients_.OnBroker();
  ++life_;
  clock_.CancelTimer();
  network_.BrokerDied();
}

void BrokerHost::Continue() {
  if (!stopped()) return;
  suspension_.End();
  if (running()) Tick();
}

void BrokerHost::JumpClock(std::int64_t forward_us) {
  clock_.Jump(forward_us);
  if (running() && !stopped()) Tick();
}

void BrokerHost::OnFrames(const std::shared_ptr<Connection>& from, Frames&& frames) {
  if (!running()) return;
  if (stopped()) {
    auto kept = std::make_shared<Frames>(std::move(frames));
    suspension_.Defer([this, from, kept] { Handle(from, std::move(*kept)); });
    return;
  }
  Handle(from, std::move(frames));
}

void BrokerHost::Handle(const std::shared_ptr<Connection>& from, Frames&& frames) {
  from->heard = true;
  routes_.OnFrames(from);
  auto decoded = tuplespace::DecodeToBroker(frames.control, frames.payloads, 64u << 20);
  if (const auto* error = std::get_if<RequestError>(&decoded)) {
    world_.Report(
        fmt::format("the broker cannot read what {} sent: {}", from->client(), error->text));
    return;
  }
  ToBroker& envelope = std::get<ToBroker>(decoded);
  Trace(from->client(), envelope);
  for (const ClientMessage& message : envelope.messages) {
    const auto* request = std::get_if<Request>(&message);
    if (request == nullptr) continue;
    ++totals_.requests;
    observer_->OnRequest(from->client(), envelope.session, *request);
    if (hostile_.handler != nullptr) hostile_.handler->Overhear(*request);
    if (hostile_.manager != nullptr) hostile_.manager->Overhear(from->client(), *request);
    const auto* complete = std::get_if<tuplespace::Complete>(&request->body);
    if (complete != nullptr) liar_.Overhear(*complete, world_.random());
  }
  const bool known = core_->Knows(from->client());
  core_->Receive(from->client(), std::move(envelope), NowUs(), KeyOf(from->client()));
  if (known && !core_->Knows(from->client())) OnLost(from->client());  // it sent Bye
  Flush(from->client());
  Lie();
  if (hostile_.handler != nullptr && hostile_.handler->Joins()) ActHostileHandler();
  if (world_.random().OneIn(kProbeOneIn)) Probe();
  Tick();
}

void BrokerHost::OnConnectionEnded(const std::shared_ptr<Connection>& connection) {
  if (!running()) return;
  if (stopped()) {
    suspension_.Defer([this, connection] { OnConnectionEnded(connection); });
    return;
  }
  if (routes_.OnEnded(*connection)) Lose(connection->client());  // else it has another one
}

void BrokerHost::Lose(const ClientId& client) {
  core_->Lost(client, "its connection ended", NowUs());
  OnLost(client);
  Flush("");
  SetTimer();
}

void BrokerHost::OnLost(const ClientId& client) {
  observer_->OnLost(client, NowUs());
}

void BrokerHost::Tick() {
  for (const ClientId& client : {ClientId(kObserver), ClientId(kLiar)}) {
    if (!core_->Knows(client)) Join(client);
  }
  const std::vector<ClientId> before = core_->Clients();
  core_->Tick(NowUs());
  for (const ClientId& client : before) {
    if (!core_->Knows(client)) OnLost(client);
  }
  Flush("");
  observer_->OnTime(NowUs());
  SetTimer();
}

void BrokerHost::SetTimer() {
  clock_.SetTimer(core_->NextDeadlineUs(), [this] {
    if (running() && !stopped()) Tick();
  });
}

std::vector<BrokerCore::Delivery> BrokerHost::TakeWatched(const ClientId& active) {
  std::vector<BrokerCore::Delivery> deliveries = core_->TakeOutput();
  std::vector<std::pair<ClientId, const tuplespace::ToClient*>> answers;
  for (const auto& delivery : deliveries) {
    answers.emplace_back(delivery.client, &delivery.envelope);
    Trace(delivery.client, delivery.envelope);
  }
  observer_->OnAnswers(active, answers, NowUs());
  return deliveries;
}

void BrokerHost::Trace(const ClientId& client, const ToBroker& envelope) const {
  if (!traces_messages_) return;
  for (const ClientMessage& message : envelope.messages) {
    const std::string text = Describe(message);
    if (!text.empty()) world_.Remark(fmt::format("  {} > {}", client, text));
  }
}

void BrokerHost::Trace(const ClientId& client, const tuplespace::ToClient& envelope) const {
  if (!traces_messages_ || OwnClients::Has(client)) return;
  for (const BrokerMessage& message : envelope.messages) {
    const std::string text = Describe(message);
    if (!text.empty()) world_.Remark(fmt::format("  {} < {}", client, text));
  }
}

void BrokerHost::Flush(const ClientId& active) {
  while (core_->HasOutput()) {
    for (const BrokerCore::Delivery& delivery : TakeWatched(active)) Deliver(delivery);
  }
  for (const std::string& line : core_->TakeLog()) world_.Note("broker: " + line);
}

void BrokerHost::Deliver(const BrokerCore::Delivery& delivery) {
  if (HostileHandler::Is(delivery.client)) {
    return hostile_.handler->OnAnswer(delivery.client, delivery.envelope);
  }
  if (HostileManager::Is(delivery.client)) {
    return hostile_.manager->OnAnswer(delivery.envelope);
  }
  if (!routes_.Has(delivery.client)) return;
  routes_.Send(delivery.client, delivery.envelope, observer_->TakeLead(delivery.client));
}

// ---- the observer and the liar: two more clients, connected directly ----------------------------

void BrokerHost::Join(const ClientId& client) {
  core_->Receive(client, ToBroker{0, {tuplespace::Hello{life_, client}}}, NowUs());
  for (const BrokerCore::Delivery& delivery : TakeWatched(client)) {
    if (delivery.client == client) {
      own_clients_.OnAnswer(client, delivery.envelope);
    } else {
      Deliver(delivery);
    }
  }
}

ReplyBody BrokerHost::Ask(RequestBody body) {
  if (!core_->Knows(kObserver)) Join(kObserver);
  Request request = own_clients_.RequestOf(std::move(body));
  const tuplespace::RequestId id = request.id;
  core_->Receive(kObserver, ToBroker{own_clients_.SessionOf(kObserver), {std::move(request)}},
                 NowUs());
  std::optional<ReplyBody> answer = TakeAnswer(id);
  while (!answer && core_->NextDeadlineUs() <= NowUs()) {  // a List or a Count runs in slices
    core_->Tick(NowUs());
    answer = TakeAnswer(id);
  }
  if (answer) return std::move(*answer);
  return RequestError{tuplespace::ErrorCode::kBadRequest, "no answer"};
}

std::optional<ReplyBody> BrokerHost::TakeAnswer(tuplespace::RequestId id) {
  std::optional<ReplyBody> answer;
  for (BrokerCore::Delivery& delivery : TakeWatched(kObserver)) {
    if (delivery.client != kObserver) {
      Deliver(delivery);
      continue;
    }
    for (BrokerMessage& message : delivery.envelope.messages) {
      auto* reply = std::get_if<Reply>(&message);
      if (reply != nullptr && reply->id == id) answer = std::move(reply->body);
    }
  }
  return answer;
}

void BrokerHost::Probe() {
  const Key* key = observer_->tuples().AnyTuple(world_.random());
  if (key == nullptr) return;
  tuplespace::Read read;
  read.patterns = {Pattern::Of(*key)};
  const ReplyBody reply = Ask(std::move(read));
  const auto* found = std::get_if<Found>(&reply);
  const bool there = found != nullptr && !found->tuples.empty();
  observer_->tuples().CheckTuple(*key, there ? &found->tuples.front() : nullptr);
  if (world_.random().OneIn(kWalkOneIn)) CheckSpace();
  const tuplespace::Stats stats = core_->GetStatistics();
  totals_.most_payload_bytes = std::max(totals_.most_payload_bytes, stats.payload_bytes);
  if (stats.payload_bytes > kMaxPayloadBytes) {
    world_.Report(fmt::format("the space holds {} bytes of payload", stats.payload_bytes));
  }
}

void BrokerHost::CheckSpace() {
  if (const auto what = core_->FindContradiction()) {
    world_.Report("the space contradicts itself: " + *what);
  }
}

void BrokerHost::CheckAll() {
  if (!running() || stopped()) return;
  Tick();
  CheckSpace();
  tuplespace::List list;
  list.pattern = Pattern{{FieldPattern::Any()}, true};
  list.limit = UINT64_MAX;
  const ReplyBody reply = Ask(std::move(list));
  const auto* found = std::get_if<Found>(&reply);
  if (found == nullptr || found->truncated) return;
  std::map<Key, const tuplespace::FoundTuple*> there;
  for (const auto& tuple : found->tuples) there[tuple.key] = &tuple;
  for (const Key& key : observer_->tuples().Tuples()) {
    const auto it = there.find(key);
    observer_->tuples().CheckTuple(key, it == there.end() ? nullptr : it->second);
  }
}

std::vector<Key> BrokerHost::Keys() {
  tuplespace::List list;
  list.pattern = Pattern{{FieldPattern::Any()}, true};
  list.limit = UINT64_MAX;
  list.metadata_only = true;
  std::vector<Key> keys;
  const ReplyBody reply = Ask(std::move(list));
  if (const auto* found = std::get_if<Found>(&reply)) {
    for (const auto& tuple : found->tuples) keys.push_back(tuple.key);
  }
  return keys;
}

// Puts results again with other bytes. The space has or no longer needs these results, so the lies
// must change nothing.
void BrokerHost::Lie() {
  for (const Tuple& truth : liar_.TakeTruths()) {
    if (observer_->leases().Holder(truth.key)) continue;
    Tuple lie = Liar::LieAbout(truth, world_.random());
    Request request = own_clients_.RequestOf(tuplespace::Put{{std::move(lie)}});
    // A result that was removed without a trace would be believed. Only audits help against that.
    tuplespace::Count count;
    count.pattern = Pattern::Of(truth.key);
    const ReplyBody counted = Ask(std::move(count));
    const auto* reply = std::get_if<tuplespace::CountReply>(&counted);
    if (reply == nullptr || reply->count == 0) continue;
    if (!core_->Knows(kLiar)) Join(kLiar);
    ++totals_.conflicts_made;
    observer_->OnRequest(kLiar, own_clients_.SessionOf(kLiar), request);
    core_->Receive(kLiar, ToBroker{own_clients_.SessionOf(kLiar), {std::move(request)}}, NowUs());
    Flush(kLiar);
  }
}

// The hostile handler's key if `client` has it, which honest handlers may share; null: no key.
const tuplespace::AccessList::Entry* BrokerHost::KeyOf(const ClientId& client) const {
  if (hostile_.handler == nullptr) return nullptr;
  const tuplespace::AccessList::Entry& key = hostile_.handler->who();
  const bool has_copy = hostile_.key_is_shared && routes_.LeadsToHandler(client);
  return (HostileHandler::Is(client) || has_copy) ? &key : nullptr;
}

// ---- a hostile handler and a hostile manager, connected directly --------------------------------

template <class Actor>
void BrokerHost::LetAct(Actor& actor, void (BrokerHost::*act)()) {
  world_.After(actor.NextDelayUs(), [this, &actor, act, life = life_] {
    if (life != life_ || !running()) return;
    if (!stopped()) {
      (this->*act)();
      Tick();
    }
    LetAct(actor, act);
  });
}

bool BrokerHost::ReceiveHostile(HostileHandler::Said& said,
                                const tuplespace::AccessList::Entry& who) {
  world_.Note(fmt::format("{}: {}", said.client, said.what));
  Trace(said.client, said.envelope);
  for (const ClientMessage& message : said.envelope.messages) {
    const auto* request = std::get_if<Request>(&message);
    if (request != nullptr) observer_->OnRequest(said.client, said.envelope.session, *request);
  }
  const bool known = core_->Knows(said.client);
  HashPayloads(said.envelope);
  core_->Receive(said.client, std::move(said.envelope), NowUs(), &who);
  const bool left = known && !core_->Knows(said.client);
  if (left) OnLost(said.client);
  return left;
}

void BrokerHost::ActHostileHandler() {
  HostileHandler::Said said = hostile_.handler->Say(*observer_);
  ++totals_.hostile;
  if (ReceiveHostile(said, hostile_.handler->who())) CheckNothingIsLeftOf(said.client);
  Flush(said.client);
  CheckReportsOf(said.client);  // after the answers, which are attributed to the active client
}

void BrokerHost::ActHostileManager() {
  HostileManager::Said said = hostile_.manager->Say();
  ++totals_.hostile_manager;
  ReceiveHostile(said, hostile_.manager->who());
  Flush(said.client);
}

// Managers read the reports of handlers.
void BrokerHost::CheckReportsOf(const ClientId& client) {
  tuplespace::List list;
  list.pattern = Pattern{{FieldPattern::Exact("report"), FieldPattern::Exact(client)}, true};
  list.metadata_only = true;
  const ReplyBody listed = Ask(std::move(list));
  const auto* found = std::get_if<Found>(&listed);
  if (found == nullptr) return;
  for (const tuplespace::FoundTuple& report : found->tuples) {
    if (report.payload_bytes <= kMaxReportBytes) continue;
    world_.Report(fmt::format("a report of {} has {} bytes", client, report.payload_bytes));
  }
}

// A handler that left must leave nothing in the space except results.
void BrokerHost::CheckNothingIsLeftOf(const ClientId& client) {
  for (const char* kind : {"handler", "report"}) {
    tuplespace::Count count;
    count.pattern = Pattern{{FieldPattern::Exact(kind), FieldPattern::Exact(client)}, true};
    const ReplyBody counted = Ask(std::move(count));
    const auto* reply = std::get_if<tuplespace::CountReply>(&counted);
    if (reply == nullptr || reply->count == 0) continue;
    world_.Report(fmt::format("{} left, and {} tuples of its own are there", client, reply->count));
  }
}

}  // namespace acan::simulation
