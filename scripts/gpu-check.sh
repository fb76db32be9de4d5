#!/bin/sh
# Builds acan on a bare machine with one NVIDIA GPU, proves it there and measures it, within 8 minutes.
# The machine needs CUDA's toolkit, CMake, g++ and tar; no network and none of acan's packages.
#
#   scripts/gpu-check.sh --carry     where there is a network and apt: packs what the machine lacks
#                                    into .gpu-deps/ (ignored by git; 18 MiB), to be carried along
#   scripts/gpu-check.sh [FOLDER]    on the machine: results in FOLDER, else $OUT, else out/gpu-check:
#                                    summary, devices, weights, gpu_bench, train_bench (JSON), logs
#
# ACAN_CUDA_ARCHITECTURES (default 90-real) is what is compiled for. Exit codes: 0 all passed, 1 not
# all, 3 there is no GPU (everything that needs none was done).
set -eu
cd "$(dirname "$0")/.."

say() { printf 'gpu-check: %s\n' "$*"; }

# ---- --carry -------------------------------------------------------------------------------------

packages="libzmq3-dev libzmq5 libsodium23 libpgm-5.3-0 libnorm1 libgssapi-krb5-2 libkrb5-3
  libk5crypto3 libkrb5support0 libcom-err2 libkeyutils1 libbsd0 libmd0 cppzmq-dev libopenblas0-pthread
  libopenblas-pthread-dev libgfortran5 libquadmath0 libcli11-dev libtomlplusplus-dev libtomlplusplus3
  nlohmann-json3-dev libspdlog-dev libspdlog1.10 libfmt-dev libfmt9 libflatbuffers-dev libxxhash-dev libxxhash0 flatbuffers-compiler
  libflatbuffers2 libssl-dev zlib1g-dev zlib1g libgtest-dev libgmock-dev ninja-build pkgconf
  pkgconf-bin libpkgconf3"

carry() {
  rm -rf .gpu-deps
  mkdir -p .gpu-deps/deb .gpu-deps/root
  # shellcheck disable=SC2086  # a list of words
  (cd .gpu-deps/deb && apt-get download -q $packages)
  for deb in .gpu-deps/deb/*.deb; do dpkg -x "$deb" .gpu-deps/root; done
  root=.gpu-deps/root
  libs=$root/usr/lib/x86_64-linux-gnu
  if [ -d $root/lib ]; then cp -a $root/lib/. $root/usr/lib/ && rm -r "${root:?}/lib"; fi
  # What the system's alternatives would link and its compiler would search, and links that only hold
  # at /.
  cp -a $libs/openblas-pthread/. $libs/
  cp -a $root/usr/include/x86_64-linux-gnu/. $root/usr/include/
  rm -rf $root/usr/share/doc $root/usr/share/man $root/usr/share/lintian $libs/openblas-pthread \
    $libs/libopenblas*.a $libs/libblas.* $libs/liblapack.* $libs/libzmq.a $libs/libssl.a \
    $libs/libflatbuffers.a $root/usr/src "${root:?}/etc" $root/usr/share/bash-completion
  find $root -type l | while read -r link; do
    to=$(readlink "$link")
    case $to in
      /usr/*) ln -sfn "$(realpath -m --relative-to="$(dirname "$link")" "$root$to")" "$link" ;;
      /lib/*) ln -sfn "$(realpath -m --relative-to="$(dirname "$link")" "$root/usr$to")" "$link" ;;
    esac
  done
  tar -C $root -czf .gpu-deps/deps.tar.gz .
  rm -rf .gpu-deps/deb $root
  kib=$(du -sk .gpu-deps | cut -f 1)
  say ".gpu-deps has $((kib / 1024)) MiB"
  [ "$kib" -lt 65536 ] || { say "that is more than 64 MiB"; exit 1; }
}

if [ "${1:-}" = --carry ]; then
  carry
  exit 0
fi

# ---- on the machine ------------------------------------------------------------------------------

out=${1:-${OUT:-out/gpu-check}}
mkdir -p "$out"
out=$(cd "$out" && pwd)
build=build/gpu-check
logs=$build/logs
rm -rf $logs
mkdir -p $logs
# Few files, as they may have to travel.
trap 'tar -C $logs -czf "$out/logs.tar.gz" .' EXIT
begin=$(date +%s)
deadline=$((begin + 470))
steps=""
failed=""

# step NAME SECONDS COMMAND...: runs it, its output in NAME.log, for so long at most; writes summary.json.
step() {
  name=$1
  left=$((deadline - $(date +%s)))
  limit=$2
  [ "$limit" -le "$left" ] || limit=$left
  shift 2
  from=$(date +%s)
  if [ "$limit" -lt 1 ]; then
    status="no time left"
  elif timeout "$limit" "$@" >"$logs/$name.log" 2>&1; then
    status=passed
  else
    code=$?
    status="failed with exit code $code"
    [ $code -ne 124 ] || status="stopped after $limit s"
  fi
  seconds=$(($(date +%s) - from))
  say "$name: $status ($seconds s)"
  steps="$steps${steps:+, }{\"name\": \"$name\", \"status\": \"$status\", \"seconds\": $seconds}"
  [ "$status" = passed ] || failed="$failed $name"
  printf '{"steps": [%s]}\n' "$steps" >"$out/summary.json"
  [ "$status" = passed ]
}

if ! command -v nvcc >/dev/null 2>&1; then PATH=$PATH:/usr/local/cuda/bin; fi
command -v nvcc >/dev/null 2>&1 || { say "there is no nvcc, in /usr/local/cuda/bin neither"; exit 1; }

if [ -f .gpu-deps/deps.tar.gz ]; then
  deps=$PWD/$build/deps
  rm -rf "$deps"
  mkdir -p "$deps/bin"
  tar -C "$deps" -xzf .gpu-deps/deps.tar.gz
  libs=$deps/usr/lib/x86_64-linux-gnu
  for program in flatc pkgconf; do
    printf '#!/bin/sh\nLD_LIBRARY_PATH=%s exec %s "$@"\n' "$libs" "$deps/usr/bin/$program" \
      >"$deps/bin/$program"
    chmod +x "$deps/bin/$program"
  done
  export PKG_CONFIG_PATH="$libs/pkgconfig:$deps/usr/share/pkgconfig" PKG_CONFIG_SYSROOT_DIR="$deps"
  export PKG_CONFIG_ALLOW_SYSTEM_CFLAGS=1 PKG_CONFIG_ALLOW_SYSTEM_LIBS=1
  # An rpath of the old kind: the libraries' own libraries are found by it too.
  set -- -G Ninja "-DCMAKE_MAKE_PROGRAM=$deps/usr/bin/ninja" "-DPKG_CONFIG_EXECUTABLE=$deps/bin/pkgconf" \
    "-DFLATC=$deps/bin/flatc" "-DCMAKE_PREFIX_PATH=$deps/usr" "-DOPENSSL_ROOT_DIR=$deps/usr" \
    -DOPENSSL_USE_STATIC_LIBS=ON \
    "-DCMAKE_EXE_LINKER_FLAGS=-Wl,--disable-new-dtags,-rpath,$libs,-rpath-link,$libs" \
    "-DCMAKE_MODULE_LINKER_FLAGS=-Wl,--disable-new-dtags,-rpath,$libs,-rpath-link,$libs"
else
  say "no .gpu-deps/deps.tar.gz (made by --carry): building with the system's packages"
  set --
fi

# Toolkits come in parts: cuBLAS' header and library may lie elsewhere.
toolkit=$(dirname "$(dirname "$(readlink -f "$(command -v nvcc)")")")
somewhere() { find /usr /opt /root /home -name "$1" 2>/dev/null | head -n 1; }
if [ ! -f "$toolkit/include/cublas_v2.h" ]; then
  header=$(somewhere cublas_v2.h)
  [ -z "$header" ] || set -- "$@" "-DACAN_CUBLAS_INCLUDE_DIR=$(dirname "$header")"
fi
if [ ! -e "$toolkit/lib64/libcublas.so" ]; then
  library=$(somewhere 'libcublas.so.1?')
  [ -z "$library" ] || LD_LIBRARY_PATH="$(dirname "$library")${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
  [ -z "$library" ] || export LD_LIBRARY_PATH
fi

step configure 60 cmake -S . -B $build -DCMAKE_BUILD_TYPE=Release -DACAN_CUDA=ON -DACAN_OPENCL=OFF -DACAN_TEST_GPU=real \
  "-DACAN_CUDA_ARCHITECTURES=${ACAN_CUDA_ARCHITECTURES:-90-real}" "$@" || {
  tail -n 15 $logs/configure.log
  exit 1
}
step build 240 cmake --build $build --parallel "$(nproc)" --target acan gpu_bench \
  backends_cuda_test backends_gemm_test backends_kernel_test backends_op_matrix_test \
  backends_device_test || {
  grep -E -m 10 'error|FAILED' $logs/build.log || tail -n 15 $logs/build.log
  exit 1
}

bin=$build/bin
# Exit code 1: a device is not exact.
step devices 60 $bin/acan devices --json || true
sed -n 's/^\[/[/p' $logs/devices.log >"$out/devices.json"
$bin/acan devices >$logs/devices.txt 2>&1 || true
sed 's/^/  /' $logs/devices.txt
if ! grep -q '^cuda:0' $logs/devices.txt; then
  step tests-without-gpu 60 $bin/backends_cuda_test || true
  say "no GPU: $(sed -n '/^cuda$/{n;s/^ *NOT usable *//p}' $logs/devices.txt)"
  [ -z "$failed" ] || { say "failed before that:$failed"; exit 1; }
  exit 3
fi

# The test programs name what they skip; a test that ran nothing on the GPU would be a failure here.
for test in cuda op_matrix kernel gemm device; do
  filter='*cuda*'
  [ $test != cuda ] || filter='*'
  step "test-$test" 90 $bin/backends_${test}_test "--gtest_filter=$filter" \
    "--gtest_output=json:$logs/test-$test.json" || true
  if grep -q -e SKIPPED -e 'Running 0 tests' "$logs/test-$test.log"; then
    say "test-$test: skipped tests, though there is a GPU"
    failed="$failed test-$test-skipped"
  fi
done

hash_of() { sed -n 's/.*"weights_sha256": *"\([0-9a-f]*\)".*/\1/p' "$logs/$1.log" | tail -n 1; }
# Tiles so large that results stay on the GPU until somebody asks for them.
job="examples/regression.toml --set train.epochs=1 --set model.layers=[32,1024,1024,4]
  --set tasks.size_bytes=1MiB --json"
# shellcheck disable=SC2086  # words
step train-cpu 60 $bin/acan train $job --handlers cpu:1 --out "$build/train-cpu" || true
# shellcheck disable=SC2086
step train-cuda 60 $bin/acan train $job --handlers cuda:0@1GiB --out "$build/train-cuda" || true
# shellcheck disable=SC2086
step train-mixed 60 $bin/acan train $job --handlers cpu:1,cuda:0@1GiB,cpu:1 --out "$build/train-mixed" || true
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
printf '{"cpu": "%s", "cuda": "%s", "mixed": "%s", "same": %s}\n' "$(hash_of train-cpu)" \
  "$(hash_of train-cuda)" "$(hash_of train-mixed)" $same >"$out/weights.json"

if step bench-gpu 90 $bin/gpu_bench; then cp $logs/bench-gpu.log "$out/gpu_bench.json"; fi
if step bench-train 100 $bin/acan bench train --device cuda:0@16GiB --layers 8192,8192,8192 \
  --batch 4096 --steps 6 --repeats 1 --json; then
  tail -n 1 $logs/bench-train.log >"$out/train_bench.json"
  grep -q '"same_weights": *true' "$out/train_bench.json" || {
    say "bench-train: the weights are not those of the plain loop"
    failed="$failed bench-train-same-weights"
  }
fi

if command -v compute-sanitizer >/dev/null 2>&1; then
  for tool in memcheck racecheck; do
    step "sanitizer-$tool" 60 compute-sanitizer --tool $tool --error-exitcode 9 \
      $bin/backends_gemm_test '--gtest_filter=*SpecialValues*cuda_tile*' || true
  done
  step sanitizer-kernels 45 compute-sanitizer --error-exitcode 9 $bin/backends_kernel_test \
    '--gtest_filter=*cuda*' || true
else
  say "there is no compute-sanitizer"
fi

say "results are in $out, after $(($(date +%s) - begin)) s"
[ -z "$failed" ] || { say "failed:$failed"; exit 1; }
say "all passed"
