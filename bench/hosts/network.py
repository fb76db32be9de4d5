"""Hosts as network namespaces, each with its own link to a common switch. tbf shapes both
directions of a link. Needs root, iproute2 and a kernel with veth, bridge and tbf."""
import json
import os
import subprocess


def ip(*words):
    return subprocess.check_output(["ip", *map(str, words)], text=True)


class Network:
    """`names`: the hosts. `rate`: of each link and direction, as tc writes it ("100mbit"); None:
    unlimited. `delay_ms`: added to each direction of each link. `loopback`: gives the hosts
    addresses in 127.0.0.0/8, for programs that refuse other hosts; the traffic crosses the same
    links."""

    def __init__(self, names, rate=None, delay_ms=0, loopback=False):
        self.loopback = loopback
        self.tag = f"{os.getpid() % 0x100000:05x}"
        self.names = list(names)
        self.rate, self.delay_ms = rate, delay_ms
        self.made = []

    def __enter__(self):
        try:
            self._make()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for space in self.made:  # this removes its links, too
            subprocess.run(["ip", "netns", "del", space], stderr=subprocess.DEVNULL, check=False)
        self.made = []

    def space(self, name):
        return f"acan-{self.tag}-{name}"

    def address(self, name):
        return f"{'127' if self.loopback else '10'}.198.0.{self.names.index(name) + 1}"

    def words(self, name, words):
        """A command line that runs `words` on that host."""
        return ["ip", "netns", "exec", self.space(name), *map(str, words)]

    def counters(self):
        """The bytes that each host has sent and received over its link so far."""
        found = {}
        for name in self.names:
            text = subprocess.check_output(
                ["ip", "netns", "exec", self.space(name), "ip", "-j", "-s", "link", "show", "dev", "up0"], text=True)
            stats = json.loads(text)[0]["stats64"]
            found[name] = dict(out=stats["tx"]["bytes"], into=stats["rx"]["bytes"])
        return found

    def _make(self):
        switch = self._add_space("switch")
        ip("-n", switch, "link", "add", "bridge", "type", "bridge")
        ip("-n", switch, "link", "set", "bridge", "up")
        for number, name in enumerate(self.names):
            space = self._add_space(name)
            port = f"port{number}"
            ip("link", "add", "up0", "netns", space, "type", "veth", "peer", "name", port, "netns", switch)
            ip("-n", switch, "link", "set", port, "master", "bridge")
            ip("-n", switch, "link", "set", port, "up")
            ip("-n", space, "link", "set", "lo", "up")
            if self.loopback:
                self._route_loopback(space)
            ip("-n", space, "addr", "add", f"{self.address(name)}/24", "dev", "up0")
            ip("-n", space, "link", "set", "up0", "up")
            self._shape(space, "up0")
            self._shape(switch, port)

    def _add_space(self, name):
        ip("netns", "add", self.space(name))
        self.made.append(self.space(name))
        return self.space(name)

    def _route_loopback(self, space):
        """Lets all addresses of 127.0.0.0/8 except one leave the host."""
        subprocess.check_call(["ip", "netns", "exec", space, "sysctl", "-q", "net.ipv4.conf.all.route_localnet=1"])
        ip("-n", space, "addr", "del", "127.0.0.1/8", "dev", "lo")
        ip("-n", space, "addr", "add", "127.0.0.1/32", "dev", "lo")

    def _shape(self, space, device):
        tc = ["ip", "netns", "exec", space, "tc", "qdisc", "add", "dev", device]
        if self.rate:
            subprocess.check_call(tc + ["root", "handle", "1:", "tbf", "rate", self.rate, "burst", "256kb",
                                        "latency", "100ms"])
        if self.delay_ms:
            at = ["parent", "1:1", "handle", "10:"] if self.rate else ["root"]
            subprocess.check_call(tc + at + ["netem", "delay", f"{self.delay_ms}ms", "limit", "100000"])
