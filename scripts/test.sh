#!/bin/sh
# Installs missing packages, checks the format (scripts/lint.sh), builds with warnings as errors and
# runs all tests; then runs clang-tidy, and each fuzz target for some seconds. Steps that need clang
# are skipped with a message if clang is not installed.
#
#   ./scripts/test.sh [flags of ctest]          for example: ./scripts/test.sh -L cli
#
# With flags, it only builds and tests. FUZZ_SECONDS: time for each target (5; 0: none).
# WERROR=OFF: warnings are no errors, for compilers that are newer than those acan is tested with
# (gcc 12, clang 14) and warn of more.
set -eu
cd "$(dirname "$0")/.."

./scripts/setup.sh
if [ $# -eq 0 ]; then
  # This comes first because it takes only a second.
  ./scripts/lint.sh --if-possible --format
fi
cmake --preset ci "-DACAN_WERROR=${WERROR:-ON}"
cmake --build --preset ci --parallel "$(nproc)"
# Many tests mostly wait for processes instead of computing.
ctest --preset ci --parallel $(($(nproc) * 3 / 2)) "$@"
if [ $# -eq 0 ]; then
  BUILD=build/ci ./scripts/lint.sh --if-possible --tidy
fi
if [ $# -eq 0 ] && [ "${FUZZ_SECONDS:-5}" -gt 0 ]; then
  # The same random choices each time, so that a change is not refused for something that it did not
  # touch.
  FUZZ_SEED="${FUZZ_SEED:-1}" ./scripts/fuzz.sh --if-possible "${FUZZ_SECONDS:-5}"
fi
