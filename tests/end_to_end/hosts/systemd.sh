#!/usr/bin/env bash
# Runs the units of deploy/ under a separate systemd in namespaces. They must train a job to the
# weights of a single command. A manager that is killed, and a host that is switched off during the
# training, must continue where they were. A finished job is not trained again. The units share
# memory, and a stop of all of them at once loses no work.
#
#   systemd.sh ACAN DEPLOY OPERATIONS    the program, the folder of the units, the document whose
#                                        commands set them up; exit code 0: success, 1: failure,
#                                        77: cannot run here
set -euo pipefail

acan=$(realpath "$1")
deploy=$(realpath "$2")
operations=$(realpath "$3")
what=systemd
. "$(dirname "$0")/common.sh"
need findmnt ip nsenter pgrep systemctl unshare
[ -x /lib/systemd/systemd ] || skip "there is no systemd"
# The cgroup hierarchy of version 2, which may be mounted alone or beside that of version 1.
hierarchy=$(findmnt --noheadings --first-only --types cgroup2 --output TARGET) ||
  skip "there is no cgroup2 file system"
group=$hierarchy/acan-systemd-$$
mkdir "$group" 2>/dev/null || skip "no control group can be made in $hierarchy"

machine=0  # the pid of its systemd, in the namespace of this script
outside=0  # the process that waits for it
boots=0
switch_off() {
  if [ "$outside" -ne 0 ]; then
    kill -KILL "$(pgrep --parent "$outside" || echo "$outside")" 2>/dev/null || true
    # The first process of a namespace is gone only when all others are. Then their groups are free.
    wait "$outside" 2>/dev/null || true
  fi
  outside=0
  find "$group" -mindepth 1 -depth -type d -exec rmdir {} + || true
}
tear_down() {
  switch_off
  rmdir "$group"
}
spaces=(--fork --pid --mount --uts --ipc --net --cgroup --mount-proc)
why=$(unshare "${spaces[@]}" mount -t cgroup2 cgroup2 "$folder" 2>&1) || skip "namespaces: $why"

# ---- files that survive a reboot: the program, /etc, /var/lib ------------------------------------
mkdir -p "$folder"/{local/bin,var-lib,units,log}
cp "$acan" "$folder/local/bin/acan"
cp -a /etc "$folder/etc"
rm -rf "$folder"/etc/{acan,systemd,init.d,rc?.d}
mkdir -p "$folder/etc/systemd/system"
chmod 755 "$folder" "$folder/local" "$folder/local/bin" "$folder/var-lib"
for target in sysinit basic network-online remote-fs multi-user shutdown; do
  printf '[Unit]\nDescription=%s\n' "$target" >"$folder/units/$target.target"
done
# Says that the machine is up.
mkdir "$folder/units/multi-user.target.wants"
cat >"$folder/units/up.service" <<'UNIT'
[Unit]
DefaultDependencies=no
After=multi-user.target
[Service]
ExecStart=/bin/echo it is up
StandardOutput=append:/run/log/up.log
UNIT
ln -s ../up.service "$folder/units/multi-user.target.wants/up.service"
# There is no journal here, so the units append their lines to files.
for unit in acan-broker acan-handler@ acan-manager@; do
  mkdir "$folder/etc/systemd/system/$unit.service.d"
  printf '[Service]\nStandardOutput=append:/run/log/%%N.log\nStandardError=inherit\n' \
    >"$folder/etc/systemd/system/$unit.service.d/log.conf"
done
write_job "$folder/quiet.toml" 30
with_snapshots "$folder/quiet.toml"
cp "$folder/quiet.toml" "$folder/net.toml"
cp -r "$deploy" "$folder/deploy"

# ---- the machine
cat >"$folder/boot.sh" <<'BOOT'
set -e
folder=$1
echo "the machine boots"
mount --make-rprivate /
mount -t tmpfs -o mode=755 tmpfs /run
mkdir /run/log
mount --bind "$folder/log" /run/log
mount --bind "$folder/etc" /etc
mount --bind "$folder/local" /usr/local
mount --bind "$folder/var-lib" /var/lib
mount --bind "$folder/units" /lib/systemd/system
# Files that its processes leave there disappear with the machine.
for each in /var/tmp /var/cache; do mount -t tmpfs -o mode=1777 tmpfs "$each"; done
# /tmp is the host's, too, and $folder may lie there.
mount --bind "$folder" /mnt
mount -t tmpfs -o mode=1777 tmpfs /tmp
umount --recursive --lazy /sys/fs/cgroup
mount -t cgroup2 cgroup2 /sys/fs/cgroup
ip link set lo up
export container=acan
exec /lib/systemd/systemd --system --unit=multi-user.target --show-status=no --log-target=console
BOOT
switch_on() {
  (
    echo "$BASHPID" >"$group/cgroup.procs"
    exec unshare "${spaces[@]}" bash "$folder/boot.sh" "$folder"
  ) </dev/null >>"$folder/systemd.log" 2>&1 &
  outside=$!
  boots=$((boots + 1))
  wait_for "$folder/systemd.log" "the machine boots" "$boots"
  machine=$(pgrep --parent "$outside")
  wait_for "$folder/log/up.log" "it is up" "$boots"
}
on() { nsenter --target "$machine" --all -- "$@"; }

# ---- setup as docs/operations.md describes it ----------------------------------------------------
switch_on
train_quietly "$folder/quiet.toml"
out=$folder/var-lib/acan/out/net
log=$folder/log/acan-manager@net.log
commands=$(sed -n '/^## systemd$/,/^## /{/^```sh$/,/^```$/p}' "$operations" | grep -v '^```' |
  sed -e 's/NAME/net/g' -e 's/@cpu:4/@cpu:1/')
[ "$(wc -l <<<"$commands")" -ge 8 ] || fail "the document has other commands: $commands"
on bash -ec "cd /mnt; $commands" >"$folder/set-up.log" 2>&1 || fail "the document's commands"
handlers="acan-handler@cpu:1 acan-handler@cpu:2"
on systemctl enable --now acan-handler@cpu:2 >>"$folder/set-up.log" 2>&1 || fail "a second handler"

# ---- a handler with a device that does not exist stays down
on systemctl start acan-handler@cpu:none >>"$folder/set-up.log" 2>&1 || true
stays_down() { [ "$(on systemctl is-failed acan-handler@cpu:none)" = failed ]; }
until_true "a handler without a device is started again and again" stays_down

# ---- a manager is started again for ever if it cannot resolve its broker's host (60 s), or if its
# ---- key is refused (30 s)
on systemctl show --property=After --value acan-manager@net | grep -q remote-fs.target ||
  fail "the manager does not wait for file servers"
! grep -qE '^(ProtectClock|DeviceAllow|DevicePolicy|PrivateDevices)=' "$deploy/acan-handler@.service" ||
  fail "the handler's unit closes GPUs, ProtectClock before systemd 252"
limit() { sed -n "s/^$1=//p" "$deploy/acan-manager@.service"; }
tries_s=$((($(limit StartLimitBurst) - 1) * (30 + $(limit RestartSec))))
[ "$(limit StartLimitIntervalSec)" -lt "$tries_s" ] ||
  fail "the manager's unit gives up without a name server, or while its key is refused"

# ---- the manager is killed -----------------------------------------------------------------------
has_snapshot() { [ -n "$(ls -d "$out"/snapshots/* 2>/dev/null)" ]; }
until_true "no snapshot" has_snapshot
on systemctl kill --signal=KILL acan-manager@net
wait_for "$log" 'continuing from'

# ---- all units stop at once, as in a shutdown: the manager still finds its broker ----------------
steps() { wc -l <"$out/metrics.jsonl"; }
before=$(steps)
further() { [ "$(steps)" -gt "$((before + 100))" ]; }
until_true "no further steps of a manager that was started again" further
# A shutdown orders all units in one transaction. A job of systemctl waits only for earlier jobs.
# shellcheck disable=SC2086
on systemctl stop acan-manager@net $handlers acan-broker
grep -q 'no work is lost' "$log" || fail "a shutdown loses the last snapshot"
# shellcheck disable=SC2086
on systemctl start acan-broker $handlers acan-manager@net

# ---- the processes of all units get a signal at once, as from a batch system ---------------------
before=$(steps)
until_true "no further steps of units that were started again" further
saves=$(matches "$log" 'no work is lost')
# shellcheck disable=SC2086
on systemctl kill acan-broker $handlers acan-manager@net
wait_for "$log" 'no work is lost' $((saves + 1))
is_off() { [ "$(on systemctl is-active acan-manager@net)" != active ]; }
until_true "the manager's unit does not end by a signal" is_off
# shellcheck disable=SC2086
on systemctl start acan-broker $handlers acan-manager@net

# ---- the host is switched off and on
before=$(steps)
until_true "no further steps" further
switch_off
continued=$(matches "$log" 'continuing from snapshot')
[ -e "$out/receipt.json" ] && fail "the job was done before the host was switched off"
switch_on
wait_for "$log" 'continuing from snapshot' $((continued + 1))

# ---- the job ends --------------------------------------------------------------------------------
until_true "the job does not end" test -e "$out/receipt.json"
same_weights() { [ "$(hash_of "$out/receipt.json")" = "$(hash_of "$folder/quiet/receipt.json")" ]; }
same_weights || fail "other weights"
ended() { [ "$(on systemctl is-active acan-manager@net)" = inactive ]; }
until_true "the manager's unit does not end" ended
[ "$(on systemctl show --property=Result --value acan-manager@net)" = success ] ||
  fail "the manager's unit failed"

# ---- broker and handlers have shared memory, so no handler has fetched from another --------------
grep -q '"fetched_bytes"' "$out/receipt.json" && fail "the units do not share memory"

# ---- a finished job is not trained again ---------------------------------------------------------
switch_off
seen=$(matches "$log" 'the job is done already')
before=$(steps)
switch_on
wait_for "$log" 'the job is done already' $((seen + 1))
until_true "the manager's unit does not end after a boot" ended
[ "$(steps)" = "$before" ] || fail "the job was trained again"
same_weights || fail "other weights after a boot"
# shellcheck disable=SC2086
on systemctl stop $handlers acan-broker
for unit in $handlers acan-broker; do
  [ "$(on systemctl show --property=Result --value "$unit")" = success ] || fail "$unit did not stop"
done
echo "systemd: $(hash_of "$out/receipt.json")"
