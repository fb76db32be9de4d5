#!/bin/sh
# Builds the fuzz targets (tests/fuzz) with clang, AddressSanitizer and UBSan, and runs each for a
# number of seconds, as many at once as there are processors. Inputs that break something are kept
# in build/fuzz/crashes; inputs that reach new code are kept in build/fuzz/corpus for the next run.
#
#   ./scripts/fuzz.sh SECONDS [TARGET...]     for example: ./scripts/fuzz.sh 3600 wire task
#   ./scripts/fuzz.sh --if-possible SECONDS   succeeds without clang and libFuzzer, and says so
#
# FUZZ_BUILD: the build folder (build/fuzz). FUZZ_SEED: the seed of libFuzzer's random choices;
# without it, each run makes different ones. Exit code: 1 if a target found something.
set -eu
cd "$(dirname "$0")/.."

say() { printf 'fuzz: %s\n' "$*"; }

if_possible=no
if [ "${1:-}" = --if-possible ]; then
  if_possible=yes
  shift
fi
case "${1:-}" in
'' | 0 | *[!0-9]*)
  echo "usage: scripts/fuzz.sh [--if-possible] SECONDS [TARGET...]" >&2
  exit 2
  ;;
esac
seconds=$1
shift

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
trap 'exit 130' INT TERM
probe='extern "C" int LLVMFuzzerTestOneInput(const unsigned char*, unsigned long) { return 0; }'
if ! printf '%s\n' "$probe" |
  clang++ -x c++ -fsanitize=fuzzer,address,undefined -o "$scratch/probe" - 2>"$scratch/why"; then
  why=$(head -n 1 "$scratch/why")
  version=$(clang++ -dumpversion 2>/dev/null || echo 14)
  say "NOT RUN: clang++ with libFuzzer is missing ($why); Debian and Ubuntu: clang and" \
    "libclang-rt-${version%%.*}-dev"
  [ "$if_possible" = yes ] && exit 0
  exit 1
fi

build=${FUZZ_BUILD:-build/fuzz}
cmake --preset fuzz -B "$build" >"$scratch/configure" || { cat "$scratch/configure" >&2; exit 1; }
cmake --build "$build" --target fuzz_targets --parallel "$(nproc)"

targets=$*
if [ -z "$targets" ]; then
  targets=$(for folder in tests/fuzz/corpus/*/; do basename "$folder"; done)
fi
for target in $targets; do
  if [ ! -x "$build/bin/fuzz_$target" ]; then
    say "there is no target $target" >&2
    exit 2
  fi
done
crashes=$build/crashes
mkdir -p "$crashes" "$build/seeds"
"$build/bin/fuzz_corpus_test" --write-seeds "$build/seeds"

# The targets' files are in memory if possible, and are deleted with the scratch folder.
files=$scratch
[ ! -w /dev/shm ] || files=$(mktemp -d /dev/shm/acan-fuzz-XXXXXX)
running=""  # words TARGET:PID
trap 'for each in $running; do kill "${each#*:}" 2>/dev/null || true; done
      wait; rm -rf "$scratch" "$files"' EXIT

failed=""
# Waits for the targets that run, and reports each.
finish() {
  for each in $running; do
    target=${each%:*}
    wait "${each#*:}" || failed="$failed $target"
    log=$build/$target.log
    runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
    state=$(grep -E '^#[0-9]+.* cov: ' "$log" | tail -n 1)
    coverage=$(printf '%s' "$state" | sed -n 's/.* cov: \([0-9]*\).*/\1/p')
    size=$(printf '%s' "$state" | sed -n 's/.* corp: \([0-9]*\).*/\1/p')
    say "$target: ${runs:-?} executions, coverage ${coverage:-?}, corpus ${size:-?}"
  done
  running=""
}

for target in $targets; do
  corpus=$build/corpus/$target
  mkdir -p "$corpus"
  dictionary=""
  [ ! -f "tests/fuzz/dictionaries/$target.dict" ] || dictionary="-dict=tests/fuzz/dictionaries/$target.dict"
  # Inputs that are slow or need much memory count as defects, like crashes.
  # shellcheck disable=SC2086  # there may be no dictionary
  TMPDIR=$files nice "$build/bin/fuzz_$target" "$corpus" "tests/fuzz/corpus/$target" "$build/seeds/$target" \
    -max_total_time="$seconds" -max_len=65536 -timeout=20 -rss_limit_mb=2048 -malloc_limit_mb=512 \
    -seed="${FUZZ_SEED:-0}" -artifact_prefix="$crashes/$target-" -print_final_stats=1 -verbosity=1 \
    $dictionary \
    >"$build/$target.log" 2>&1 &
  running="$running $target:$!"
  [ "$(printf '%s' "$running" | wc -w)" -lt "$(nproc)" ] || finish
done
finish

if [ -n "$failed" ]; then
  say "FOUND something in:$failed"
  for target in $failed; do
    grep -E '^(broken property|SUMMARY|==[0-9]+== *ERROR|.*runtime error)' "$build/$target.log" || true
    say "log $build/$target.log; inputs $crashes/$target-*"
  done
  exit 1
fi
say "found nothing"
