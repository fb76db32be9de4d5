// Scenarios: the seeds that once found a defect, by name. All these defects are fixed, so each
// scenario must pass.
//
// A seed always draws the same options, but its history changes with the program: after one
// additional message everything is drawn differently. So a scenario is a seed whose options once
// led to a defect, and not a replay. Replays are unit tests beside the code that was fixed.
#pragma once

#include <array>
#include <cstdint>

namespace acan::simulation {

struct Scenario {
  const char* name;
  std::uint64_t seed;
  const char* found;
  bool hostile = false;  // SeedOptions::hostile
};

// The first seeds found the first three defects. Which of them each seed found was not recorded:
// - A handler lost its device while results waited for an answer. It woke a client that was gone,
//   and so wrote to a closed descriptor.
// - A manager was cut off while another one took over and finished. It came back, removed the
//   receipt and trained the job again.
// - A manager was stopped for longer than its lease. It wrote metrics between the lines of the
//   manager that had taken over, before it heard that it had lost the lead.
inline constexpr const char* kOneOfTheFirst =
    "A lost client was woken, or a finished job trained again, or a former leader wrote metrics.";

inline constexpr std::array kScenarios = {
    Scenario{"early_a", 6, kOneOfTheFirst},
    Scenario{"early_b", 36, kOneOfTheFirst},
    Scenario{"early_c", 252, kOneOfTheFirst},
    Scenario{"early_d", 11759, kOneOfTheFirst},
    Scenario{"early_e", 20091, kOneOfTheFirst},
    Scenario{"snapshot_of_a_successor", 200672,
             "A manager took a snapshot that its successor wrote for another training's."},
    Scenario{"snapshot_of_a_stopped_thread", 3138,
             "A snapshot of a step appeared that the successor's metrics did not have yet."},
    Scenario{"late_answer_about_a_tile", 8077,
             "A manager took its own tile for gone when an answer was late, and ended."},
    Scenario{"second_start_at_the_end", 511439,
             "A manager without the lead removed the receipt of one that had just finished."},
    Scenario{"lead_lost_again_and_again", 79279,
             "Looking through the runs of all earlier lives took longer than the lead's lease."},
    Scenario{"late_hello", 578264, "A Hello of an ended connection ended the session of the next."},
    Scenario{"minus_one_right_answers", 387169,
             "A manager believed a loss and a count of right answers that no inputs can give."},
    Scenario{
        "result_of_before_going_back", 132,
        "Inputs of a task were removed, as its result was there from before the run went back."},
    Scenario{"result_that_stays_without_a_task", 3004572,
             "A result stayed with a handler though nobody would hear that it was lost."},
    Scenario{"supplied_and_made_anew", 5007583,
             "An answer to an earlier supply freed a result that was made anew since."},
    Scenario{"evaluation_of_before_going_back", 7000201,
             "As result_of_before_going_back, for an evaluation."},
    Scenario{"absurd_memory", 245, "A hostile handler's 2^63 bytes of memory spoilt the receipt."},
    Scenario{"extended_under_many_ids", 119,
             "Each lease that a hostile client extended to its end made the next one longer."},
    Scenario{"early_hostile", 1267, "A finding with the first hostile handlers, not recorded."},
    Scenario{"loss_of_a_wrong_size", 572,
             "A loss of a wrong size ended an audited run before the audit had found it."},
    Scenario{"extended_beside_one_failure", 10000813,
             "A lease was extended for ever, as the only other client had failed the task once."},
    Scenario{"completed_and_joined_again", 20001114,
             "The checker did not know of a completion whose answer went with the session."},
    Scenario{"killed_while_stopped", 20000763,
             "The checker did not wait until the broker had noticed that a client was gone."},
    Scenario{"killed_beside_a_stopped_broker", 20001474, "As killed_while_stopped."},
    Scenario{"trial_after_a_failure", 30000387,
             "New clients of a key waited for a task that had failed at once."},
    Scenario{"trial_of_an_honest_handler", 30001096,
             "As trial_after_a_failure, for an honest handler that shares the key."},
    Scenario{"late_name_of_a_run", 30008093,
             "The name of a run that never began was left in the space."},
    Scenario{"metrics_removed_before_the_weights", 2109,
             "A manager that stopped while it was cut off removed its metrics, not its weights."},
    Scenario{"failed_before_the_verdict", 30050454,
             "A task with a false input ended the run when an audit had just found that out."},
    Scenario{"bench_of_no_whole_milliseconds", 40013721,
             "The checker took a bench, which is said in milliseconds, for shorter than it was."},
    Scenario{
        "lie_while_nobody_was_there", 40041571,
        "An audit of a false result was skipped, as all honest handlers had lost their device."},
    Scenario{"bench_within_that_of_its_key", 40036561,
             "The space said that a bench ends before that of the client's key did."},
    Scenario{"bench_within_that_of_its_key_b", 40052276, "As bench_within_that_of_its_key."},
    Scenario{"metrics_that_came_late", 60026338,
             "What a manager had sent arrived after another one had finished the job."},
    Scenario{"metrics_that_came_late_b", 60028213, "As metrics_that_came_late."},
    Scenario{"extended_as_if_doubled", 60003839,
             "A lease that was not doubled was extended as far as a doubled one."},
    Scenario{"extended_as_if_doubled_b", 60004706, "As extended_as_if_doubled."},
    Scenario{"gave_up_under_attack", 60009535,
             "Presumably as lie_that_kept_its_own_audit_waiting."},
    Scenario{"two_lies_without_a_hash", 12348,
             "Two ids of a liar confirmed each other's results, as neither of them had a hash."},
    Scenario{"removed_after_the_lead", 80020073,
             "A manager that found the job done removed what was left when its lead had ended."},
    Scenario{"lie_that_kept_its_own_audit_waiting", 90031405,
             "A false result was audited only when the tasks that failed for it were done.", true},
    Scenario{"lie_that_kept_its_own_audit_waiting_b", 90030945,
             "As lie_that_kept_its_own_audit_waiting.", true},
    Scenario{"losses_that_stayed_with_a_liar", 90060107,
             "A hostile client kept losses, for which the manager waited, and never supplied them.",
             true},
    Scenario{"weights_that_stayed_with_a_liar", 90297,
             "A hostile client kept the initial weights and never supplied them.", true},
    Scenario{"results_that_left_with_their_maker", 90050409,
             "A hostile client kept results and left, and the run went back again and again.",
             true},
    Scenario{"copy_of_a_retired_version", 90083274,
             "The manager waited for the copy of a version after it had retired it.", true},
    Scenario{
        "failures_of_before_it_went_back", 90173653,
        "Late notices of failed tasks ended a run that had gone back and forgotten its audits.",
        true},
    Scenario{"checked_without_its_memory", 95002210,
             "The checker did not know how much memory a task needs, and who could have taken it."},
    Scenario{"checked_without_its_memory_b", 90142440, "As checked_without_its_memory.", true},
};

}  // namespace acan::simulation
