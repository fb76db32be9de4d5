#!/usr/bin/env bash
# To run by hand, since it takes some minutes. One network namespace has a broker, another one a
# manager and two handlers. The broker's link is cut for 20 s; then one handler is frozen for 60 s
# while the other one continues. Without help the weights must be those of an undisturbed run on one
# host.
#
#   long_cuts.sh ACAN [EPOCHS]      EPOCHS (400) must last for about two minutes. Exit code: 0 on
#                                   success, 1 on failure, 77 if the test cannot run here
set -euo pipefail

acan=$(realpath "$1")
what=long_cuts
. "$(dirname "$0")/common.sh"
need ip

make_two_hosts

write_job "$folder/job.toml" "${2:-400}"
"$acan" keygen --out "$folder/keys" >"$folder/keygen.log"
train_quietly "$folder/job.toml"

endpoint=tcp://10.199.0.1:5555
in_space "$near" broker broker --listen tcp://0.0.0.0:5555 --keys "$folder/keys/broker.key" \
  --shared-memory off
for name in handler1 handler2; do
  in_space "$far" "$name" handler --connect "$endpoint" --device cpu:1 --memory 64MiB \
    --keys "$folder/keys/handler.key"
done
frozen=${pids[-1]}
for name in handler1 handler2; do wait_for "$folder/$name.log" "joined $endpoint"; done
in_space "$far" manager manager --connect "$endpoint" "$folder/job.toml" --out "$folder/out" \
  --json --keys "$folder/keys/manager.key"
manager=${pids[-1]}

wait_for "$folder/manager.log" "epoch 2/.* done"
ip -n "$near" link set "an$tag" down
sleep 20  # the cut
before=$(matches "$folder/manager.log" "epoch .* done")
ip -n "$near" link set "an$tag" up
wait_for "$folder/manager.log" "epoch .* done" $((before + 1))
kill -STOP "$frozen"
sleep 60  # the frozen time
kill -0 "$manager" 2>/dev/null || fail "the training was over before the frozen handler went on"
before=$(matches "$folder/manager.log" "epoch .* done")
kill -CONT "$frozen"
wait_for "$folder/manager.log" "epoch .* done" $((before + 1))
wait "$manager" || fail "the manager"

quiet=$(hash_of "$folder/quiet.out")
cut=$(hash_of "$folder/manager.out")
[ "$quiet" = "$cut" ] || fail "$cut, undisturbed $quiet"
grep -q "is lost" "$folder/broker.log" || fail "the broker noticed nothing"
[ "$(grep -c "joined $endpoint" "$folder/handler2.log")" -ge 3 ] ||
  fail "handler2 did not come back twice"
echo "long_cuts: $cut"
