#!/bin/sh
# A part of gpu-check.sh, which includes it: writes slower.txt, the list of speeds below the
# expected ones with the counter that most likely explains each. Uses gpu-check.sh's variables
# dry_run, mark, out, logs, bench and deadline, and its function say.
# shellcheck disable=SC2154  # those variables

# Counters for ncu: how busy each unit is, and what warps wait for before their next instruction.
metrics=sm__throughput.avg.pct_of_peak_sustained_elapsed
metrics=$metrics,l1tex__throughput.avg.pct_of_peak_sustained_active
metrics=$metrics,lts__throughput.avg.pct_of_peak_sustained_elapsed
metrics=$metrics,gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed
for stall in long_scoreboard short_scoreboard barrier math_pipe_throttle mio_throttle lg_throttle \
  wait not_selected dispatch_stall no_instruction; do
  metrics=$metrics,smsp__average_warps_issue_stalled_${stall}_per_issue_active.ratio
done

# Prints a sentence about ncu's CSV table, in which every field is quoted, or nothing if the table
# has none of the counters.
busiest() {
  awk 'BEGIN { FS = "\",\"" }
    /^"ID"/ {
      for (i = 1; i <= NF; ++i) {
        field = $i
        gsub(/"/, "", field)
        if (field == "Metric Name") name = i
        if (field == "Metric Value") value = i
      }
      next
    }
    name && NF >= value {
      number = $value
      gsub(/[",]/, "", number)
      number += 0
      what = $name
      if (what ~ /_stalled_/) {
        sub(/.*_stalled_/, "", what)
        sub(/_per_issue_active.*/, "", what)
        if (stall == "" || number > stalled) { stall = what; stalled = number }
      } else if (what ~ /throughput/) {
        if (unit == "" || number > busy) { unit = what; busy = number }
      }
    }
    END {
      if (unit != "" && stall != "")
        printf "the busiest unit is %s: %.0f %%; warps wait most for %s: %.1f\n", unit, busy, stall, stalled
    }'
}

# slower_than_expected JSON NCU: writes slower.txt from the result of gpu_bench. If NCU is not
# empty, also profiles the eight slowest operations, compared with what is expected, while there is
# time.
slower_than_expected() {
  ncu=$2
  list=$out/${mark}slower.txt
  : >"$list"
  sed -n 's/^ *"name": "\(.*\)",$/\1/p' "$1" >"$logs/slower-names"
  sed -n 's/^ *"sentence": "\(.*\)",$/\1/p' "$1" >"$logs/slower-sentences"
  profiled=0
  most=8
  ! $dry_run || most=99
  while read -r name && read -r sentence <&3; do
    counters=""
    case $name in
      upload* | download*) ;;
      *)
        if [ -n "$ncu" ] && [ $profiled -lt $most ] && [ $(($(date +%s) + 20)) -lt $deadline ]; then
          profiled=$((profiled + 1))
          # shellcheck disable=SC2086  # words
          counters=$(timeout 20 "$ncu" --csv --clock-control none --profile-from-start off \
            --metrics $metrics $bench --only "$name" 2>>"$logs/ncu-errors.log" | tee -a "$logs/ncu.log" | busiest)
          [ -n "$counters" ] || counters="ncu read no counters, see ncu.log of the logs"
        fi
        ;;
    esac
    $dry_run && printf 'dry run: ' >>"$list"
    printf '%s%s\n' "$sentence" "${counters:+; $counters}" >>"$list"
  done <"$logs/slower-names" 3<"$logs/slower-sentences"
  say "slower than expected: $(wc -l <"$list"), see $list"
  head -n 5 "$list" | sed 's/^/  /'
}
