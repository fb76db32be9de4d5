#!/bin/sh
# Installs what is missing, builds with warnings as errors and runs all tests; then clang-format
# (scripts/lint.sh), and each fuzz target for some seconds, where their tools are there.
#
#   ./scripts/test.sh [flags of ctest]          for example: ./scripts/test.sh -L cli
#
# With flags it only builds and tests. FUZZ_SECONDS: for each target (5; 0: none).
set -eu
cd "$(dirname "$0")/.."

./scripts/setup.sh
cmake --preset ci
cmake --build --preset ci --parallel "$(nproc)"
ctest --preset ci --parallel "$(nproc)" "$@"
if [ $# -eq 0 ]; then
  ./scripts/lint.sh --if-possible --format
fi
if [ $# -eq 0 ] && [ "${FUZZ_SECONDS:-5}" -gt 0 ]; then
  # The same draws each time: a change is not refused for what it did not touch.
  FUZZ_SEED="${FUZZ_SEED:-1}" ./scripts/fuzz.sh --if-possible "${FUZZ_SECONDS:-5}"
fi
