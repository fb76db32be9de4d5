#!/usr/bin/env python3
"""Training on several hosts: samples per second and the bytes that cross each link, compared with
PyTorch's DistributedDataParallel over gloo on the same links. The hosts are network namespaces: one
for the broker, one for the manager, and one for each handler host. Shared memory is off, so every
byte crosses a link. Keys encrypt all of acan's messages, because between hosts a broker without
keys is refused; --clear shows what encryption costs. Needs root.

    sudo python3 bench/hosts/hosts.py --acan build/release/bin/acan --job wide --rates unlimited 1gbit 100mbit
    sudo python3 bench/hosts/hosts.py --job first --peers "torch ddp gloo" --rounds 5 --json FILE
    sudo python3 bench/hosts/hosts.py --acan build/a/bin/acan --other build/b/bin/acan      # two programs in turn
    sudo python3 bench/hosts/hosts.py --hosts 4 2 --throttle 8 --rates 1gbit                # 4 hosts against 2
    sudo python3 bench/hosts/hosts.py --job gpt --peers "torch ddp gloo" --rates 1gbit

In each round, every program trains once on the same links; the order rotates. The first steps are
not counted. `least` is given for both ways to cut a step: by rows, where all hosts need the sums of
all gradients, and by weights that stay, where the batch and the activations between layers travel.
"""
import argparse
import json
import os
import pathlib
import platform
import signal
import statistics
import subprocess
import sys
import tempfile
import time

from jobs import JOBS, job_text, least_bytes, steps_ended, torch_batches, torch_net
from network import Network

DDP = "torch ddp gloo"


def summary(values):
    return dict(median=statistics.median(values), least=min(values), most=max(values), rounds=len(values))


# ---- acan ------------------------------------------------------------------------------------------------------

class Cluster:
    """A broker, handlers and a manager of one program on the hosts of a network."""

    def __init__(self, network, program, folder, arguments):
        """Without keys if the hosts have loopback addresses; only then may a broker lack keys."""
        self.network, self.program, self.folder, self.arguments = network, program, folder, arguments
        self.processes, self.names = [], []

    def start(self, host, name, *words):
        log = open(self.folder / f"{name}.log", "w")
        process = subprocess.Popen(self.network.words(host, [self.program, *words]), stdout=log, stderr=log)
        self.processes.append(process)
        self.names.append(name)
        return process

    def processor_ms(self):
        """The processor time of each process so far."""
        tick_ms = 1000 / os.sysconf("SC_CLK_TCK")
        spent = {}
        for name, process in zip(self.names, self.processes):
            fields = pathlib.Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()
            spent[name] = (int(fields[11]) + int(fields[12])) * tick_ms
        return spent

    def wait_for(self, name, text):
        deadline = time.monotonic() + 60
        while text not in (self.folder / f"{name}.log").read_text():
            if time.monotonic() > deadline:
                sys.exit(f"{name} never said {text!r}: {(self.folder / f'{name}.log').read_text()[-2000:]}")
            time.sleep(0.02)

    def stop(self):
        for process in self.processes:
            process.kill()
        for process in self.processes:
            process.wait()

    def begin(self, job_file):
        keys = self.folder / "keys"
        subprocess.check_call([self.program, "keygen", "--out", keys], stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL)

        def key_of(role):
            return [] if self.network.loopback else ["--keys", keys / f"{role}.key"]

        endpoint = f"tcp://{self.network.address('broker')}:5555"
        self.start("broker", "broker", "broker", "--listen", endpoint, "--shared-memory", "off", *key_of("broker"))
        hosts = len(handler_hosts(self.network))
        handlers = self.arguments.handlers or hosts
        speed = ["--throttle", self.arguments.throttle] if self.arguments.throttle else []
        for i in range(handlers):
            self.start(f"h{i % hosts}", f"handler{i}", "handler", "--connect", endpoint, "--device",
                       self.arguments.device, "--memory", self.arguments.memory, *speed, *key_of("handler"))
        for i in range(handlers):
            self.wait_for(f"handler{i}", "joined")
        return self.start("manager", "manager", "manager", job_file, "--connect", endpoint, "--out",
                          self.folder / "out", "--json", *key_of("manager"))


def watch(process, metrics, cluster, warm_steps, seconds):
    """Steps per second, and bytes and processor time per step, after the first steps, until the run
    ends or has been measured for `seconds`."""
    network = cluster.network
    first, last, begin, end, before, spent = 0, 0, 0.0, 0.0, None, None
    while process.poll() is None:
        now = time.perf_counter()
        ended = steps_ended(metrics)
        if ended > last:
            if not first and ended >= warm_steps:
                first, begin, before, spent = ended, now, network.counters(), cluster.processor_ms()
            last, end = ended, now
            if first and last > first and now - begin >= seconds:
                break
        time.sleep(0.002)
    if not first or last <= first:
        return None
    after = network.counters()
    steps = last - first
    moved = {host: {way: (after[host][way] - before[host][way]) / steps for way in ("out", "into")}
             for host in after}
    spent_after = cluster.processor_ms() if process.poll() is None else spent
    return steps / (end - begin), moved, {name: (spent_after[name] - spent[name]) / steps for name in spent}


def acan_run(program, network, job, arguments):
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "job.toml").write_text(job_text(job, arguments.steps, arguments.set, folder))
        cluster = Cluster(network, program, folder, arguments)
        try:
            manager = cluster.begin(folder / "job.toml")
            seen = watch(manager, folder / "out" / "metrics.jsonl", cluster, arguments.warm_steps,
                         arguments.seconds)
            log = (folder / "manager.log").read_text()
        finally:
            cluster.stop()
        if seen is None:
            sys.exit(f"too few steps: {log[-3000:]}")
        rate, moved, processor_ms = seen
        if arguments.verbose:
            print(log, file=sys.stderr)
        plan = [line for line in log.splitlines() if "plan: " in line]
        return dict(samples_per_s=rate * job["batch"], bytes_a_step=moved, processor_ms_a_step=processor_ms,
                    plan=plan[:1])


# ---- PyTorch ---------------------------------------------------------------------------------------------------

def ddp_process(rank, world, job, warm_steps, steps, seconds):
    import torch
    import torch.distributed as dist
    torch.set_num_threads(1)
    torch.manual_seed(1)
    dist.init_process_group("gloo", rank=rank, world_size=world)
    net, make_optimizer = torch_net(job)
    net = torch.nn.parallel.DistributedDataParallel(net)
    optimizer = make_optimizer(net)
    batches = torch_batches(job, rank, world)
    done, begin, go_on = 0, 0.0, torch.ones(1)
    while go_on.item():
        if done == warm_steps:
            begin = time.perf_counter()
        optimizer.zero_grad()
        net(*batches[done % len(batches)]).backward()
        optimizer.step()
        done += 1
        if done > warm_steps and (done - warm_steps) % 4 == 0:  # all end with the same step
            go_on[0] = float(done < steps and time.perf_counter() - begin < seconds)
            dist.broadcast(go_on, 0)
    if rank == 0:
        rate = (done - warm_steps) * job["batch"] / (time.perf_counter() - begin)
        print(json.dumps({"samples_per_s": rate}), flush=True)
    dist.destroy_process_group()


def ddp_run(network, job, arguments):
    hosts = handler_hosts(network)
    world = arguments.handlers or len(hosts)
    processes = []
    for rank in range(world):
        host = hosts[rank % len(hosts)]
        environment = dict(os.environ, MASTER_ADDR=network.address("h0"), MASTER_PORT="29500", OMP_NUM_THREADS="1",
                           GLOO_SOCKET_IFNAME="up0")
        given = [rank, world, job, arguments.warm_steps, arguments.steps, arguments.seconds]
        words = [sys.executable, __file__, "--ddp", json.dumps(given)]
        processes.append(subprocess.Popen(network.words(host, words), env=environment, stdout=subprocess.PIPE,
                                          stderr=subprocess.PIPE, text=True))
    texts = [process.communicate() for process in processes]
    if any(process.returncode for process in processes):
        sys.exit(f"DDP failed: {texts[0][1][-2000:]}")
    return json.loads(texts[0][0].splitlines()[-1])


def handler_hosts(network):
    return [name for name in network.names if name.startswith("h")]


# ---- rounds ----------------------------------------------------------------------------------------------------

class Program:
    """A program that takes turns: `run(network)` on `hosts` handler hosts, encrypted or clear."""

    def __init__(self, run, hosts, clear=False):
        self.run, self.hosts, self.clear = run, hosts, clear

    def turn(self, rate, delay_ms):
        names = ["broker", "manager"] + [f"h{i}" for i in range(self.hosts)]
        with Network(names, None if rate == "unlimited" else rate, delay_ms, loopback=self.clear) as network:
            return self.run(network)


def programs_of(job, arguments):
    """The programs that take turns, by name. Ratios are of the first to each of the others."""
    def acan(program):
        return lambda network: acan_run(program, network, job, arguments)

    programs, several = {}, len(arguments.hosts) > 1
    for hosts in arguments.hosts:
        where = f", {hosts} hosts" if several else ""
        programs[f"acan{where}"] = Program(acan(arguments.acan), hosts)
        if arguments.clear:
            programs[f"acan in clear text{where}"] = Program(acan(arguments.acan), hosts, clear=True)
        if arguments.other:
            programs[f"other acan{where}"] = Program(acan(arguments.other), hosts)
        if DDP in arguments.peers:
            programs[f"{DDP}{where}"] = Program(lambda network: ddp_run(network, job, arguments), hosts)
    return programs


def bytes_summary(runs):
    """Bytes of all links together, counted where they are sent, and of the broker's link."""
    links = {host: {way: statistics.median(run["bytes_a_step"][host][way] for run in runs) for way in ("out", "into")}
             for host in runs[0]["bytes_a_step"]}
    sent = sum(link["out"] for link in links.values())
    broker = links["broker"]
    return dict(links=links, all_links=sent, broker_share=broker["out"] / sent if sent else None)


def measure(job, rate, programs, arguments):
    runs = {who: [] for who in programs}
    names = list(programs)
    for round_number in range(arguments.rounds):
        first = round_number % len(names)
        for who in names[first:] + names[:first]:
            runs[who].append(programs[who].turn(rate, arguments.delay_ms))
            print(f"{rate:10} {who:28} {runs[who][-1]['samples_per_s']:9.1f} samples/s", file=sys.stderr)
    base = names[0]
    report = dict(samples_per_s={who: summary([run["samples_per_s"] for run in each]) for who, each in runs.items()},
                  ratios={f"{base} / {who}": summary([a["samples_per_s"] / b["samples_per_s"]
                                                      for a, b in zip(runs[base], runs[who])])
                          for who in names[1:]})
    report["bytes_a_step"] = {who: bytes_summary(each) for who, each in runs.items() if "bytes_a_step" in each[0]}
    report["processor_ms_a_step"] = {who: {name: statistics.median(run["processor_ms_a_step"][name] for run in each)
                                           for name in each[0]["processor_ms_a_step"]}
                                     for who, each in runs.items() if "processor_ms_a_step" in each[0]}
    report["plans"] = {who: each[0]["plan"] for who, each in runs.items() if "plan" in each[0]}
    return report


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--acan", default="build/release/bin/acan")
    parser.add_argument("--other", help="another build of acan, in turn with the first")
    parser.add_argument("--job", choices=list(JOBS), default="wide")
    parser.add_argument("--rates", nargs="+", default=["unlimited", "1gbit", "100mbit"])
    parser.add_argument("--delay-ms", type=float, default=0)
    parser.add_argument("--hosts", type=int, nargs="+", default=[2], help="handler hosts; several numbers take turns")
    parser.add_argument("--handlers", type=int, help="handlers on all hosts together; default: one for each host")
    parser.add_argument("--device", default="cpu:1")
    parser.add_argument("--throttle", metavar="GFLOPS", help="no handler of acan computes faster")
    parser.add_argument("--clear", action="store_true",
                        help="acan in clear text, too: the hosts' addresses are then loopback ones")
    parser.add_argument("--memory", default="1GiB")
    parser.add_argument("--set", action="append", default=[], metavar="SECTION.KEY=VALUE")
    parser.add_argument("--peers", nargs="*", choices=[DDP], default=[])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--warm-steps", type=int, default=8, help="the first, which are not counted")
    parser.add_argument("--steps", type=int, default=2000, help="a run has at most so many")
    parser.add_argument("--seconds", type=float, default=6, help="a run is measured so long")
    parser.add_argument("--json", help="write the report here, in place of stdout")
    parser.add_argument("--verbose", action="store_true", help="show the manager's log")
    parser.add_argument("--ddp", type=json.loads, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.ddp:
        return ddp_process(*arguments.ddp)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # removes namespaces and processes
    job = JOBS[arguments.job]
    programs = programs_of(job, arguments)
    report = dict(machine=platform.processor() or platform.machine(), job=dict(JOBS[arguments.job], name=arguments.job),
                  hosts=arguments.hosts, handlers=arguments.handlers or "one for each host",
                  device=arguments.device, throttle_gflops=arguments.throttle, settings=arguments.set, delay_ms=arguments.delay_ms,
                  acan=subprocess.check_output([arguments.acan, "--version"], text=True).strip(),
                  least_bytes_a_step={hosts: least_bytes(job, hosts) for hosts in arguments.hosts}, rates={})
    for rate in arguments.rates:
        report["rates"][rate] = measure(job, rate, programs, arguments)
    text = json.dumps(report, indent=1)
    if arguments.json:
        pathlib.Path(arguments.json).write_text(text + "\n")
    else:
        print(text)


if __name__ == "__main__":
    main()
