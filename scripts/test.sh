#!/bin/sh
# Installs what is missing, builds with warnings as errors and runs all tests.
#
#   ./scripts/test.sh [flags of ctest]          for example: ./scripts/test.sh -L cli
set -eu
cd "$(dirname "$0")/.."

./scripts/setup.sh
cmake --preset ci
cmake --build --preset ci --parallel "$(nproc)"
exec ctest --preset ci --parallel "$(nproc)" "$@"
