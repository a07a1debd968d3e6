#!/usr/bin/env python3
"""A peer that answers each segment with an acknowledgment out of the window: a TUN device and a few lines of TCP.

It answers for 10.88.0.2 behind the device `peer` (10.88.0.1) of its namespace, on every port. The first request is
answered with as many bytes. From then on the numbers of the two ends differ, as after a middlebox that lost its state:
each of them answers the other's acknowledgments. Linux answers two a second at most; the program lifts that limit
(net.ipv4.tcp_invalid_ratelimit) in its namespace. It stops after `--answers`. Ends by the signal TERM and prints its
counts as one JSON object. Needs root; the device ends with the program.
"""

import argparse
import json
import os
import pathlib
import select
import signal
import subprocess
import sys

import small_windows as tcp

LIMIT = pathlib.Path("/proc/sys/net/ipv4/tcp_invalid_ratelimit")
# Far outside of any window.
ASTRAY = 1 << 30


class Peer:
    """One connection."""

    def __init__(self, answers):
        self.left = answers
        self.next = 0
        self.counts = {"acknowledgments": 0, "answers": 0}

    def answer(self, packet):
        """The segments that answer an IPv4 packet."""
        segment = tcp.parse(packet)
        if not segment or segment.flags & tcp.RST:
            return []
        if segment.flags & tcp.SYN:
            self.next = segment.seq + 1
            return [tcp.reply(segment, tcp.ISS, self.next, tcp.SYN | tcp.ACK, 65535)]
        own = tcp.ISS + 1
        if segment.size:
            self.next = segment.seq + segment.size
            answer = tcp.reply(segment, own, self.next, tcp.ACK, 65535, b"a" * segment.size)
            astray = tcp.reply(segment, own - ASTRAY, self.next, tcp.ACK, 65535)
            return [answer, astray]
        self.counts["acknowledgments"] += 1
        if segment.flags & tcp.FIN or not self.left:
            return []
        self.left -= 1
        self.counts["answers"] += 1
        return [tcp.reply(segment, own - ASTRAY, self.next, tcp.ACK, 65535)]


def run(end, peer, stop):
    """Answers until `stop` is readable."""
    while True:
        ready, _, _ = select.select([end, stop], [], [])
        if stop in ready:
            return peer.counts
        for answer in peer.answer(os.read(end, 65536)):
            os.write(end, answer)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--answers", type=int, default=2000)
    parser.add_argument("--timeout", type=int, default=60, help="seconds after which it is killed")
    args = parser.parse_args()
    signal.alarm(args.timeout)
    stop_end, wakeup = os.pipe()
    os.set_blocking(wakeup, False)
    signal.set_wakeup_fd(wakeup)
    signal.signal(signal.SIGTERM, lambda *_: None)
    LIMIT.write_text("0")
    tun = tcp.device("peer")
    for words in ("address add 10.88.0.1/30 dev peer", "link set peer up"):
        subprocess.run(["ip", *words.split()], check=True)
    print("answering", file=sys.stderr, flush=True)
    print(json.dumps({"workload": "ack_storm"} | run(tun, Peer(args.answers), stop_end)), flush=True)
