#include "tuplespace/client.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "client_impl.h"

namespace tuplespace {

namespace {

std::int64_t DeadlineUs(Client::Duration wait) {
  const std::int64_t now_us = MonotonicUs();
  const std::int64_t wait_us = std::max<std::int64_t>(0, wait.count());
  return wait_us >= kForeverUs - now_us ? kForeverUs : now_us + wait_us;
}

}  // namespace

std::optional<std::string> EndpointProblem(const std::string& endpoint) {
  try {
    EndpointList(endpoint, /*has_keys=*/false);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return std::nullopt;
}

Client::Client(ClientOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}
Client::~Client() = default;

RequestId Client::Submit(RequestBody body, ReplyHandler on_reply) {
  impl_->Share(body);
  const RequestId id = impl_->session.Submit(std::move(body), MonotonicUs());
  impl_->handlers.emplace(id, std::move(on_reply));
  return id;
}

void Client::ChangeUnder(std::optional<LeaseRef> lease) {
  impl_->session.ChangeUnder(std::move(lease));
}

void Client::Replace(RequestId id, tuplespace::Get get) {
  impl_->session.Replace(id, std::move(get), MonotonicUs());
}

void Client::Abandon(RequestId id) {
  impl_->handlers.erase(id);
  impl_->session.Abandon(id, MonotonicUs());
}

void Client::OnNotice(std::function<void(Notice&&)> handler) {
  impl_->on_notice = std::move(handler);
}

void Client::OnDelay(std::function<void(const std::string&)> handler) {
  impl_->on_delay = std::move(handler);
}

void Client::ReadDirectly(std::vector<FoundTuple> wanted, std::int64_t wait_us,
                          ReplyHandler on_reply) {
  impl_->direct.ReadDirectly(std::move(wanted), wait_us, std::move(on_reply));
}

void Client::OnAsked(std::function<Payload(const Key&)> handler) {
  impl_->direct.OnAsked(std::move(handler));
}

void Client::Offer(const Key& key, Payload payload) {
  impl_->direct.Offer(key, std::move(payload));
}

void Client::Withdraw(const Key& key) {
  impl_->direct.Withdraw(key);
}

void Client::OnDirectProblem(std::function<void(const std::string&)> handler) {
  impl_->direct.OnProblem(std::move(handler));
}

void Client::OnDamage(std::function<void(const std::string&)> handler) {
  impl_->on_damage = std::move(handler);
}

void Client::OnConnection(std::function<void(bool, const std::string&)> handler) {
  impl_->on_connection = std::move(handler);
}

int Client::Poll(std::chrono::microseconds timeout, int extra_fd) {
  return impl_->Poll(DeadlineUs(timeout), extra_fd);
}

void Client::Flush() {
  impl_->Flush();
}

void Client::Wake() {
  impl_->wake.Notify();
}

bool Client::shares_memory() const {
  return impl_->shared.can_put();
}
SharedPool* Client::pool() const {
  return impl_->shared.pool();
}
bool Client::nearby() const {
  Channel* const channel = impl_->shared.channel();
  return channel != nullptr && channel->input_position() > 0;
}
bool Client::fetches_directly() const {
  const ClientOptions& options = impl_->options;
  return options.direct && options.endpoint.starts_with("tcp://") && !shares_memory();
}
bool Client::listens() const {
  return impl_->direct.listens();
}
const std::string& Client::local_address() const {
  return impl_->direct.address();
}

DirectCounts Client::direct_counts() const {
  return impl_->direct.counts();
}
bool Client::connected() const {
  return impl_->session.joined();
}
std::uint64_t Client::unanswered() const {
  return impl_->session.unanswered();
}
const ClientId& Client::id() const {
  return impl_->options.id;
}
std::uint64_t Client::broker_life() const {
  return impl_->session.welcome().life;
}
const std::string& Client::endpoint() const {
  return impl_->endpoints.endpoint();
}

}  // namespace tuplespace
