#!/usr/bin/env bash
# deploy/acan.sbatch under a real Slurm: a controller and three nodes, made of network, mount and UTS
# namespaces. A good run is quiet and has the weights of one host; a handler that is killed is started
# again; without handlers the job ends and says why; a job whose first node was lost goes on where it
# was.
#
#   slurm.sh ACAN SBATCH       the program, the script; exit code 0: so it was, 1: not,
#                              77: cannot be tried here
set -euo pipefail

acan=$(realpath "$1")
script=$(realpath "$2")
skip() { echo "SKIPPED slurm: $*"; exit 77; }
fail() { echo "FAILED slurm: $*"; exit 1; }

[ "$(id -u)" -eq 0 ] || skip "namespaces need root"
for tool in slurmctld slurmd srun sbatch scontrol scancel squeue; do
  command -v "$tool" >/dev/null || skip "there is no $tool (package slurm-wlm)"
done
command -v ip >/dev/null || skip "there is no ip (package iproute2)"
[ -e /usr/lib/*/slurm-wlm/auth_none.so ] || skip "this Slurm has no auth/none"

# Names of interfaces have 15 characters at most.
tag=$(printf '%05x' $((($$ * 32768 + RANDOM) % 0x100000)))
folder=$(mktemp -d)
chmod 755 "$folder"
names=(ctl n1 n2 n3)
daemons=()

# Every process in a namespace is one of this test.
end_namespace() {
  local pids
  pids=$(ip netns pids "acan-$1-$tag" 2>/dev/null || true)
  [ -z "$pids" ] || kill -KILL $pids 2>/dev/null || true
}
cleanup() {
  status=$?
  trap - EXIT
  for name in "${names[@]}"; do end_namespace "$name"; done
  for pid in "${daemons[@]}"; do wait "$pid" 2>/dev/null || true; done
  if [ "$status" -ne 0 ] && [ "$status" -ne 77 ]; then
    tail -n 30 "$folder"/*.log "$folder"/jobs/*.out 2>/dev/null || true
  fi
  for name in "${names[@]}"; do ip netns del "acan-$name-$tag" 2>/dev/null || true; done
  rm -rf "$folder"
  exit "$status"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

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
daemons+=($!)
for i in 1 2 3; do
  on "n$i" slurmd -D >"$folder/slurmd-n$i.log" 2>&1 &
  daemons+=($!)
done

until_true() {  # WHAT COMMAND...: waits until it succeeds
  local what=$1
  shift
  for ((i = 0; i < 1200; ++i)); do
    if "$@" >/dev/null 2>&1; then return; fi
    sleep 0.1
  done
  fail "$what"
}
idle() { [ "$(on ctl sinfo --noheader --format=%D --states=idle)" = "$1" ]; }
until_true "the nodes are not idle" idle 3

cat >"$folder/jobs/job.toml" <<JOB
[model]
layers = [64, 256, 256, 2]
loss = "mse"
[data]
generated = "regression"
samples = 4096
[train]
batch = 64
epochs = 20
[snapshots]
every_steps = 50
JOB
"$acan" train "$folder/jobs/job.toml" --handlers 2xcpu:1 --out "$folder/quiet" >"$folder/quiet.out" \
  2>"$folder/quiet.log" || fail "the undisturbed run"
hash_of() { grep -o '"weights_sha256": "[0-9a-f]*"' "$1/receipt.json" || fail "no receipt in $1"; }

export ACAN=$acan
submit() {  # NAME OPTIONS...: the id of the job
  local name=$1
  shift
  on ctl sbatch --parsable --chdir="$folder/jobs" --output="$folder/jobs/$name.out" "$@" "$script" \
    job.toml "$name"
}
state_of() { on ctl scontrol --oneliner show job "$1" | grep -o 'JobState=[A-Z_]*' | cut -d= -f2; }
in_state() { [ "$(state_of "$1")" = "$2" ]; }
has() { grep -q -- "$2" "$folder/jobs/$1.out"; }
same_weights() { [ "$(hash_of "$folder/jobs/$1")" = "$(hash_of "$folder/quiet")" ] || fail "$1: other weights"; }

# ---- a good run
id=$(submit good --nodes=3 --cpus-per-task=2)
until_true "the good run does not end" in_state "$id" COMPLETED
same_weights good
grep -iE 'error|killed|traceback' "$folder/jobs/good.out" && fail "the good run is not quiet"
grep -q '"device": "cpu:2"' "$folder/jobs/good/receipt.json" || fail "not the CPUs that were asked for"
ls -d "$folder"/jobs/acan-"$id"-* 2>/dev/null && fail "the keys were left"

# ---- a handler is killed
id=$(submit killed --nodes=3)
until_true "no training" has killed 'epoch 2/'
kill -KILL $(pgrep --ns "$$" --nslist pid -f "$acan handler --connect tcp://n1:" | head -n 1)
until_true "a killed handler is not started again" has killed 'starting it again in'
until_true "the run with a killed handler does not end" in_state "$id" COMPLETED
same_weights killed

# ---- no handler can start
id=$(ACAN_MEMORY=1KiB submit none --nodes=2)
until_true "a job without handlers does not end" in_state "$id" FAILED
has none 'no handler is left' || fail "it does not say why"

# ---- the first node is lost
id=$(submit lost --nodes=2)
until_true "no training" has lost 'epoch 4/'
end_namespace "$(on ctl scontrol --oneliner show job "$id" | grep -o 'BatchHost=[a-z0-9]*' | cut -d= -f2)"
until_true "the job was not begun again" has lost 'going on from snapshot'
until_true "the job that was begun again does not end" in_state "$id" COMPLETED
same_weights lost
echo "slurm: $(hash_of "$folder/jobs/lost")"
