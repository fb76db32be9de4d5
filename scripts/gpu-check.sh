#!/bin/sh
# Proves acan on a machine with one NVIDIA GPU and measures it there, within 8 minutes. The machine
# needs no network.
#
#   scripts/gpu-check.sh --carry     on a machine without a GPU where acan builds with CUDA: builds
#                                    the programs of the check and packs them with their libraries
#                                    into .gpu-deps/ (ignored by git), which is copied to the GPU
#                                    machine. That machine then needs only tar; without .gpu-deps/,
#                                    acan is built there, with nvcc and acan's packages
#   scripts/gpu-check.sh [FOLDER]    on the GPU machine: writes results to FOLDER, else $OUT, else
#                                    out/gpu-check: summary, devices, weights, gpu_bench (JSON),
#                                    slower (text), and, packed, comparisons (*_bench, gpt_* and
#                                    attention, JSON) and logs. They are few files, at most seven,
#                                    because they may be copied to another machine
#   scripts/gpu-check.sh --dry-run BUILD [FOLDER]
#                                    without a GPU, in 2 minutes: the same steps with the programs
#                                    of an existing build folder on a fake GPU, with fewer tests
#                                    and small shapes. It tests this script and measures nothing: it
#                                    expects so much speed that everything counts as slower. Each
#                                    line and each result states that it belongs to a dry run, and
#                                    the names of result files begin with dry-run.
#
# The most important checks come first: whether the GPU is exact, then equal weights, then speeds,
# then single tests. Each step has a time limit, and a failed step does not stop the others. Results
# are written as soon as they exist, those of gpu_bench after each part.
#
# slower.txt has a line for each speed below the expected one, with the counter that shows the most
# likely reason: from Nsight Compute (ncu) if it is installed and may read the GPU's counters, else
# from gpu_bench itself. docs/devices.md explains them. A low speed is reported but is not a
# failure.
#
# ACAN_CUDA_ARCHITECTURES (default 90-real) selects what to compile for. After
# ACAN_GPU_CHECK_SECONDS (470), no step starts or continues. Exit codes: 0 all passed, 1 something
# failed, 3 there is no GPU (everything that needs none was done).
set -eu
cd "$(dirname "$0")/.."

dry_run=false
say() {
  if $dry_run; then printf 'gpu-check (dry run on a fake GPU): %s\n' "$*"; else printf 'gpu-check: %s\n' "$*"; fi
}

# ---- --carry -------------------------------------------------------------------------------------

tests="cuda op_matrix kernel call device gemm"
# shellcheck disable=SC2086  # a list of words
test_programs=$(printf 'backends_%s_test ' $tests)

options="-G Ninja -DCMAKE_BUILD_TYPE=Release -DACAN_CUDA=ON -DACAN_OPENCL=OFF -DACAN_TEST_GPU=real
  -DACAN_CUDA_ARCHITECTURES=${ACAN_CUDA_ARCHITECTURES:-90-real}"

carry() {
  from=build/gpu-carry
  # shellcheck disable=SC2086  # a list of words
  cmake -S . -B $from $options
  # shellcheck disable=SC2086  # a list of words
  cmake --build $from --parallel "$(nproc)" --target acan gpu_bench $test_programs
  rm -rf .gpu-deps
  root=.gpu-deps/root
  mkdir -p $root/bin $root/lib/acan $root/system
  for program in acan gpu_bench $test_programs; do cp "$from/bin/$program" $root/bin; done
  cp $from/lib/acan/*.so $root/lib/acan
  # The GPU machine's own C and C++ libraries are used: NVIDIA's driver may need newer ones.
  ldd $root/bin/* $root/lib/acan/* | sed -n 's/^.* => \(\/.*\) (0x.*$/\1/p' | sort -u |
    grep -v -E '/(libc|libm|libdl|librt|libpthread|libresolv|libstdc\+\+|libgcc_s)\.so' |
    while read -r library; do cp -L "$library" $root/system; done
  strip --strip-unneeded $root/bin/* $root/lib/acan/* $root/system/*
  tar -C $root -czf .gpu-deps/programs.tar.gz .
  rm -rf $root
  kib=$(du -sk .gpu-deps | cut -f 1)
  say ".gpu-deps has $((kib / 1024)) MiB"
  # It is copied with the sources, which have about 10 MiB; together they stay below 64 MiB.
  [ "$kib" -lt 53248 ] || { say "that is more than 52 MiB"; exit 1; }
}

if [ "${1:-}" = --carry ]; then
  carry
  exit 0
fi

# ---- on the machine ------------------------------------------------------------------------------

# The prefix of the names of results.
mark=""
if [ "${1:-}" = --dry-run ]; then
  [ -f "${2:-}/CMakeCache.txt" ] || { say "--dry-run: \"${2:-}\" is not the folder of a build"; exit 2; }
  dry_run=true
  mark=dry-run.
  build=$(cd "$2" && pwd)
  shift 2
fi
case "$#:${1:-}" in
0: | 1:[!-]*) ;;
*)
  echo "usage: scripts/gpu-check.sh [--carry | [--dry-run BUILD] [FOLDER]]" >&2
  exit 2
  ;;
esac
out=${1:-${OUT:-out/gpu-check}}
mkdir -p "$out"
out=$(cd "$out" && pwd)
if $dry_run; then
  work=$(mktemp -d "$out/work-XXXXXX")
  # Deletes the dry run's logs and trained models after packing the logs.
  trap 'tar -C "$logs" -czf "$out/${mark}logs.tar.gz" . && rm -rf "$work"' EXIT
else
  build=build/gpu-check
  work=$build
  trap 'tar -C "$logs" -czf "$out/${mark}logs.tar.gz" .' EXIT
fi
# Without these traps, a shell that a signal ends would leave no logs.
trap 'exit 130' INT
trap 'exit 143' TERM
logs=$work/logs
comparisons=$work/comparisons
rm -rf "$logs" "$comparisons"
mkdir -p "$logs" "$comparisons"
begin=$(date +%s)
deadline=$((begin + ${ACAN_GPU_CHECK_SECONDS:-470}))
steps=""
failed=""

# last_words LOG: prints the first tests that failed, or the last lines if no test did.
last_words() { grep -m 5 '^\[  FAILED  \] .* ms)$' "$1" || tail -n 5 "$1"; }

left_out="left out"
# step NAME SECONDS COMMAND...: runs the command for at most that long, with its output in NAME.log,
# and writes summary.json. A command that ignores SIGTERM is killed 5 s later. Exit code 77 of the
# command means that this machine cannot do the step, which is not a failure.
step() {
  name=$1
  left=$((deadline - $(date +%s)))
  limit=$2
  ! $dry_run || limit=$((limit * 3))  # a fake GPU computes on the CPU
  [ "$limit" -le "$left" ] || limit=$left
  shift 2
  from=$(date +%s)
  : >"$logs/$name.log"
  if [ "$limit" -lt 1 ]; then
    status="no time left"
  elif timeout -k 5 "$limit" "$@" >"$logs/$name.log" 2>&1; then
    status=passed
  else
    code=$?
    status="failed with exit code $code"
    [ $code -ne 124 ] && [ $code -ne 137 ] || status="stopped after $limit s"
    [ $code -ne 77 ] || status=$left_out
  fi
  seconds=$(($(date +%s) - from))
  say "$name: $status ($seconds s)"
  steps="$steps${steps:+, }{\"name\": \"$name\", \"status\": \"$status\", \"seconds\": $seconds}"
  case $status in
    passed | "$left_out") ;;
    *)
      failed="$failed $name"
      last_words "$logs/$name.log" | sed 's/^/  /'
      ;;
  esac
  printf '{"dry_run": %s, "steps": [%s]}\n' $dry_run "$steps" >"$out/${mark}summary.json"
  [ "$status" = passed ]
}

# build_step NAME SECONDS TARGET...
build_step() {
  target_of=$1
  most=$2
  shift 2
  step "$target_of" "$most" cmake --build "$build" --parallel "$(nproc)" --target "$@" ||
    grep -E -m 10 'error|FAILED' "$logs/$target_of.log" | sed 's/^/  /' || true
}

# CUDA toolkits may be installed in parts: cuBLAS may be in another folder.
somewhere() { timeout 20 find /usr /opt /root /home -name "$1" 2>/dev/null | head -n 1; }
# The backend opens the cuBLAS of the major version with which it was built; PyTorch may have brought
# another one.
find_cublas() {
  missing=$(timeout -k 5 30 "$build/bin/acan" devices --list 2>/dev/null |
    sed -n 's/.*no cuBLAS.*\(libcublas\.so\.[0-9]*\).*/\1/p' | head -n 1)
  [ -n "$missing" ] || return 0
  library=$(somewhere "$missing")
  [ -n "$library" ] || { say "no $missing: what is compared with cuBLAS is left out"; return 0; }
  LD_LIBRARY_PATH="${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$(dirname "$library")"
  export LD_LIBRARY_PATH
}

# Unpacks the programs that --carry built, with the libraries that this machine may lack.
unpack_programs() {
  say "the programs are those of .gpu-deps/programs.tar.gz"
  tar -C "$build" -xzf .gpu-deps/programs.tar.gz
  export LD_LIBRARY_PATH="$PWD/$build/system${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
}

# Configures for a GPU, and builds the program and its benchmark.
build_program() {
  if ! command -v nvcc >/dev/null 2>&1; then PATH=$PATH:/usr/local/cuda/bin; fi
  command -v nvcc >/dev/null 2>&1 || { say "there is no nvcc, in /usr/local/cuda/bin neither"; exit 1; }
  say "no .gpu-deps/programs.tar.gz (made by --carry): building with the system's packages"
  set --
  toolkit=$(dirname "$(dirname "$(readlink -f "$(command -v nvcc)")")")
  if [ ! -f "$toolkit/include/cublas_v2.h" ]; then
    header=$(somewhere cublas_v2.h)
    [ -z "$header" ] || set -- "-DACAN_CUBLAS_INCLUDE_DIR=$(dirname "$header")"
  fi
  # shellcheck disable=SC2086  # a list of words
  step configure 60 cmake -S . -B "$build" $options "$@" || {
    tail -n 15 "$logs"/configure.log
    exit 1
  }
  build_step build 220 acan
  build_step build-bench 90 gpu_bench
}

carried=false
if $dry_run; then
  export ACAN_MODULE_PATH="$build/tests/cuda_on_cpu/module:$build/lib/acan" ACAN_FAKE_GPUS=sm_90
else
  # Make sure that no fake GPU replaces a real one.
  unset ACAN_MODULE_PATH ACAN_FAKE_GPUS
  if [ -f .gpu-deps/programs.tar.gz ]; then
    carried=true
    unpack_programs
  else
    build_program
  fi
  find_cublas
fi

bin=$build/bin
# Lists each device once it is proved and measured; the JSON list follows later if there is time for
# a second pass. On a fake GPU, the proof is so slow that it runs once. Exit code 1: one is not
# exact.
as_json=""
! $dry_run || as_json=--json
# shellcheck disable=SC2086  # a word or none
step devices 60 "$bin/acan" devices $as_json || true
sed 's/^/  /' "$logs/devices.log"
# This list also shows a GPU that could not be proved within the time.
timeout -k 5 30 "$bin/acan" devices --list >"$logs/list.log" 2>&1 || true
if [ -x "$bin/acan" ] && ! grep -q '^cuda:0' "$logs/devices.log" "$logs/list.log"; then
  $dry_run || $carried || build_step build-tests 150 backends_cuda_test
  step tests-without-gpu 60 "$bin/backends_cuda_test" || true
  say "no GPU: $(sed -n '/^cuda$/{n;s/^ *NOT usable *//p}' "$logs/list.log")"
  [ -z "$failed" ] || { say "failed before that:$failed"; exit 1; }
  exit 3
fi

hash_of() { sed -n 's/.*"weights_sha256": *"\([0-9a-f]*\)".*/\1/p' "$logs/$1.log" | tail -n 1; }
# The tiles are so large that results stay on the GPU until something requests them.
size="--set model.layers=[32,1024,1024,4] --set tasks.size_bytes=1MiB"
beside_gpu=cpu:1
if $dry_run; then
  size="--set model.layers=[256,64,4] --set data.samples=512 --set tasks.size_bytes=16KiB"
  # The largest task needs 112KiB at its smallest. So the job waits for a fake GPU that joins late,
  # as on a busy machine, and needs it in each step, however fast the others are.
  beside_gpu=cpu:1@96KiB
fi
job="examples/regression.toml --set train.epochs=1 --set tasks.leave_out_slow=false $size --json"
# train NAME HANDLERS JOB...
train() {
  trained=$1
  handlers=$2
  shift 2
  step "$trained" 60 "$bin/acan" train "$@" --handlers "$handlers" --out "$work/$trained" || true
}
# shellcheck disable=SC2086  # words
{
  train train-cpu cpu:1 $job
  train train-cuda cuda:0@1GiB $job
  train train-mixed $beside_gpu,cuda:0@1GiB,$beside_gpu $job
}
same=false
if [ -n "$(hash_of train-cpu)" ] && [ "$(hash_of train-cpu)" = "$(hash_of train-cuda)" ] &&
  [ "$(hash_of train-cpu)" = "$(hash_of train-mixed)" ]; then
  same=true
else
  failed="$failed same-weights"
fi
for run in train-cuda train-mixed; do
  grep -q '"device":"cuda:0"[^}]*"tasks":[1-9]' "$logs/$run.log" || {
    say "$run: cuda:0 did no task"
    failed="$failed $run-without-cuda"
  }
done
say "weights of cpu, cuda and both together: the same bits: $same"

# Trains a GPT to check its operators, and generates text from cached keys and values.
layers="n_layer = 2, n_head = 4, n_embd = 256, block_size = 256"
gpt_steps=20
tokens=100
if $dry_run; then
  layers="n_layer = 1, n_head = 2, n_embd = 32, block_size = 16"
  gpt_steps=2
  tokens=4
fi
cat >"$work/gpt.toml" <<END
model = { kind = "gpt", $layers, vocab_size = 256, dropout = 0.1 }
data = { text = "$PWD/README.md", tokenizer = "bytes" }
train = { batch = 8, steps = $gpt_steps, optimizer = "adamw", learning_rate = 1e-3, clip_norm = 1.0 }
END
train train-gpt-cpu cpu:1 "$work/gpt.toml" --json
train train-gpt-cuda cuda:0@1GiB "$work/gpt.toml" --json
# generate NAME DEVICE: writes the text to NAME.text in the folder of logs
generate() {
  # shellcheck disable=SC2016  # the inner shell's variables
  step "$1" 60 sh -c '"$0" generate "$1" --prompt "A handler" --tokens "$2" --device "$3" >"$4"' \
    "$bin/acan" "$work/train-gpt-cpu" $tokens "$2" "$logs/$1.text"
}
same_gpt=false
if [ -n "$(hash_of train-gpt-cpu)" ] && [ "$(hash_of train-gpt-cpu)" = "$(hash_of train-gpt-cuda)" ]; then
  same_gpt=true
else
  failed="$failed same-gpt"
fi
same_text=false
if generate generate-cpu cpu:1 && generate generate-cuda cuda:0@1GiB &&
  cmp -s "$logs/generate-cpu.text" "$logs/generate-cuda.text"; then
  same_text=true
else
  failed="$failed same-text"
fi
say "a GPT of cpu and cuda: the same bits: $same_gpt; its text: the same: $same_text"

# Trains a ResNet to check the calls of convolutions. A sample's rows are no power of two of leaves,
# so that each sample is a group of the gradients' rows. Images and labels are made from texts.
side=28
images=128
stages="widths = [16, 32], blocks = [1, 1]"
resnet_steps=8
if $dry_run; then
  side=6
  images=16
  stages="widths = [4], blocks = [1]"
  resnet_steps=2
fi
# octal NUMBER: prints the bytes of a number below 65536 in an IDX file's header, for printf.
octal() { printf '\\000\\000\\%03o\\%03o' $(($1 / 256)) $(($1 % 256)); }
{
  # shellcheck disable=SC2059  # the format is the bytes
  printf "\\000\\000\\010\\003$(octal $images)$(octal $side)$(octal $side)"
  cat docs/*.md | head -c $((images * side * side))
} >"$work/images"
{
  # shellcheck disable=SC2059  # the format is the bytes
  printf "\\000\\000\\010\\001$(octal $images)"
  head -c $images README.md | tr '\000-\140\141-\155\156-\377' '[\000*97][\001*13][\002*]'
} >"$work/labels"
cat >"$work/resnet.toml" <<END
model = { kind = "resnet", image_size = $side, channels = 1, stem = "small", $stages, num_classes = 3 }
data = { train_inputs = "images", train_labels = "labels" }
train = { batch = $((images / 2)), steps = $resnet_steps, optimizer = "momentum", learning_rate = 0.01 }
END
train train-resnet-cpu cpu:1 "$work/resnet.toml" --json
train train-resnet-cuda cuda:0@1GiB "$work/resnet.toml" --json
same_resnet=false
if [ -n "$(hash_of train-resnet-cpu)" ] &&
  [ "$(hash_of train-resnet-cpu)" = "$(hash_of train-resnet-cuda)" ]; then
  same_resnet=true
else
  failed="$failed same-resnet"
fi
say "a ResNet of cpu and cuda: the same bits: $same_resnet"
{
  printf '{"dry_run": %s, "cpu": "%s", "cuda": "%s", "mixed": "%s", "same": %s, ' $dry_run \
    "$(hash_of train-cpu)" "$(hash_of train-cuda)" "$(hash_of train-mixed)" $same
  printf '"gpt_cpu": "%s", "gpt_cuda": "%s", "same_gpt": %s, "same_text": %s, ' \
    "$(hash_of train-gpt-cpu)" "$(hash_of train-gpt-cuda)" $same_gpt $same_text
  printf '"resnet_cpu": "%s", "resnet_cuda": "%s", "same_resnet": %s}\n' \
    "$(hash_of train-resnet-cpu)" "$(hash_of train-resnet-cuda)" $same_resnet
} >"$out/${mark}weights.json"

# ---- speeds --------------------------------------------------------------------------------------

# marked FILE: prints a JSON object with an additional field that tells whether it is from a dry
# run.
marked() { sed "1s/^{/{\"dry_run\": $dry_run, /" "$1"; }

# shellcheck source=scripts/gpu-check-slower.sh
. scripts/gpu-check-slower.sh

# Packs the comparisons up to now.
pack_comparisons() { tar -C "$comparisons" -czf "$out/${mark}comparisons.tar.gz" .; }

bench=$bin/gpu_bench
! $dry_run || bench="$bin/gpu_bench_on_cpu --quick --expect 1000"
measured=$logs/gpu_bench.json
# If the time runs out, the measurements up to then are still valid.
# shellcheck disable=SC2086  # words
step bench-gpu 110 $bench --out "$measured" || true
if [ -s "$measured" ]; then
  marked "$measured" >"$out/${mark}gpu_bench.json"
  slower_than_expected "$measured" ""
fi
# bench_train NAME OPTION...: compares a full stack with a plain loop on the same GPU.
bench_train() {
  bench_name=$1
  shift
  step "bench-$bench_name" 60 "$bin/acan" bench train "$@" --repeats 1 --json || return 0
  result=$comparisons/${mark}${bench_name}_bench.json
  tail -n 1 "$logs/bench-$bench_name.log" >"$logs/bench.json"
  marked "$logs/bench.json" >"$result"
  pack_comparisons
  grep -q '"same_weights": *true' "$result" || {
    say "bench-$bench_name: the weights are not those of the plain loop"
    failed="$failed bench-$bench_name-same-weights"
  }
}
if $dry_run; then
  bench_train train --device cuda:0@64MiB --layers 64,64 --batch 64 --steps 4
else
  bench_train train --device cuda:0@16GiB --layers 8192,8192,8192 --batch 4096 --steps 6
  bench_train two_handlers --handlers 2 --device cuda:0@4GiB --layers 4096,4096,4096 --batch 2048 \
    --steps 8
  # The weights take twice as much memory as the handler may use.
  bench_train large_model --device cuda:0@4GiB --memory 64MiB --layers 4096,4096,4096 --batch 2048 \
    --steps 6
fi

# gpt RECIPE STEPS: compares a GPT with PyTorch in float32 on the same GPU.
gpt() {
  name_of_gpt=gpt_$(echo "$1" | tr / _)
  step "$name_of_gpt" 90 python3 bench/compare/gpt.py --speed --acan "$bin/acan" --recipe "$1" \
    --handlers cuda:0@16GiB --steps "$2" --rounds 1 --json "$comparisons/$name_of_gpt.json" || true
  pack_comparisons
}
# Compares the attention that gpu_bench measured with PyTorch's in float32 on the same GPU.
attention() {
  step attention 45 python3 bench/compare/gpu_attention.py "$measured" \
    --json "$comparisons/attention.json" || true
  pack_comparisons
}
if $dry_run; then
  say "PyTorch has no fake GPU: no GPT or attention is compared"
elif python3 -c 'import torch, sys; sys.exit(not torch.cuda.is_available())' 2>/dev/null; then
  gpt 6x384/256/16 60
  [ ! -s "$measured" ] || attention
  gpt 12x768/1024/8 15
else
  say "there is no PyTorch with CUDA: no GPT or attention is compared"
fi

# sharded NAME SECONDS PROGRAM FILTER: runs the program's tests in as many processes as is useful.
# The log ends with what failed. If the time runs out, it ends with the tests that were running.
sharded() {
  shards=$(($(nproc) / 2))
  [ $shards -ge 1 ] || shards=1
  [ $shards -le 8 ] || shards=8
  ! $dry_run || shards=1
  # shellcheck disable=SC2016  # the inner shell's variables
  step "$1" "$2" sh -c '
    shards=$1; shift
    trap "cat \"\$0\".*; tail -q -n 1 \"\$0\".*; rm \"\$0\".*; exit 1" TERM
    running=""
    for index in $(seq 0 $((shards - 1))); do
      GTEST_TOTAL_SHARDS=$shards GTEST_SHARD_INDEX=$index "$@" >"$0.$index" 2>&1 &
      running="$running $!"
    done
    index=0
    failed=""
    for process in $running; do
      if wait "$process"; then cat "$0.$index"; else failed="$failed $index"; fi
      index=$((index + 1))
    done
    for index in $failed; do cat "$0.$index"; done
    rm "$0".*
    [ -z "$failed" ]' "$logs/$1.shard" $shards "$3" "--gtest_filter=$4"
}

# Runs the tests on the GPU, one program after the other.
run_tests() {
  # The test programs report what they skip; here, a test that did not run on the GPU is a failure.
  # A dry run needs only some tests: acan's ordinary tests run all of them on fake GPUs.
  for test in $tests; do
    case $dry_run-$test in
      true-cuda) filter='CudaErrors*' ;;
      true-kernel) filter='*Add/cuda_tile32' ;;
      true-call) filter='*Dropout*/cuda' ;;
      true-gemm) filter='*SpecialValues*/cuda_tile32*' ;;
      true-*) filter='*/cuda_tile32' ;;
      *-cuda) filter='*' ;;
      *) filter='*cuda*' ;;
    esac
    sharded "test-$test" 60 "$bin/backends_${test}_test" "$filter" || continue
    # Some GPUs have too little shared memory for the largest tiles.
    skipped=$(grep -c '^\[  SKIPPED \] .* ms)$' "$logs/test-$test.log" || true)
    lacking=$(grep -c 'the GPU lacks these tiles' "$logs/test-$test.log" || true)
    if [ "$skipped" -gt "$lacking" ] || ! grep -q '^\[ RUN ' "$logs/test-$test.log"; then
      say "test-$test: skipped tests, though there is a GPU"
      failed="$failed test-$test-skipped"
    fi
  done
}

# A dry run's build already has the tests.
# shellcheck disable=SC2086  # a list of words
$dry_run || $carried || build_step build-tests 150 $test_programs
run_tests
if $dry_run; then
  cp "$logs/devices.log" "$logs/devices-json.log"
else
  step devices-json 45 "$bin/acan" devices --json || true
fi
sed -n 's/^\[/[/p' "$logs/devices-json.log" >"$out/${mark}devices.json"

profiler=$(command -v ncu || true)
[ -n "$profiler" ] || say "there is no ncu: the counters are those of gpu_bench"
if [ -n "$profiler" ] && [ -s "$measured" ]; then slower_than_expected "$measured" "$profiler"; fi

# sanitize NAME TOOL PROGRAM FILTER: runs the program's tests under compute-sanitizer. It fails if
# no test passes, for example because the filter matches none.
sanitize() {
  # shellcheck disable=SC2016  # the inner shell's variables
  step "sanitizer-$1" 60 sh -c '
    "$@"
    code=$?
    if grep -q "Device not supported" "$0"; then exit 77; fi
    [ $code -eq 0 ] || exit $code
    grep -q "^\[       OK \]" "$0" || { echo "no test ran on the GPU"; exit 1; }' \
    "$logs/sanitizer-$1.log" compute-sanitizer --tool "$2" --error-exitcode 9 \
    "$bin/backends_$3_test" "--gtest_filter=$4" || true
}

if ! command -v compute-sanitizer >/dev/null 2>&1; then
  say "there is no compute-sanitizer"
elif $dry_run && ! compute-sanitizer --version | grep -q stand-in; then
  say "a fake GPU is nothing for compute-sanitizer: it checks accesses itself"
else
  for tool in memcheck racecheck; do
    sanitize $tool $tool gemm '*SpecialValues*cuda_*'
  done
  sanitize kernels memcheck kernel '*cuda*'
  # These kernels have most of the barriers and copies into shared memory. Groups of rows begin
  # anywhere, and parts are added in place.
  for tool in memcheck racecheck synccheck; do
    sanitize call-$tool $tool call '*AttentionTest*cuda:*RowKernelTest*cuda:*GroupCallsTest*cuda'
  done
  if grep -q "$left_out" "$out/${mark}summary.json"; then
    say "compute-sanitizer does not support this device: what it refused is left out"
  fi
fi

say "results are in $out, after $(($(date +%s) - begin)) s"
[ -z "$failed" ] || { say "failed:$failed"; exit 1; }
say "all passed"
