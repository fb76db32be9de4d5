#!/usr/bin/env bash
# Runs deploy/acan.sbatch under a real Slurm: a controller and three nodes, made of network, mount
# and UTS namespaces. A good run logs no errors and has the weights of a run on one host. A handler
# that is killed is restarted. Without handlers the job ends and says why. A job whose first node
# was lost continues where it was.
#
#   slurm.sh ACAN SBATCH       the program, the script; exit code 0: success, 1: failure,
#                              77: cannot run here
set -euo pipefail

acan=$(realpath "$1")
script=$(realpath "$2")
what=slurm
. "$(dirname "$0")/common.sh"
need ip slurmctld slurmd srun sbatch scontrol scancel squeue
[ -e /usr/lib/*/slurm-wlm/auth_none.so ] || skip "this Slurm has no auth/none"
chmod 755 "$folder"
names=(ctl n1 n2 n3)

end_namespace() {  # HOST: kills every process in it; all belong to this test
  local inside
  inside=$(ip netns pids "acan-$1-$tag" 2>/dev/null || true)
  [ -z "$inside" ] || kill -KILL $inside 2>/dev/null || true
}
tear_down() {
  for name in "${names[@]}"; do
    end_namespace "$name"
    ip netns del "acan-$name-$tag" 2>/dev/null || true
  done
}

# ---- the hosts
for name in "${names[@]}"; do
  ip netns add "acan-$name-$tag" 2>"$folder/netns.log" || skip "ip netns add: $(cat "$folder/netns.log")"
  ip -n "acan-$name-$tag" link set lo up
done
ip -n "acan-ctl-$tag" link add bridge0 type bridge 2>"$folder/link.log" ||
  skip "ip link add type bridge: $(cat "$folder/link.log")"
ip -n "acan-ctl-$tag" addr add 10.198.0.1/24 dev bridge0
ip -n "acan-ctl-$tag" link set bridge0 up
echo "127.0.0.1 localhost" >"$folder/hosts"
echo "10.198.0.1 ctl" >>"$folder/hosts"
for i in 1 2 3; do
  ip link add "as$i$tag" netns "acan-n$i-$tag" type veth peer name "ac$i$tag" netns "acan-ctl-$tag"
  ip -n "acan-n$i-$tag" addr add "10.198.0.1$i/24" dev "as$i$tag"
  ip -n "acan-n$i-$tag" link set "as$i$tag" up
  ip -n "acan-ctl-$tag" link set "ac$i$tag" master bridge0 up
  echo "10.198.0.1$i n$i" >>"$folder/hosts"
done
# shellcheck disable=SC2016
enter='hostname "$1"; mount --bind "$2" /etc/hosts; shift 2; exec "$@"'
on() {  # HOST COMMAND...
  local name=$1
  shift
  ip netns exec "acan-$name-$tag" unshare --uts --mount --propagation private \
    bash -c "$enter" enter "$name" "$folder/hosts" "$@"
}
on n1 true 2>"$folder/enter.log" || skip "namespaces: $(cat "$folder/enter.log")"

# ---- Slurm
mkdir -p "$folder/etc" "$folder/state" "$folder/jobs" "$folder/spool-n1" "$folder/spool-n2" "$folder/spool-n3"
cat >"$folder/etc/slurm.conf" <<CONF
ClusterName=acan
SlurmctldHost=ctl(10.198.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/none
AuthInfo=cred_expire=5
CredType=cred/none
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
ReturnToService=2
SlurmdTimeout=6
SlurmctldTimeout=10
KillWait=2
MessageTimeout=5
BatchStartTimeout=10
UnkillableStepTimeout=10
SchedulerParameters=batch_sched_delay=1,sched_interval=2
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool-%n
SlurmctldPidFile=$folder/ctl.pid
SlurmdPidFile=$folder/%n.pid
SlurmdParameters=config_overrides
NodeName=n1 NodeAddr=10.198.0.11 CPUs=2 State=UNKNOWN
NodeName=n2 NodeAddr=10.198.0.12 CPUs=2 State=UNKNOWN
NodeName=n3 NodeAddr=10.198.0.13 CPUs=2 State=UNKNOWN
PartitionName=all Nodes=n1,n2,n3 Default=YES MaxTime=INFINITE State=UP
CONF
printf 'CgroupPlugin=cgroup/v1\n' >"$folder/etc/cgroup.conf"
export SLURM_CONF=$folder/etc/slurm.conf
on ctl slurmctld -D >"$folder/slurmctld.log" 2>&1 &
pids+=($!)
for i in 1 2 3; do
  on "n$i" slurmd -D >"$folder/slurmd-n$i.log" 2>&1 &
  pids+=($!)
done

idle() { [ "$(on ctl sinfo --noheader --format=%D --states=idle)" = "$1" ]; }
until_true "the nodes are not idle" idle 3

write_job "$folder/jobs/job.toml" 20
with_snapshots "$folder/jobs/job.toml"
train_quietly "$folder/jobs/job.toml"

export ACAN=$acan
submit() {  # NAME OPTIONS...: prints the id of the job
  local name=$1
  shift
  on ctl sbatch --parsable --chdir="$folder/jobs" --output="$folder/jobs/$name.log" "$@" "$script" \
    job.toml "$name"
}
state_of() { on ctl scontrol --oneliner show job "$1" | grep -o 'JobState=[A-Z_]*' | cut -d= -f2; }
in_state() { [ "$(state_of "$1")" = "$2" ]; }
same_weights() {
  [ "$(hash_of "$folder/jobs/$1/receipt.json")" = "$(hash_of "$folder/quiet/receipt.json")" ] ||
    fail "$1: other weights"
}

# ---- a good run
id=$(submit good --nodes=3 --cpus-per-task=2)
until_true "the good run does not end" in_state "$id" COMPLETED
same_weights good
grep -iE 'error|killed|traceback' "$folder/jobs/good.log" && fail "the good run is not quiet"
grep -q '"device": "cpu:2"' "$folder/jobs/good/receipt.json" || fail "not the CPUs that were asked for"
ls -d "$folder"/jobs/acan-"$id"-* 2>/dev/null && fail "the keys were left"
mode_of() { stat --format=%a "$1/receipt.json"; }
[ "$(mode_of "$folder/jobs/good")" = "$(mode_of "$folder/quiet")" ] || fail "not the user's umask"

# ---- a handler is killed; the device is chosen
id=$(ACAN_DEVICE=cpu:1 submit killed --nodes=3 --cpus-per-task=2)
wait_for "$folder/jobs/killed.log" 'epoch 2/'
kill -KILL $(pgrep --ns "$$" --nslist pid -f "$acan handler --connect tcp://n1:" | head -n 1)
wait_for "$folder/jobs/killed.log" 'restarting it in'
until_true "the run with a killed handler does not end" in_state "$id" COMPLETED
same_weights killed
grep -q '"device": "cpu:1"' "$folder/jobs/killed/receipt.json" || fail "not ACAN_DEVICE"

# ---- no handler can start
id=$(ACAN_MEMORY=1KiB submit none --nodes=2)
until_true "a job without handlers does not end" in_state "$id" FAILED
grep -q 'no handler is left' "$folder/jobs/none.log" || fail "it does not say why"

# ---- the first node is lost
id=$(submit lost --nodes=2)
wait_for "$folder/jobs/lost.log" 'epoch 4/'
end_namespace "$(on ctl scontrol --oneliner show job "$id" | grep -o 'BatchHost=[a-z0-9]*' | cut -d= -f2)"
wait_for "$folder/jobs/lost.log" 'continuing from snapshot'
until_true "the job that was begun again does not end" in_state "$id" COMPLETED
same_weights lost
echo "slurm: $(hash_of "$folder/jobs/lost/receipt.json")"
