#!/usr/bin/env bash
# Runs the section "Two machines" of the README literally. Hosts made of network namespaces run the
# commands in its blocks, and between them only what its sentences say is done. The weights must be
# those of `acan train`.
#
#   readme_two_machines.sh ACAN README   exit code 0: success, 1: failure, 77: cannot run here
set -euo pipefail

acan=$(realpath "$1")
readme=$(realpath "$2")
examples=$(dirname "$readme")/examples
what=readme_two_machines
. "$(dirname "$0")/common.sh"
need ip

switch=acan-switch-$tag
hosts=(broker handler manager)
tear_down() {
  for host in "${hosts[@]}"; do
    ip netns del "acan-$host-$tag" 2>/dev/null || true  # removes its link, too
    rm -rf "/etc/netns/acan-$host-$tag"
  done
  ip netns del "$switch" 2>/dev/null || true
  rmdir /etc/netns 2>/dev/null || true
}

ip netns add "$switch" 2>"$folder/netns.log" || skip "ip netns add: $(cat "$folder/netns.log")"
ip -n "$switch" link add bridge type bridge 2>"$folder/link.log" ||
  skip "ip link add type bridge: $(cat "$folder/link.log")"
ip -n "$switch" link set bridge up
number=1
for host in "${hosts[@]}"; do
  space=acan-$host-$tag
  ip netns add "$space"
  ip link add "up$number" netns "$switch" type veth peer name eth0 netns "$space" \
    2>"$folder/link.log" || skip "ip link add type veth: $(cat "$folder/link.log")"
  ip -n "$switch" link set "up$number" master bridge up
  ip -n "$space" addr add "10.198.0.$number/24" dev eth0
  ip -n "$space" link set lo up
  ip -n "$space" link set eth0 up
  # `ip netns exec` mounts this file over /etc/hosts.
  mkdir -p "/etc/netns/$space"
  printf '127.0.0.1 localhost\n10.198.0.1 broker-host\n' >"/etc/netns/$space/hosts"
  mkdir "$folder/$host"
  number=$((number + 1))
done

# The commands of the section, one a line. The first block is for a single machine.
section=$(awk '/^## /{inside = $0 == "## Two machines"} inside' "$readme")
commands=$(awk '/^```/{block += 1; next} block == 3 || block == 5' <<<"$section" | sed 's/ *#.*//')
[ "$(wc -l <<<"$commands")" -ge 5 ] || fail "the README's section has other blocks: $commands"

bin=$folder/bin
mkdir "$bin"
ln -s "$acan" "$bin/acan"
ln -s "$examples" "$folder/manager/examples"
on() {  # HOST COMMAND: replaces this shell by the command, in the host's folder; use a subshell
  # All hosts are this machine. Without this setting they would share memory, which separate hosts
  # cannot.
  exec ip netns exec "acan-$1-$tag" env -C "$folder/$1" PATH="$bin:$PATH" ACAN_SHARED_MEMORY=off \
    sh -c "exec $2"
}
manager=""
while IFS= read -r command; do
  case $command in
    "") ;;
    "acan keygen "*)
      (on broker "$command") >"$folder/keygen.log" 2>&1 || fail "$command"
      # "Copy the others to where they are used."
      for role in handler manager; do cp "$folder/broker/keys/$role.key" "$folder/$role/"; done
      ;;
    "acan broker "*)
      on broker "$command" >"$folder/broker.log" 2>&1 &
      pids+=($!)
      wait_for "$folder/broker.log" "tcp://0.0.0.0:5555"
      ;;
    "acan check "*)
      (on handler "$command") >"$folder/check.log" 2>&1 || fail "$command"
      grep -q "^bandwidth *ok" "$folder/check.log" || fail "$command: no bandwidth"
      ;;
    "acan handler "*)
      on handler "$command" >"$folder/handler.log" 2>&1 &
      pids+=($!)
      ;;
    "acan manager "*)
      (on manager "$command") >"$folder/manager.log" 2>&1 || fail "$command"
      manager=done
      ;;
    *) fail "the README has a command that this test does not know: $command" ;;
  esac
done <<<"$commands"
[ -n "$manager" ] || fail "the README trains nothing: $commands"
grep -q "joined tcp://broker-host:5555" "$folder/handler.log" || fail "the handler did not join"

(cd "$folder/manager" && "$acan" train examples/regression.toml --handlers cpu:1 --out alone) \
  >"$folder/alone.log" 2>&1 || fail "acan train"
there=$(hash_of "$folder/manager/out/regression/receipt.json")
[ "$there" = "$(hash_of "$folder/manager/alone/receipt.json")" ] || fail "other weights: $there"
echo "readme_two_machines: $there"
