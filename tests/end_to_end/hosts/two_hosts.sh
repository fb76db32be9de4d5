#!/usr/bin/env bash
# Two hosts made of network namespaces, all roles with keys: the broker, the manager and a handler
# run on one host, two handlers on the other. The link between them is cut for ten seconds during
# the training. The weights must be those of an undisturbed run on one host, no handler may be
# counted twice, and the far handlers must return under their former names.
#
#   two_hosts.sh ACAN          the program; exit code 0: success, 1: failure, 77: cannot run here
set -euo pipefail

acan=$(realpath "$1")
cut_s=10
what=two_hosts
. "$(dirname "$0")/common.sh"
need ip

make_two_hosts

write_job "$folder/job.toml" 30

"$acan" keygen --out "$folder/keys" >"$folder/keygen.log"
"$acan" keygen --out "$folder/keys" --add handler --name far >>"$folder/keygen.log"
train_quietly "$folder/job.toml"

endpoint=tcp://10.199.0.1:5555
# Both hosts are this machine. Messages through shared memory would not notice that the link is cut.
in_space "$near" broker broker --listen tcp://0.0.0.0:5555 --keys "$folder/keys/broker.key" \
  --shared-memory off
handler=(handler --connect "$endpoint" --device cpu:1 --memory 64MiB)
in_space "$near" near "${handler[@]}" --keys "$folder/keys/handler.key"
near_handler=${pids[-1]}
declare -A far_handlers
for name in far1 far2; do
  in_space "$far" "$name" "${handler[@]}" --keys "$folder/keys/far.key"
  far_handlers[$name]=${pids[-1]}
done
for name in near far1 far2; do wait_for "$folder/$name.log" "joined $endpoint"; done
in_space "$near" manager manager --connect "$endpoint" "$folder/job.toml" --out "$folder/out" \
  --json --keys "$folder/keys/manager.key"
manager=${pids[-1]}

wait_for "$folder/manager.log" "epoch 2/"
ip -n "$near" link set "an$tag" down
cut_at=$SECONDS
# The near handler continues alone for some epochs and is then stopped. Each of the others is
# stopped as soon as it is back. So the training cannot end before all are back, however fast the
# machine is.
stop_when_back() {  # NAME
  wait_for "$folder/$1.log" "joined $endpoint" 2
  kill -STOP "${far_handlers[$1]}"
}
wait_for "$folder/manager.log" "epoch 5/.* done"
kill -STOP "$near_handler"
sleep $((cut_at + cut_s > SECONDS ? cut_at + cut_s - SECONDS : 0))  # the cut
waiting=()
for name in "${!far_handlers[@]}"; do
  (trap - EXIT; stop_when_back "$name") &
  waiting+=($!)
done
ip -n "$near" link set "an$tag" up
for pid in "${waiting[@]}"; do wait "$pid" || fail "a far handler did not come back"; done
kill -0 "$manager" 2>/dev/null || fail "the training was over before the far handlers were back"
kill -CONT "$near_handler" "${far_handlers[@]}"
grep -q "far/.* is lost" "$folder/broker.log" || fail "the broker did not notice the cut"
# Only the manager ends by itself.
wait "$manager" || fail "the manager"

quiet=$(hash_of "$folder/quiet.out")
cut=$(hash_of "$folder/manager.out")
[ "$quiet" = "$cut" ] || fail "$cut, without a cut $quiet"
seen=$(grep -o '"peak_bytes"' <<<"$(tail -n 1 "$folder/manager.out")" | wc -l)
[ "$seen" -eq 3 ] || fail "the receipt names $seen handlers, there were 3"
ids=$(grep -o 'client far/[0-9a-z]* .* joined' "$folder/broker.log" | sort | uniq -c)
[ "$(wc -l <<<"$ids")" -eq 2 ] || fail "other names than before: $ids"
echo "two_hosts: cut for $cut_s s, $cut"
