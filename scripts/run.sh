#!/bin/sh
# Installs what is missing, builds acan and trains a first model with it.
#
#   ./scripts/run.sh [flags of acan train]      for example: ./scripts/run.sh --set train.epochs=2
set -eu
cd "$(dirname "$0")/.."

say() { printf 'run: %s\n' "$*"; }

./scripts/setup.sh
say "building (the first time takes some minutes)"
cmake --preset release >/dev/null
cmake --build --preset release --target acan --parallel "$(nproc)"

data=/usr/share/datasets/fashion-mnist/train-images-idx3-ubyte.gz
if [ -r "$data" ]; then
  job=examples/fashion-mnist.toml
else
  say "the data set Fashion-MNIST is not installed ($data is missing): training on generated data instead"
  job=examples/regression.toml
fi

# Four handlers, each of which may hold at most 512 KiB: less than a quarter of the first job's weights.
say "./build/release/bin/acan train $job --handlers 4xcpu:1@512KiB --out out/first $*"
exec ./build/release/bin/acan train "$job" --handlers 4xcpu:1@512KiB --out out/first "$@"
