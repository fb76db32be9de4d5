#!/bin/sh
# Installs the missing Debian/Ubuntu packages that acan needs. If all are installed, it does nothing
# and needs no network.
#
#   ./scripts/setup.sh           installs what the build, the tests and the demonstration need
#   ./scripts/setup.sh --check   only reports what is missing; exit code 1 if something needed is
set -eu

needed="g++ cmake ninja-build pkg-config libzmq3-dev cppzmq-dev libopenblas-dev libcli11-dev
  libtomlplusplus-dev nlohmann-json3-dev libspdlog-dev libfmt-dev libflatbuffers-dev
  flatbuffers-compiler libxxhash-dev libssl-dev zlib1g-dev libzstd-dev libgtest-dev
  libgmock-dev"
# Optional packages: ccache makes builds faster; the data set is for the demonstration; the others
# are for OpenCL devices (headers and loader, a driver for CPUs, a library of fast products), for
# fast products in bf16 on CPUs (oneDNN), for a faster memory allocator, for SentencePiece models,
# and for the tests with two hosts and with a Python client.
optional="ccache dataset-fashion-mnist ocl-icd-opencl-dev pocl-opencl-icd libclblast-dev libdnnl-dev
  libjemalloc-dev libsentencepiece-dev iproute2 python3-zmq python3-flatbuffers"
# Used by scripts/lint.sh and scripts/fuzz.sh. This script does not install them: they are large,
# and acan builds and runs without them.
checks="clang-format clang-tidy clang libclang-rt-14-dev"

say() { printf 'setup: %s\n' "$*"; }

check=no
case "$#:${1:-}" in
0:) ;;
1:--check) check=yes ;;
*)
  echo "usage: scripts/setup.sh [--check]" >&2
  exit 2
  ;;
esac

one_line() { printf '%s' "$*" | tr -s ' \n' ' '; }

# Ends the script if the installed CMake is too old, as that of Ubuntu 22.04 is.
require_cmake() {
  command -v cmake >/dev/null 2>&1 || return 0
  version=$(cmake --version | sed -n '1s/^[^0-9]*\([0-9.]*\).*$/\1/p')
  oldest=$(printf '3.25\n%s\n' "$version" | sort -V | head -n 1)
  [ "$oldest" = 3.25 ] && return 0
  say "CMake $version ($(command -v cmake)) is too old: acan needs 3.25 or newer, such as that of" \
    "\`pip install cmake\`"
  exit 1
}

if ! command -v apt-get >/dev/null 2>&1 || ! command -v dpkg-query >/dev/null 2>&1; then
  say "this system has no apt. acan needs what Debian calls: $(one_line "$needed")"
  require_cmake
  if [ "$check" = yes ]; then
    say "whether it is there is not known: the build will say what it does not find"
    exit 1
  fi
  say "going on: the build will say what it does not find"
  exit 0
fi

missing_of() {
  for package in $1; do
    # A line for each architecture.
    dpkg-query -W -f '${db:Status-Status}\n' "$package" 2>/dev/null | grep -qx installed ||
      printf '%s ' "$package"
  done
}

missing=$(missing_of "$needed")
wanted=$(missing_of "$optional")

if [ "$check" = yes ]; then
  [ -z "$wanted" ] || say "not installed, but not needed either: $wanted"
  unchecked=$(missing_of "$checks")
  [ -z "$unchecked" ] || say "for scripts/lint.sh and scripts/fuzz.sh, not installed: $unchecked"
  [ -z "$missing" ] || { say "missing: $missing"; exit 1; }
  require_cmake
  say "all needed packages are installed"
  exit 0
fi

if [ -z "$missing$wanted" ]; then
  require_cmake
  say "all packages are installed"
  exit 0
fi

as_root=""
if [ "$(id -u)" -ne 0 ]; then
  if ! command -v sudo >/dev/null 2>&1; then
    say "missing: $missing$wanted; not root and no sudo: please install them"
    [ -z "$missing" ] || exit 1
    require_cmake
    exit 0
  fi
  as_root="sudo"
fi

install() {
  # Quiet and without questions: this also runs where no user can answer.
  $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "$@"
}

say "updating the package lists"
$as_root apt-get update -q || say "could not update the package lists; trying with those that are there"

if [ -n "$missing" ]; then
  say "installing: $missing"
  # shellcheck disable=SC2086  # a list of words
  install $missing || { say "could not install all of: $missing"; exit 1; }
fi
if [ -n "$wanted" ]; then
  say "installing, as it is useful: $wanted"
  # shellcheck disable=SC2086  # a list of words
  install $wanted || for package in $wanted; do
    install "$package" || say "$package cannot be had here; going on without it"
  done
fi
require_cmake
say "done"
