#!/bin/sh
# Checks the sources without running them: clang-format against .clang-format over all C++ and CUDA
# sources, then clang-tidy with the checks of .clang-tidy over the sources of the product and the
# benches. Both must be version 14, as each version formats and warns differently. Installs nothing.
#
#   ./scripts/lint.sh                 both; fails if a tool is missing
#   ./scripts/lint.sh --format        only clang-format
#   ./scripts/lint.sh --fix           formats all sources in place
#   ./scripts/lint.sh --tidy          only clang-tidy; scripts/lint_tidy.py says how it saves time
#   ./scripts/lint.sh --tidy --since REVISION --seconds N
#                                     only what differs from REVISION, for at most N seconds
#
# With --if-possible before or after these flags, it succeeds without the tools and prints NOT RUN.
#
# BUILD (build/ci) is a build folder: clang-tidy needs its compile_commands.json and its generated
# headers. scripts/lint_tidy.py says which sources it does not check again.
# Exit code: 1 if something was found, or a tool is missing.
set -eu
cd "$(dirname "$0")/.."

say() { printf 'lint: %s\n' "$*"; }

mode=all
if_possible=no
since=""
seconds=""
usage() {
  echo "usage: scripts/lint.sh [--if-possible] [--format | --fix | --tidy]" \
    "[--since REVISION] [--seconds N]" >&2
  exit 2
}
while [ $# -gt 0 ]; do
  case "$1" in
  --if-possible) if_possible=yes ;;
  --format) mode=format ;;
  --fix) mode=fix ;;
  --tidy) mode=tidy ;;
  --since)
    [ -n "${2:-}" ] || usage
    since=$2
    shift
    ;;
  --seconds)
    [ -n "${2:-}" ] || usage
    seconds=$2
    shift
    ;;
  *) usage ;;
  esac
  shift
done

# tool NAME: prints the path of this program in version 14, or nothing.
tool() {
  for program in "$1-14" "$1"; do
    if command -v "$program" >/dev/null 2>&1 && "$program" --version | grep -q 'version 14\.'; then
      printf '%s' "$program"
      return
    fi
  done
}

# missing NAME: reports the missing tool; returns 1 if that is a failure.
missing() {
  say "NOT RUN: there is no $1 of version 14 (Debian 12: $1)"
  [ "$if_possible" = yes ]
}

failed=no

format=$(tool clang-format)
if [ "$mode" = tidy ]; then
  :
elif [ -z "$format" ]; then
  missing clang-format || failed=yes
else
  sources=$(find . -path ./build -prune -o -path './.*' -prune -o \
    '(' -name '*.h' -o -name '*.cpp' -o -name '*.cu' ')' -type f -print)
  if [ "$mode" = fix ]; then
    # shellcheck disable=SC2086  # a list of words: no source has a space in its name
    "$format" -i $sources
    exit 0
  fi
  # shellcheck disable=SC2086
  if "$format" --dry-run --Werror $sources; then
    say "clang-format: $(printf '%s\n' "$sources" | wc -l) files are formatted"
  else
    say "clang-format: some files are not formatted; scripts/lint.sh --fix formats them"
    failed=yes
  fi
fi

if [ "$mode" = all ] || [ "$mode" = tidy ]; then
  tidy=$(tool clang-tidy)
  if [ -z "$tidy" ]; then
    missing clang-tidy || failed=yes
  elif [ -n "$since" ] && ! git rev-parse --quiet --verify "$since^{commit}" >/dev/null; then
    say "clang-tidy: NOT RUN: git does not know the revision $since"
    [ "$if_possible" = yes ] || failed=yes
  else
    python3 scripts/lint_tidy.py "$tidy" "${BUILD:-build/ci}" ${since:+--since "$since"} \
      ${seconds:+--seconds "$seconds"} || failed=yes
  fi
fi

[ "$failed" = no ]
