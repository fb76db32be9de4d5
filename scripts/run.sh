#!/bin/sh
# Installs what is missing, builds acan and trains a first model with it.
#
#   ./scripts/run.sh [flags of acan train]      for example: ./scripts/run.sh --set train.epochs=2
set -eu
cd "$(dirname "$0")/.."

say() { printf 'run: %s\n' "$*"; }

./scripts/setup.sh
# CUDA only for the GPUs that are here; where there is none, for the oldest that acan supports, with
# code (PTX) that newer ones can run too.
architectures=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null |
  sed -n 's/^\([0-9]*\)\.\([0-9]*\)$/\1\2-real/p' | sort -u | paste -s -d ';' -) || architectures=""
say "building (the first time takes some minutes)"
cmake --preset release "-DACAN_CUDA_ARCHITECTURES=${architectures:-75}" >/dev/null
cmake --build --preset release --target acan --parallel "$(nproc)"

data=/usr/share/datasets/fashion-mnist/train-images-idx3-ubyte.gz
if [ -r "$data" ]; then
  job=examples/fashion-mnist.toml
else
  say "the data set Fashion-MNIST is not installed ($data is missing): training on generated data instead"
  job=examples/regression.toml
fi

# Four handlers, each of which may hold at most 512 KiB: less than a quarter of the first job's weights.
# One of them is a GPU or an OpenCL device, if there is one that is exact; the bits are the same.
handlers=4xcpu:1@512KiB
devices=$(./build/release/bin/acan devices --json)
for device in cuda:0 opencl:0; do
  # An object has its keys in alphabetical order.
  if printf '%s' "$devices" | tr '}' '\n' | grep -q "\"exact\":true.*\"name\":\"$device\".*\"usable\":true"; then
    say "$device can compute the same bits as the CPU: it is one of the handlers"
    handlers=3xcpu:1@512KiB,$device@512KiB
    break
  fi
done
say "./build/release/bin/acan train $job --handlers $handlers --out out/first $*"
exec ./build/release/bin/acan train "$job" --handlers "$handlers" --out out/first "$@"
