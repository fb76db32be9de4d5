#!/bin/sh
# Installs missing packages, builds acan and trains a first model with it.
#
#   ./scripts/run.sh [flags of acan train]      for example: ./scripts/run.sh --set train.epochs=2
set -eu
cd "$(dirname "$0")/.."

say() { printf 'run: %s\n' "$*"; }

./scripts/setup.sh
# Builds only what this machine can use, so that the first model is ready soon: the best vector
# instructions of its CPU, its NVIDIA GPUs, and no tests. `cmake --preset release` configures
# everything.
cpu_has() {
  for flag in "$@"; do grep -q -m 1 "^flags.* $flag\( \|$\)" /proc/cpuinfo 2>/dev/null || return 1; done
}
isas=""
if cpu_has avx2 fma; then isas=avx2; fi
if cpu_has avx2 fma avx512f avx512vl avx512dq avx512bw; then isas=avx512; fi
architectures=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null |
  sed -n 's/^\([0-9]*\)\.\([0-9]*\)$/\1\2-real/p' | sort -u | paste -s -d ';' -) || architectures=""
if [ -z "$architectures" ] && [ -e /dev/nvidiactl ]; then
  architectures=75  # the oldest that acan supports, with PTX that newer GPUs can run
fi
cuda=OFF
if [ -n "$architectures" ]; then cuda=AUTO; fi
say "building for this machine (the first time takes some minutes): code for ${isas:-any CPU}," \
  "CUDA ${architectures:-left out, as there is no NVIDIA GPU}"
configured=$(cmake --preset release -DACAN_TESTS=OFF "-DACAN_CPU_ISAS=$isas" "-DACAN_CUDA=$cuda" \
  ${architectures:+"-DACAN_CUDA_ARCHITECTURES=$architectures"}) || {
  printf '%s\n' "$configured"
  exit 1
}
# Why an NVIDIA GPU will or will not be used.
printf '%s\n' "$configured" | sed -n 's/^-- CUDA \(module\|is left out\): /run: CUDA \1: /p'
cmake --build --preset release --target acan --parallel "$(nproc)"

data=/usr/share/datasets/fashion-mnist/train-images-idx3-ubyte.gz
if [ -r "$data" ]; then
  job=examples/fashion-mnist.toml
else
  say "the data set Fashion-MNIST is not installed ($data is missing): training on generated data instead"
  job=examples/regression.toml
fi

# Four handlers that may each use at most 512 KiB: less than a quarter of the first job's weights.
# If there is a GPU or an OpenCL device, one handler uses it; the bits are the same. That handler
# proves the device when it starts, and the training does not wait if this takes long.
handlers=4xcpu:1@512KiB
devices=$(./build/release/bin/acan devices --list --json)
for device in cuda:0 opencl:0; do
  # JSON objects have their keys in alphabetical order.
  if printf '%s' "$devices" | tr '}' '\n' | grep -q "\"name\":\"$device\".*\"exact\".*\"usable\":true"; then
    say "$device is one of the handlers"
    handlers=3xcpu:1@512KiB,$device@512KiB
    set -- --set tasks.leave_out_slow=false "$@"  # all of them take part, however slow
    break
  fi
done
say "./build/release/bin/acan train $job --handlers $handlers --out out/first $*"
exec ./build/release/bin/acan train "$job" --handlers "$handlers" --out out/first "$@"
