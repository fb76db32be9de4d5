#!/bin/sh
# Tests scripts/gpu-check.sh without a GPU: all of its steps run in a dry run on a fake GPU. Each
# result must say that it is of a dry run, and name a counter for whatever is slower than expected.
#
#   gpu_check_test.sh BUILD FOLDER    BUILD has acan, its CUDA tests and gpu_bench_on_cpu; FOLDER is
#                                     recreated. Exit code: 0 on success
set -eu
build=$1
folder=$2
here=$(cd "$(dirname "$0")" && pwd)
check=$here/../../scripts/gpu-check.sh
fail() {
  echo "FAILED: $*"
  for file in "$folder"/console "$folder"/results/dry-run.slower.txt; do
    [ ! -f "$file" ] || { echo "---- $file"; cat "$file"; }
  done
  exit 1
}
# has FILE PATTERN: fails unless the result FILE has a line that matches
has() { grep -q -e "$2" "$folder/results/$1" || fail "$1 has no \"$2\""; }

rm -rf "$folder"
mkdir -p "$folder"
# OUT would send the results to the place for results of a real GPU.
unset OUT

code=0
"$check" --dry-run "$folder/nothing" "$folder/results" >"$folder/console" 2>&1 || code=$?
[ $code -eq 2 ] || fail "a dry run without a build ended with exit code $code"
[ ! -e "$folder/results" ] || fail "a dry run without a build left results"

PATH=$here/stand_ins/bin:$PATH
export PATH
"$check" --dry-run "$build" "$folder/results" >"$folder/console" 2>&1 || fail "it failed"

# No output may be mistaken for the output of a real GPU.
if grep -v -e '^gpu-check (dry run on a fake GPU): ' -e '^  ' "$folder/console"; then
  fail "lines of the console that do not say that they are of a dry run"
fi
# These are all files that a real run may leave, too: comparisons of any number are packed.
for file in "$folder"/results/*; do
  case ${file##*/} in
    dry-run.summary.json | dry-run.weights.json | dry-run.devices.json | dry-run.gpu_bench.json | \
      dry-run.slower.txt | dry-run.comparisons.tar.gz | dry-run.logs.tar.gz) ;;
    dry-run.*) fail "$file is not one of the few files for the results" ;;
    *) fail "$file does not say that it is of a dry run" ;;
  esac
done
mkdir "$folder/comparisons"
tar -C "$folder/comparisons" -xzf "$folder/results/dry-run.comparisons.tar.gz"
for result in results/dry-run.summary results/dry-run.weights results/dry-run.gpu_bench \
  comparisons/dry-run.train_bench; do
  grep -q '^{"dry_run": true, ' "$folder/$result.json" || fail "$result does not say what it is"
done
has dry-run.devices.json 'fake sm_90 on the CPU, for tests only'
has dry-run.gpu_bench.json 'fake sm_90 on the CPU, for tests only'

for step in devices test-cuda test-op_matrix test-kernel test-gemm test-device train-cpu train-cuda \
  train-mixed train-gpt-cpu train-gpt-cuda generate-cpu generate-cuda train-resnet-cpu \
  train-resnet-cuda bench-gpu bench-train \
  sanitizer-memcheck sanitizer-racecheck sanitizer-kernels sanitizer-call-memcheck \
  sanitizer-call-racecheck; do
  has dry-run.summary.json "\"name\": \"$step\", \"status\": \"passed\""
done
# A tool that cannot look at the device is no failure.
has dry-run.summary.json '"sanitizer-call-synccheck", "status": "left out"'
grep -q 'compute-sanitizer does not support this device' "$folder/console" ||
  fail "the refusal of compute-sanitizer is not mentioned"
has dry-run.weights.json '"same": true.*"same_gpt": true, "same_text": true.*"same_resnet": true'
# The most informative steps come first.
has dry-run.summary.json '"devices".*"train-mixed".*"bench-gpu".*"bench-train".*"test-cuda"'
mkdir "$folder/logs"
tar -C "$folder/logs" -xzf "$folder/results/dry-run.logs.tar.gz"
[ -f "$folder/logs/bench-gpu.log" ] || fail "no log of gpu_bench"
# These tests reach the additions of parts in place.
grep -q 'OK . GiveTheBitsOfTheDefinition/cuda ' "$folder/logs/sanitizer-call-memcheck.log" ||
  fail "the sanitizer does not see sums over groups of rows"
has dry-run.gpu_bench.json '"chosen": "one call"'
for way in exact exact_one_call exact_single_calls fast_fp32; do
  sed -n '/^  "groups": \[/,/^  \]/p' "$folder/results/dry-run.gpu_bench.json" | grep -q "\"$way\": [0-9]" ||
    fail "no time of a sum over groups of rows as $way"
done

# The expectations of a dry run are so high that everything is slower.
slower=dry-run.slower.txt
has $slower '^dry run: forward 96 64 72 exact: [0-9.]* of cublas_fp32, expected 1000\.00; counter waves: 0\.0'
has $slower '^dry run: forward .*; the busiest unit is l1tex__.*: 87 %; warps wait most for long_scoreboard: 1012.5$'
has $slower '^dry run: groups 12 20 50 5 exact: [0-9.]* of exact_single_calls, expected 1000\.00.*; the busiest unit'
# Few rows need few warps. The fake ncu may not read the counters of these kernels.
has $slower '^dry run: k[A-Za-z ]* 64 128: .*; counter warps: 0\.0.*; ncu read no counters'
if grep -v '^dry run: ' "$folder/results/$slower"; then fail "lines that do not say what they are"; fi
# Libraries' kernels have no expectations.
if grep -q -e '^dry run: [a-z0-9_ ]*cublas_[a-z0-9]*:' "$folder/results/$slower"; then fail "cuBLAS was judged"; fi

# If one step fails and another one runs out of time, the results of the others must remain. In this
# build all test programs fail. The bench writes a part of its result, runs until its time ends, and
# ignores SIGTERM.
mkdir -p "$folder/broken/bin"
: >"$folder/broken/CMakeCache.txt"
for program in acan backends_cuda_test backends_op_matrix_test backends_kernel_test backends_gemm_test \
  backends_device_test; do
  printf '#!/bin/sh\necho "cuda:0: it fails"\nexit 1\n' >"$folder/broken/bin/$program"
done
cat >"$folder/broken/bin/gpu_bench_on_cpu" <<'END'
#!/bin/sh
trap '' TERM
while [ "$1" != --out ]; do shift; done
printf '{\n  "complete": false,\n  "slower": [\n    {\n' >"$2"
printf '      "name": "forward 1 1 1 exact",\n      "sentence": "it is slow",\n    }\n  ]\n}\n' >>"$2"
exec sleep infinity
END
chmod +x "$folder"/broken/bin/*
code=0
ACAN_GPU_CHECK_SECONDS=10 "$check" --dry-run "$folder/broken" "$folder/results" \
  >"$folder/console" 2>&1 || code=$?
[ $code -eq 1 ] || fail "a check in which everything fails ended with exit code $code"
has dry-run.summary.json '"train-mixed", "status": "failed with exit code 1"'
has dry-run.summary.json '"bench-gpu", "status": "stopped after [0-9]* s"'
has dry-run.summary.json '"test-device", "status": "no time left"'
has dry-run.gpu_bench.json '"complete": false'
has $slower '^dry run: it is slow$'
has dry-run.weights.json '"same": false.*"same_gpt": false, "same_text": false.*"same_resnet": false'
tar -tzf "$folder/results/dry-run.logs.tar.gz" | grep -q bench-gpu.log || fail "no log of a failed run"
# A test program that had no time did not skip tests.
if grep -q 'though there is a GPU' "$folder/console"; then fail "tests without time count as skipped"; fi

# The reasons of failed steps are on the console: the tests that failed, and the one that hung.
printf '#!/bin/sh\nexit 1\n' >"$folder/broken/bin/gpu_bench_on_cpu"
cat >"$folder/broken/bin/backends_cuda_test" <<'END'
#!/bin/sh
echo '[  FAILED  ] Suite.Broken (3 ms)'
for line in 1 2 3 4 5 6; do echo "later $line"; done
exit 1
END
cat >"$folder/broken/bin/backends_op_matrix_test" <<'END'
#!/bin/sh
echo '[ RUN      ] Suite.Hangs'
exec sleep infinity
END
ACAN_GPU_CHECK_SECONDS=10 "$check" --dry-run "$folder/broken" "$folder/results" \
  >"$folder/console" 2>&1 && fail "a check with a test that hangs passed"
for line in '\[  FAILED  \] Suite.Broken' '\[ RUN      \] Suite.Hangs'; do
  grep -q "^  $line" "$folder/console" || fail "the console has no \"$line\""
done
echo "passed"
