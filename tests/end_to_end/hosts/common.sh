# Functions for the scripts of this folder. A script sets `what`, its name, and sources this file.
# It may define tear_down, which runs at the end in every case, before "$folder" is removed.
#
#   folder     a temporary folder; after a failure the ends of its *.log files are shown
#   tag        five characters, unique to this run: names of interfaces have at most 15
#   pids       processes that are killed at the end

skip() { echo "SKIPPED $what: $*"; exit 77; }
fail() { echo "FAILED $what: $*"; exit 1; }
need() {  # TOOL...
  [ "$(id -u)" -eq 0 ] || skip "namespaces need root"
  local tool
  for tool in "$@"; do command -v "$tool" >/dev/null || skip "there is no $tool"; done
}

tear_down() { :; }
clean_up() {
  local status=$?
  trap - EXIT
  for pid in "${pids[@]}"; do kill -KILL "$pid" 2>/dev/null || true; done
  for pid in "${pids[@]}"; do wait "$pid" 2>/dev/null || true; done
  tear_down || true
  if [ "$status" -ne 0 ] && [ "$status" -ne 77 ]; then
    find "$folder" -maxdepth 2 -name '*.log' -exec tail -n 30 {} +
  fi
  rm -rf "$folder"
  exit "$status"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
folder=$(mktemp -d)
tag=$(printf '%05x' $((($$ * 32768 + RANDOM) % 0x100000)))
pids=()

# Makes two network namespaces and a link between them: "$near" with 10.199.0.1 on the device
# "an$tag", and "$far" with 10.199.0.2 on "af$tag".
make_two_hosts() {
  near=acan-near-$tag
  far=acan-far-$tag
  tear_down() {
    ip netns del "$near" 2>/dev/null || true  # removes its link, too
    ip netns del "$far" 2>/dev/null || true
  }
  ip netns add "$near" 2>"$folder/netns.log" || skip "ip netns add: $(cat "$folder/netns.log")"
  ip netns add "$far"
  ip netns exec "$near" true 2>"$folder/netns.log" ||
    skip "ip netns exec: $(cat "$folder/netns.log")"
  ip link add "an$tag" netns "$near" type veth peer name "af$tag" netns "$far" \
    2>"$folder/link.log" || skip "ip link add type veth: $(cat "$folder/link.log")"
  ip -n "$near" addr add 10.199.0.1/24 dev "an$tag"
  ip -n "$far" addr add 10.199.0.2/24 dev "af$tag"
  local one space device
  for one in "$near an$tag" "$far af$tag"; do
    read -r space device <<<"$one"
    ip -n "$space" link set lo up
    ip -n "$space" link set "$device" up
  done
}
in_space() {  # SPACE NAME ARGUMENTS...: starts "$acan" in that namespace
  local space=$1 name=$2
  shift 2
  ip netns exec "$space" "$acan" "$@" >"$folder/$name.out" 2>"$folder/$name.log" &
  pids+=($!)
}

patience_s=120  # a passing test never waits that long
# wait_for LOG PATTERN [COUNT]: waits until so many lines match (1). tail reads the lines as they come.
wait_for() {
  local count=${3:-1} lines tail found
  exec {lines}< <(exec tail -n +1 -F "$1" 2>/dev/null)
  tail=$!
  found=$(timeout "$patience_s" grep -c -m "$count" -- "$2" <&"$lines") || true
  kill "$tail" 2>/dev/null || true
  exec {lines}<&-
  [ "$found" = "$count" ] || fail "\"$2\" never came in $(basename "$1")"
}
matches() { grep -c -- "$2" "$1" || true; }  # LOG PATTERN: the number of lines that match

# until_true WHAT COMMAND...: waits until the command succeeds, or fails with WHAT. Only for states
# that nobody announces to a shell, such as those of units and of Slurm's jobs: it looks again and
# again.
until_true() {
  local otherwise=$1
  shift
  local until=$((SECONDS + patience_s))
  until "$@" >/dev/null 2>&1; do
    [ "$SECONDS" -lt "$until" ] || fail "$otherwise"
    sleep 0.1
  done
}
# Reads the hash from a receipt, or from the output of --json.
hash_of() { grep -o '"weights_sha256": *"[0-9a-f]*"' "$1" | tr -d ' ' || fail "no hash in $1"; }

# write_job FILE EPOCHS: writes a job that needs no data files and has 64 steps per epoch.
write_job() {
  cat >"$1" <<JOB
[model]
layers = [64, 256, 256, 2]
loss = "mse"
[data]
generated = "regression"
samples = 4096
[train]
batch = 64
epochs = $2
JOB
}
# Adds a snapshot every 50 steps.
with_snapshots() { printf '[snapshots]\nevery_steps = 50\n' >>"$1"; }
train_quietly() {  # JOB: the undisturbed run on one host, to $folder/quiet
  "$acan" train "$1" --handlers 2xcpu:1 --out "$folder/quiet" --json >"$folder/quiet.out" \
    2>"$folder/quiet.log" || fail "the undisturbed run"
}
