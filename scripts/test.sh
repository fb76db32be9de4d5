#!/bin/sh
# Installs what is missing, checks the format (scripts/lint.sh), builds with warnings as errors and
# runs all tests; then clang-tidy, and each fuzz target for some seconds. What needs clang is left
# out, aloud, where clang is not installed.
#
#   ./scripts/test.sh [flags of ctest]          for example: ./scripts/test.sh -L cli
#
# With flags it only builds and tests. FUZZ_SECONDS: for each target (5; 0: none).
set -eu
cd "$(dirname "$0")/.."

./scripts/setup.sh
if [ $# -eq 0 ]; then
  # First, as it takes a second.
  ./scripts/lint.sh --if-possible --format
fi
cmake --preset ci
cmake --build --preset ci --parallel "$(nproc)"
# Many tests wait for processes more than they compute.
ctest --preset ci --parallel $(($(nproc) * 3 / 2)) "$@"
if [ $# -eq 0 ]; then
  BUILD=build/ci ./scripts/lint.sh --if-possible --tidy
fi
if [ $# -eq 0 ] && [ "${FUZZ_SECONDS:-5}" -gt 0 ]; then
  # The same draws each time: a change is not refused for what it did not touch.
  FUZZ_SEED="${FUZZ_SEED:-1}" ./scripts/fuzz.sh --if-possible "${FUZZ_SECONDS:-5}"
fi
