#include "broker/client_routes.h"

#include <utility>
#include <variant>

namespace acan::simulation {

using tuplespace::ClientId;
using tuplespace::Payload;

void ClientRoutes::OnFrames(const std::shared_ptr<Connection>& from) {
  if (from->up() || !routes_.contains(from->client())) routes_[from->client()] = from;
}

bool ClientRoutes::OnEnded(const Connection& connection) {
  const auto route = routes_.find(connection.client());
  if (route == routes_.end() || route->second.get() != &connection) return false;
  routes_.erase(route);
  return true;
}

bool ClientRoutes::LeadsToHandler(const ClientId& client) const {
  const auto route = routes_.find(client);
  return route != routes_.end() && route->second->process()->name().starts_with("handler");
}

void ClientRoutes::Send(const ClientId& client, const tuplespace::ToClient& envelope,
                        std::optional<bool> leads) {
  encoder_.Begin(envelope.session);
  for (const tuplespace::BrokerMessage& one : envelope.messages) {
    std::visit([&](const auto& body) { encoder_.Add(body); }, one);
  }
  Frames frames;
  const auto control = encoder_.Finish();
  frames.control.assign(control.begin(), control.end());
  for (const Payload& payload : encoder_.TakeFrames()) {
    frames.payloads.push_back(Payload::Copy(payload.data(), payload.size()));
  }
  frames.leads = leads;
  network_.Send(*routes_.at(client), std::move(frames));
}

}  // namespace acan::simulation
