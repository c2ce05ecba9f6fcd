#!/usr/bin/env python3
"""Two network namespaces with a slow cable between them, and a command in the first.

    tests/ranks/slow_link.py SECONDS COMMAND...      needs root, /dev/net/tun and ip

Each packet arrives so many seconds after it was sent: netem of tc does the same where the kernel has it.
The command runs in a namespace with the address 10.77.0.1. AGENT, a script whose path is in the variable
of that name, runs a command in the other one, 10.77.0.2: what mpirun uses in place of ssh. Exit code 77:
this machine allows no namespaces.
"""
import fcntl
import heapq
import os
import select
import struct
import subprocess
import sys
import tempfile
import time

TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 0x0001, 0x1000


def ip(*words):
    return subprocess.run(["ip", *words], capture_output=True, check=False).returncode == 0


def open_end(namespace, address):
    """A network interface in the namespace, and the descriptor that its packets come out of."""
    tun = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    name = f"{namespace}t"
    fcntl.ioctl(tun, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TUN | IFF_NO_PI))
    good = (ip("link", "set", name, "netns", namespace) and ip("-n", namespace, "addr", "add", address, "dev", name) and
            ip("-n", namespace, "link", "set", name, "mtu", "1500", "up") and
            ip("-n", namespace, "link", "set", "lo", "up"))
    if not good:
        raise OSError("ip")
    return tun


def carry(ends, delay, command):
    """Packets from each end to the other, until the command has ended; its exit code."""
    queue, count = [], 0
    while command.poll() is None:
        now = time.monotonic()
        while queue and queue[0][0] <= now:
            _, _, to, packet = heapq.heappop(queue)
            try:
                os.write(to, packet)
            except OSError:
                pass  # lost, as on a cable: TCP sends it again
        wait = max(0, queue[0][0] - now) if queue else 0.05
        for tun in select.select(ends, [], [], min(wait, 0.05))[0]:
            try:
                packet = os.read(tun, 65536)
            except OSError:
                continue
            count += 1
            heapq.heappush(queue, (time.monotonic() + delay, count, ends[tun == ends[0]], packet))
    return command.returncode


def main():
    delay, words = float(sys.argv[1]), sys.argv[2:]
    names = [f"lp{os.getpid() % 100000}{side}" for side in "ab"]
    agent = tempfile.NamedTemporaryFile("w", suffix=".sh", delete=False)
    try:
        if not all(ip("netns", "add", name) for name in names):
            raise OSError("ip netns")
        ends = [open_end(name, f"10.77.0.{side}/24") for side, name in enumerate(names, 1)]
        with agent:
            agent.write(f'#!/bin/sh\nshift\nexec ip netns exec {names[1]} sh -c "$*"\n')
        os.chmod(agent.name, 0o755)
        command = subprocess.Popen(["ip", "netns", "exec", names[0], *words], env={**os.environ, "AGENT": agent.name})
        return carry(ends, delay, command)
    except OSError as error:
        print(f"slow_link: {error}", file=sys.stderr)
        return 77
    finally:
        os.unlink(agent.name)
        for name in names:
            ip("netns", "del", name)


if __name__ == "__main__":
    sys.exit(main())
