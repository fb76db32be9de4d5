// The planted bugs by name.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "acan/handler/planted.h"
#include "acan/manager/planted.h"
#include "scenarios/former_leader.h"
#include "scenarios/idle_handler.h"
#include "scenarios/late_supply.h"
#include "scenarios/leaving_clients.h"
#include "scenarios/lost_version.h"
#include "seed.h"
#include "tuplespace/planted.h"

namespace acan::simulation {

// Restricts the seeds that look for a bug. Without this, some bugs would take hundreds of seeds,
// and hundreds again after each change of the messages.
struct Search {
  // The bug shows in late messages of a manager that has lost the lead. Since the space refuses
  // these, it is planted together with a manager that puts and retires without its lead.
  bool without_lead = false;
  bool hostile = false;            // SeedOptions::hostile
  std::vector<Fault> faults = {};  // SeedOptions::faults
};

struct PlantedName {
  std::variant<tuplespace::Planted, HandlerBug, ManagerBug> bug;
  const char* name;
  // A seed that found the bug before and is tried first. If it no longer does, another one must.
  std::uint64_t seed;
  // A directed scenario instead of seeds, for bugs that seeds hardly ever find; null: use seeds.
  std::string (*directed)() = nullptr;
  Search search = {};
};

inline const std::array kPlantedNames = {
    PlantedName{tuplespace::Planted::kFenceIsNotChecked, "FenceIsNotChecked", 1},
    PlantedName{tuplespace::Planted::kFenceIsGivenTwice, "FenceIsGivenTwice", 1},
    PlantedName{tuplespace::Planted::kSecondPutOverwrites, "SecondPutOverwrites", 1},
    PlantedName{tuplespace::Planted::kAcknowledgedButNotStored, "AcknowledgedButNotStored", 1},
    PlantedName{tuplespace::Planted::kExtensionIsForgotten, "ExtensionIsForgotten", 4},
    PlantedName{tuplespace::Planted::kLeaseNeverEnds, "LeaseNeverEnds", 7},
    PlantedName{tuplespace::Planted::kWatermarkIsNotRaised,
                "WatermarkIsNotRaised",
                78,
                nullptr,
                {.without_lead = true, .faults = {Fault::kSecondManager, Fault::kStopManager}}},
    PlantedName{tuplespace::Planted::kCompletedTaskIsStoredAgain,
                "CompletedTaskIsStoredAgain",
                27,
                nullptr,
                {.without_lead = true, .faults = {Fault::kSecondManager, Fault::kStall}}},
    PlantedName{tuplespace::Planted::kAnyResultCounts, "AnyResultCounts", 6},
    PlantedName{tuplespace::Planted::kResultsAreNotChecked, "ResultsAreNotChecked", 6},
    PlantedName{tuplespace::Planted::kOneClientParksTasks,
                "OneClientParksTasks",
                34,
                nullptr,
                {.hostile = true, .faults = {Fault::kDeviceFailure}}},
    PlantedName{tuplespace::Planted::kExtensionNeverEnds, "ExtensionNeverEnds", 20},
    PlantedName{tuplespace::Planted::kClingersExtendAsLong, "ClingersExtendAsLong", 20},
    PlantedName{tuplespace::Planted::kBenchNeverEnds, "BenchNeverEnds", 1},
    PlantedName{tuplespace::Planted::kNewIdsAreTrusted, "NewIdsAreTrusted", 28},
    PlantedName{tuplespace::Planted::kEveryLapseDoubles, "EveryLapseDoubles", 119},
    PlantedName{tuplespace::Planted::kOneKeyParksTasks,
                "OneKeyParksTasks",
                34,
                nullptr,
                {.hostile = true, .faults = {Fault::kDeviceFailure}}},
    PlantedName{tuplespace::Planted::kQuotasAreIgnored, "QuotasAreIgnored", 28},
    PlantedName{
        tuplespace::Planted::kAnyResultMayStay, "AnyResultMayStay", 6, nullptr, {.hostile = true}},
    PlantedName{
        tuplespace::Planted::kBorrowedIsKept, "BorrowedIsKept", 41, nullptr, {.hostile = true}},
    PlantedName{tuplespace::Planted::kBorrowedIsCompleted,
                "BorrowedIsCompleted",
                2,
                nullptr,
                {.hostile = true}},
    PlantedName{tuplespace::Planted::kBorrowersWaitTwice,
                "BorrowersWaitTwice",
                2,
                nullptr,
                {.hostile = true}},
    PlantedName{tuplespace::Planted::kJudgesAreIgnored, "JudgesAreIgnored", 5},
    PlantedName{tuplespace::Planted::kLeavingIsFree, "LeavingIsFree", 1, RunLeavingClients},
    PlantedName{tuplespace::Planted::kRejoiningKeepsLeases, "RejoiningKeepsLeases", 2},
    PlantedName{tuplespace::Planted::kSessionDoesNotResend, "SessionDoesNotResend", 11},
    PlantedName{HandlerBug::kBudgetIsIgnored, "BudgetIsIgnored", 1},
    PlantedName{HandlerBug::kFailedTaskIsCompleted, "FailedTaskIsCompleted", 1},
    PlantedName{HandlerBug::kResultsWakeLostClient, "ResultsWakeLostClient", 1},
    PlantedName{HandlerBug::kKeptIsNotSupplied, "KeptIsNotSupplied", 8, RunLateSupply},
    PlantedName{HandlerBug::kEarlierReleaseCounts, "EarlierReleaseCounts", 21011, RunLateSupply},
    PlantedName{ManagerBug::kRetiresTooEarly, "RetiresTooEarly", 1},
    PlantedName{ManagerBug::kRemovesResultsStillNeeded, "RemovesResultsStillNeeded", 1},
    PlantedName{ManagerBug::kReplanSkipsAStep,
                "ReplanSkipsAStep",
                3,
                nullptr,
                {.faults = {Fault::kKillHandler}}},
    PlantedName{ManagerBug::kGoesBackToUnsafeVersion, "GoesBackToUnsafeVersion", 142,
                RunLostVersion},
    PlantedName{ManagerBug::kCommitsUnfinishedStep, "CommitsUnfinishedStep", 1},
    PlantedName{ManagerBug::kSnapshotNamesEarlierVersion, "SnapshotNamesEarlierVersion", 10},
    PlantedName{ManagerBug::kSnapshotIsNotChecked,
                "SnapshotIsNotChecked",
                25,
                nullptr,
                {.faults = {Fault::kDamageSnapshot}}},
    PlantedName{ManagerBug::kResumesFromPartialVersion,
                "ResumesFromPartialVersion",
                34,
                nullptr,
                {.faults = {Fault::kSecondManager, Fault::kKillManager}}},
    PlantedName{ManagerBug::kMetricsAreNotCut, "MetricsAreNotCut", 15},
    PlantedName{ManagerBug::kMetricsAreNotKept,
                "MetricsAreNotKept",
                14,
                nullptr,
                {.faults = {Fault::kSecondManager, Fault::kKillManager}}},
    PlantedName{ManagerBug::kIgnoresFinishedRun,
                "IgnoresFinishedRun",
                61,
                nullptr,
                {.faults = {Fault::kSecondManager, Fault::kKillManager}}},
    PlantedName{tuplespace::Planted::kOldSessionIsServed, "OldSessionIsServed", 6},
    PlantedName{
        tuplespace::Planted::kSizesAreIgnored, "SizesAreIgnored", 2, nullptr, {.hostile = true}},
    PlantedName{ManagerBug::kKeepsLeadOverReconnection, "KeepsLeadOverReconnection", 23},
    PlantedName{ManagerBug::kIgnoresLostLead, "IgnoresLostLead", 3},
    PlantedName{ManagerBug::kChangesWithoutLead, "ChangesWithoutLead", 60026338, RunFormerLeader},
    PlantedName{ManagerBug::kAuditsBelieveTheFirst, "AuditsBelieveTheFirst", 29},
    PlantedName{ManagerBug::kWaitsForIdleHandlers, "WaitsForIdleHandlers", 1, RunIdleHandler},
    PlantedName{ManagerBug::kWaitsForSilentVoters, "WaitsForSilentVoters", 1, RunSilentVoter},
};
// Each of the three enumerations has a kNone.
static_assert(kPlantedNames.size() + 3 == static_cast<std::size_t>(tuplespace::Planted::kCount) +
                                              static_cast<std::size_t>(HandlerBug::kCount) +
                                              static_cast<std::size_t>(ManagerBug::kCount));

inline void Plant(const PlantedName& name) {
  std::visit([](auto bug) { tuplespace::planted_bug<decltype(bug)> = bug; }, name.bug);
  if (name.search.without_lead)
    tuplespace::planted_bug<ManagerBug> = ManagerBug::kChangesWithoutLead;
}

}  // namespace acan::simulation
