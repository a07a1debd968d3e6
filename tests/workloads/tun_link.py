#!/usr/bin/env python3
"""A link between two network namespaces with a delay, a rate and a largest packet: two TUN devices and a loop.

Runs in one namespace (10.86.0.1) and moves one device to the namespace `--far` (10.86.0.2). Each packet arrives
`--delay-ms` after it was sent. With `--rate` the link takes so many bytes a second from here to there, and packets wait
for it in a queue of `--queue-bytes`; one that finds no room is dropped. With `--largest` it drops each packet from here
to there that is larger, and says so to no one. Ends by the signal TERM and prints its counts as one JSON object. Needs
root; the devices end with the program.
"""

import argparse
import collections
import fcntl
import json
import os
import select
import signal
import struct
import subprocess
import sys
import time

TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 1, 0x1000


def device(name):
    end = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(end, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TUN | IFF_NO_PI))
    return end


def ip(*words):
    subprocess.run(["ip", *words], check=True)


def up(namespace, name, address):
    ip(*namespace, "address", "add", address, "dev", name)
    ip(*namespace, "link", "set", name, "up")


class Way:
    """One direction of the link."""

    def __init__(self, source, sink, opts, is_limited):
        self.source, self.sink = source, sink
        self.delay_s = opts.delay_ms / 1000
        self.rate = opts.rate if is_limited else 0
        self.largest = opts.largest if is_limited else 0
        self.queue_bytes = opts.queue_bytes
        self.free_at = 0.0
        self.packets = collections.deque()
        self.counts = {"packets": 0, "bytes": 0, "dropped": 0, "too_large": 0}

    def take(self, now):
        """Takes all packets that are there."""
        while True:
            try:
                packet = os.read(self.source, 65536)
            except BlockingIOError:
                return
            if self.largest and len(packet) > self.largest:
                self.counts["too_large"] += 1
                continue
            start = max(now, self.free_at)
            if self.rate and (start - now) * self.rate > self.queue_bytes:
                self.counts["dropped"] += 1
                continue
            self.free_at = start + (len(packet) / self.rate if self.rate else 0)
            self.packets.append((self.free_at + self.delay_s, packet))
            self.counts["packets"] += 1
            self.counts["bytes"] += len(packet)

    def give(self, now):
        """Hands on the packets whose time has come."""
        while self.packets and self.packets[0][0] <= now:
            os.write(self.sink, self.packets.popleft()[1])

    def next_at(self):
        return self.packets[0][0] if self.packets else None


def forward(ways, stop):
    """Forwards until `stop` is readable."""
    sources = [way.source for way in ways]
    while True:
        due = [way.next_at() for way in ways if way.packets]
        wait_s = max(0, min(due) - time.monotonic()) if due else None
        ready, _, _ = select.select([*sources, stop], [], [], wait_s)
        if stop in ready:
            return {"there": ways[0].counts, "back": ways[1].counts}
        now = time.monotonic()
        for way in ways:
            if way.source in ready:
                way.take(now)
            way.give(now)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--far", required=True, metavar="NAMESPACE", help="as in `ip netns`")
    parser.add_argument("--delay-ms", type=float, default=0)
    parser.add_argument("--rate", type=int, default=0, help="bytes a second; 0 for no bound")
    parser.add_argument("--queue-bytes", type=int, default=200_000)
    parser.add_argument("--largest", type=int, default=0, help="octets of a packet; 0 for no bound")
    parser.add_argument("--timeout", type=int, default=60, help="seconds after which it is killed")
    args = parser.parse_args()
    signal.alarm(args.timeout)
    stop_end, wakeup = os.pipe()
    os.set_blocking(wakeup, False)
    signal.set_wakeup_fd(wakeup)
    signal.signal(signal.SIGTERM, lambda *_: None)
    near, far = device("near"), device("far")
    ip("link", "set", "far", "netns", args.far)
    up((), "near", "10.86.0.1/30")
    up(("-n", args.far), "far", "10.86.0.2/30")
    print("forwarding", file=sys.stderr, flush=True)
    both = [Way(near, far, args, True), Way(far, near, args, False)]
    print(json.dumps({"workload": "tun_link"} | forward(both, stop_end)), flush=True)
