#include "driver_list.h"

#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "acan/core/error.h"
#include "acan/core/text/json_text.h"
#include "acan/module/loader.h"
#include "child.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"

namespace acan::cli {
namespace {

using nlohmann::json;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kMostTime{60};  // GPUs that were off take up to 20 s

// Every field of a listing; of the optional ones only those that are there.
template <typename Listing, typename Visit>
void ForEachField(Listing& listing, const Visit& visit) {
  visit("name", listing.info.name);
  visit("description", listing.info.description);
  visit("backend", listing.info.backend);
  visit("vector_isa", listing.info.vector_isa);
  visit("memory_bytes", listing.info.memory_bytes);
  visit("threads", listing.info.threads);
  visit("exact", listing.info.exact);
  visit("fast", listing.info.fast);
  visit("own_memory", listing.info.own_memory);
  visit("kind", listing.kind);
  visit("driver", listing.driver);
  visit("vendor_id", listing.vendor_id);
  visit("host_memory", listing.host_memory);
  visit("parts", listing.parts);
  visit("parted_by", listing.parted_by);
  visit("unusable", listing.unusable);
}

// The listing child of a backend.
class Lister {
 public:
  explicit Lister(const std::string& backend)
      : backend_(backend),
        child_({"devices", kListingFlag, backend}),
        until_(Clock::now() + kMostTime) {}

  DeviceList Wait() {
    std::optional<DeviceList> list;
    while (!list && child_.out_fd() >= 0) {
      const auto left =
          std::chrono::duration_cast<std::chrono::milliseconds>(until_ - Clock::now()).count();
      if (left <= 0) {
        return Failed(
            fmt::format("its driver did not list its devices within {} s", kMostTime.count()));
      }
      std::array<pollfd, 2> fds{pollfd{child_.out_fd(), POLLIN, 0},
                                pollfd{child_.err_fd(), POLLIN, 0}};
      ::poll(fds.data(), fds.size(), static_cast<int>(left));
      PassErrors();
      for (const std::string& line : child_.ReadOut()) {
        if (!list) list = ParseDeviceListLine(line);  // a driver may write lines, too
      }
    }
    if (list) child_.Signal(SIGKILL);
    const std::string end = child_.Wait().Text();
    PassErrors();
    if (list) return std::move(*list);
    return Failed(fmt::format("the process in which its driver listed its devices {}{}", end,
                              last_words_.empty() ? "" : ", after it wrote: " + last_words_));
  }

 private:
  // The backend then has no devices, as if its driver were not installed, so the user is told.
  DeviceList Failed(const std::string& problem) const {
    std::fputs(fmt::format("acan: warning: {} cannot be used: {}\n", backend_, problem).c_str(),
               stderr);
    return {{}, problem};
  }

  // Passes on what the drivers write to stderr, and keeps the last line.
  void PassErrors() {
    for (std::string& line : child_.ReadErr()) {
      std::fputs((line + "\n").c_str(), stderr);
      last_words_ = std::move(line);
    }
  }

  std::string backend_;
  Child child_;
  Clock::time_point until_;
  std::string last_words_;
};

std::map<std::string, DeviceList>& Listed() {
  static auto& listed = *new std::map<std::string, DeviceList>;
  return listed;
}

// Lists those that are not listed yet.
void ListDevicesOf(std::span<const char* const> backends) {
  std::vector<std::pair<std::string, std::unique_ptr<Lister>>> listers;
  for (const char* backend : backends) {
    if (Listed().count(backend) != 0) continue;
    const LoadedModule& loaded = LoadModule(backend);
    if (loaded.module == nullptr) {
      Listed()[backend] = {{}, loaded.problem};
      continue;
    }
    try {
      listers.emplace_back(backend, std::make_unique<Lister>(backend));
    } catch (const Error&) {  // no process can be started, for example as /proc is not mounted
      Listed()[backend] = loaded.module->List();
    }
  }
  for (const auto& [backend, lister] : listers) Listed()[backend] = lister->Wait();
}

}  // namespace

std::string DeviceListLine(const DeviceList& list) {
  json devices = json::array();
  for (const DeviceListing& device : list.devices) {
    json& out = devices.emplace_back(json::object());
    ForEachField(device, [&out](const char* key, const auto& value) { out[key] = value; });
    if (device.free_bytes) out["free_bytes"] = *device.free_bytes;
    if (device.same_as) out["same_as"] = *device.same_as;
  }
  return JsonTextReplacing({{"devices", std::move(devices)}, {"problem", list.problem}});
}

std::optional<DeviceList> ParseDeviceListLine(const std::string& line) {
  const json in = ParseJsonOrDiscard(line);
  DeviceList list;
  try {
    list.problem = in.at("problem").get<std::string>();
    for (const json& each : in.at("devices")) {
      DeviceListing& device = list.devices.emplace_back();
      ForEachField(device, [&each](const char* key, auto& value) { each.at(key).get_to(value); });
      if (each.contains("free_bytes")) device.free_bytes = each["free_bytes"].get<std::uint64_t>();
      if (each.contains("same_as")) device.same_as = each["same_as"].get<int>();
    }
  } catch (const json::exception&) {
    return std::nullopt;
  }
  return list;
}

void ListAllDevices() {
  ListDevicesOf(kModuleBackends);
}

const DeviceList& DevicesOf(const std::string& backend) {
  const char* const name = backend.c_str();
  ListDevicesOf({&name, 1});
  return Listed().at(backend);
}

void PrintDevicesAndExit(const std::string& backend) {
  const LoadedModule& loaded = LoadModule(backend);
  const DeviceList list = loaded.module ? loaded.module->List() : DeviceList{{}, loaded.problem};
  std::puts(DeviceListLine(list).c_str());
  std::fflush(stdout);
  ::_exit(0);  // drivers may fail as they are unloaded
}

}  // namespace acan::cli
