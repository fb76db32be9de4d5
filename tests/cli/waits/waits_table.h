// Which test covers which row of the tables in docs/reliability.md, "What waits".
#pragma once

#include <array>

namespace acan::testing {

struct Wait {
  const char* row;   // its first column
  const char* file;  // under tests/; null: no test, `test` says why
  const char* test;  // text that occurs in that file
};

inline constexpr const char* kPeers = "tuplespace/client/peer_gone_test.cpp";
inline constexpr const char* kCommands = "cli/peer_gone_test.cpp";
inline constexpr const char* kStops = "cli/stop_test.cpp";
inline constexpr const char* kSessions = "tuplespace/client/session_test.cpp";
inline constexpr const char* kBrokers = "tuplespace/broker/broker_test.cpp";
inline constexpr const char* kHere = "cli/waits/waits_test.cpp";
inline constexpr const char* kFiles = "cli/clumsy/clumsy_file_cases.cpp";
inline constexpr const char* kDevices = "end_to_end/devices/devices_test.cpp";
// It stops, kills and cuts off each process at random, and reports jobs that do not end.
inline constexpr const char* kSimulation = "simulation/simulation_test.cpp";
inline constexpr const char* kSeeds = "TEST_P(Seeds, FindNothingAlthoughEveryFaultHappens)";

inline constexpr std::array kWaits = {
    // The library
    Wait{"each blocking call of `Client`", kPeers, "PeerGone, TheCallEndsByItsDeadline"},
    Wait{"the same without a `wait`", kPeers, "ACallWithoutADeadline, SaysWhatItWaitsFor"},
    Wait{"`Take`, once it was granted one", kPeers, "EndsIfTheBrokerIsStoppedAfterItGranted"},
    Wait{"`Poll`", kPeers, "APollEndsByItsTimeout"},
    Wait{"joining", kSessions, "AHelloWithoutAnswerLeadsToANewLink"},
    Wait{"a Ping's answer", kSessions, "PingsWhenIdleAndGivesUpOnASilentBroker"},
    Wait{"`~Client`", kPeers, "WhatWasNotSentKeepsNoClient"},
    Wait{"a host's name, inside ZeroMQ", "cli/parts/broker_host_test.cpp",
         "OfAResolverThatDoesNotAnswerAreReportedAndGivenUp"},
    Wait{"the broker's loop", kBrokers, "BrokerStop, FromASignalHandler"},
    Wait{"a client that sends nothing", kHere, "OfABrokerForAStoppedClientEndWithItsName"},
    Wait{"room in a client's queue", kBrokers, "IsDroppedWhenItsQueueIsFullAndOthersGoOn"},
    Wait{"the end of the listeners", kCommands, "ABroker, EndsWhateverItsClientsDo"},
    Wait{"`AdaptiveSpin`, the rings' wake-ups", "tuplespace/shared_memory/channel_test.cpp",
         "Channel, NoMessageIsSleptThrough"},
    Wait{"a task that names a client", "tuplespace/space/space_link_test.cpp",
         "ATaskIsKeptNoLongerThanTheLimit"},
    Wait{"the lists of keys", nullptr, "the old list holds, on whatever the new one waits"},
    // The handler
    Wait{"a result that others ask for, and that cannot leave the device",
         "handler/handler_supply_test.cpp", "WhatCannotBeFetchedIsTriedAgainAfterAPause"},
    Wait{"the next supply, after 64 MiB that are not answered", "handler/handler_supply_test.cpp",
         "OnlySoMuchIsSuppliedBeforeItIsAnswered"},
    Wait{"the next task, after 1 GiB of results that are not answered",
         "handler/core/handler_core_resident_test.cpp",
         "NoTaskIsAskedForWhileMuchWaitsForItsAnswer"},
    Wait{"`Handler::Run`", kCommands, "CommandsThatConnect, WithAStoppedBroker"},
    Wait{"a task on the device's threads", kDevices,
         "FaultyDevice, ThatHangsIsSpokenOfAndKeepsNobody"},
    Wait{"a task on the handler's own thread", kDevices,
         "FaultyDevice, ThatHangsOnTheHandlersOwnThreadIsSpokenOf"},
    Wait{"the proof at the start", kDevices, "FaultyDevice, ThatHangsInItsProofIsSpokenOf"},
    Wait{"an input that stays with another one", kSimulation, kSeeds},
    Wait{"the turn to measure its link", "end_to_end/in_process/resident_test.cpp",
         "AHandlerMeasuresItsLinkWhenNobodyElseDoes"},
    Wait{"to stop", kCommands, "CommandsThatConnect, WithAStoppedBroker"},
    Wait{"the same under `acan train`", kHere,
         "OfAHandlerWhoseTrainWasKilledAndWhoseBrokerIsStoppedEnd"},
    Wait{"threads of a CPU device", kDevices,
         "FaultyDevice, ThatHangsOnTheHandlersOwnThreadIsSpokenOf"},
    // The manager
    Wait{"a broker", kCommands, "CommandsThatConnect, WithNobodyThere"},
    Wait{"any request", kCommands, "CommandsThatConnect, WithAStoppedBroker"},
    Wait{"the lead", kHere, "Leader, ThatIsGoneIsReplacedByWhoStandsBy"},
    Wait{"the output folder", "cli/roles_test.cpp", "ASecondTrainWithTheSameFolderIsRefused"},
    Wait{"handlers", kCommands, "AManager, SaysWhatItWaitsForIfItsHandlerIsStopped"},
    Wait{"tasks", "manager/run/core/liveness_test.cpp", "WhatCannotGoOnGoesBackTwiceAndEnds"},
    Wait{"an audit in which two insist", "manager/run/core/manager_core_audits_test.cpp",
         "WhereTwoHandlersInsistTheRunWaitsForAThird"},
    Wait{"a tile of its own run", kSimulation, kSeeds},
    Wait{"a tile of an earlier run", kSimulation, kSeeds},
    Wait{"a snapshot", kHere, "ForADiskAreSpokenOfAndASecondSignalEndsThem"},
    Wait{"the connection of a snapshot", "manager/run/transfer/snapshot_writer_test.cpp",
         "WithoutTheBrokersSocketItFails"},
    Wait{"its end, where it is dropped", kHere,
         "ForADiskAfterAStopAreSpokenOfAndASecondSignalEndsThem"},
    Wait{"the model's file", kHere, "ForADiskAreSpokenOfAndASecondSignalEndsThem"},
    Wait{"the last answers of a run", kSimulation, kSeeds},
    Wait{"the lines of earlier metrics, and their copy", kHere,
         "ForADiskAreSpokenOfAndASecondSignalEndsThem"},
    Wait{"the lock of the audit log", "manager/run/files/audit_log_test.cpp",
         "WaitsForItsLockByAFunction"},
    Wait{"metrics, audit log, receipt", kHere, "ForADiskAreSpokenOfAndASecondSignalEndsThem"},
    Wait{"to stop", kStops, "Training, AStopTakesNoLongerThanItMay"},
    Wait{"goodbye", kCommands, "CommandsThatConnect, WithAStoppedBroker"},
    Wait{"locks of files", "manager/run/files/folder_lock_test.cpp",
         "FolderLockTest, NamesItsOwnerToOthers"},
    Wait{"a job or receipt that is a pipe", kFiles,
         "is a pipe into which nobody has written for 5 s"},
    Wait{"data files, key files", kFiles, "data: a pipe"},
    Wait{"the files of a job, while they are read", kHere,
         "ForAFileOfAJobAreSpokenOfAndASignalEndsThem"},
    // The commands
    Wait{"the broker's host", "cli/parts/broker_host_test.cpp",
         "BrokerHosts, ThatNeverGetOneAreGivenUp"},
    Wait{"`train`, `eval`, `verify`, `chaos`: a broker", kCommands,
         "SayThatItDoesNotListenAndEndByASignal"},
    Wait{"a child that is asked to end", kHere, "OfATrainForAStoppedChildEndWithSigkill"},
    Wait{"a child after that (`waitpid`)", nullptr, "only the kernel can keep it"},
    Wait{"supervising", kStops, "Training, StartsABrokerThatDiedAgain"},
    Wait{"the run in it", kCommands, "CommandsThatConnect, WithAStoppedBroker"},
    Wait{"`chaos`: the next finished step", kHere, "OfAChaosForTheNextStepAreSpokenOf"},
    Wait{"`chaos --cut`: the relay's connection", "cli/parts/link_relay_test.cpp",
         "IsNotKeptByABrokerThatAcceptsNobody"},
    Wait{"`broker`: its key file", nullptr, "the old list holds, on whatever the new one waits"},
    Wait{"`broker`: to stop", kBrokers, "LingeringBroker, EndsAfterItsLimit"},
    Wait{"`keygen`", nullptr, "it never waits"},
    Wait{"`auto`, `devices`: the devices of a backend", "cli/program_test.cpp",
         "Devices, AreAbsentIfTheirDriverEndsItsProcess"},
    Wait{"`devices`", kDevices, "FaultyDevice, ThatHangsInItsProofIsSpokenOf"},
    Wait{"`check`, `predict`, `embed`, `generate`", kDevices,
         "FaultyDevice, ThatHangsInItsProofIsSpokenOf"},
    Wait{"`bench`", "cli/bench_test.cpp", "BenchTrain, EndsIfOneOfItsProcessesDies"},
    Wait{"stdout and stderr", kHere, "ForAReaderOfTheOutputEndWithASecondSignal"},
};

}  // namespace acan::testing
