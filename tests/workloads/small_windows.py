#!/usr/bin/env python3
"""A peer whose window opens in small steps: a TUN device, and a TCP of a few lines behind it.

It answers for 10.87.0.2 behind the device `peer` (10.87.0.1) of its namespace, on every port. Its buffer has room for
`--buffer` bytes. Once that is full it takes `--step` bytes from it for each segment that arrives, and offers their
room at once, against RFC 9293 section 3.8.6.2.2. Ends by the signal TERM and prints its counts as one JSON object.
Needs root; the device ends with the program.
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

TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 1, 0x1000
FIN, SYN, RST, ACK = 1, 2, 4, 16
ISS = 1000


def device(name):
    end = os.open("/dev/net/tun", os.O_RDWR)
    fcntl.ioctl(end, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TUN | IFF_NO_PI))
    return end


def checksum(data):
    words = struct.unpack(f"!{len(data) // 2}H", data)
    total = sum(words)
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


Segment = collections.namedtuple("Segment", "source sink ports seq flags size")


def parse(packet):
    """The segment of an IPv4 packet; None where it has none."""
    header = (packet[0] & 15) * 4
    if packet[0] >> 4 != 4 or packet[9] != 6:
        return None
    seq, _, offset, flags = struct.unpack("!IIBB", packet[header + 4:header + 14])
    size = struct.unpack("!H", packet[2:4])[0] - header - (offset >> 4) * 4
    ports = packet[header:header + 4]
    return Segment(packet[12:16], packet[16:20], ports, seq, flags, size)


def reply(segment, seq, acknowledged, flags, window, data=b""):
    """An IPv4 packet that goes back where the segment came from."""
    # Of a SYN: segments of 1460 bytes at most.
    options = b"\x02\x04\x05\xb4" if flags & SYN else b""
    tcp = segment.ports[2:] + segment.ports[:2] + struct.pack(
        "!IIBBHHH", seq & 0xFFFFFFFF, acknowledged & 0xFFFFFFFF, (20 + len(options)) << 2, flags,
        window, 0, 0) + options + data
    ends = segment.sink + segment.source
    summed = ends + struct.pack("!BBH", 0, 6, len(tcp)) + tcp + b"\0" * (len(tcp) % 2)
    tcp = tcp[:16] + struct.pack("!H", checksum(summed)) + tcp[18:]
    ip = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(tcp), 0, 0, 64, 6, 0) + ends
    return ip[:10] + struct.pack("!H", checksum(ip)) + ip[12:] + tcp


class Peer:
    """One connection at a time."""

    def __init__(self, opts):
        self.step, self.buffer = opts.step, opts.buffer
        self.next = self.edge = 0
        self.counts = {"segments": 0, "bytes": 0, "small": 0}

    def answer(self, packet):
        """The segment that answers an IPv4 packet; None for none."""
        segment = parse(packet)
        if not segment or segment.flags & RST:
            return None
        if segment.flags & SYN:
            self.next, self.edge = segment.seq + 1, segment.seq + 1 + self.buffer
        elif segment.size:
            self.take(segment.seq, segment.size)
        elif not segment.flags & FIN:
            return None
        own, flags = (ISS, SYN | ACK) if segment.flags & SYN else (ISS + 1, ACK)
        return reply(segment, own, self.next, flags, max(0, self.edge - self.next))

    def take(self, seq, size):
        if seq != self.next & 0xFFFFFFFF or self.next + size > self.edge:
            return
        self.next += size
        self.counts["segments"] += 1
        self.counts["bytes"] += size
        self.counts["small"] += size <= self.step
        if self.edge - self.next < self.step:
            self.edge = self.next + self.step


def run(end, peer, stop):
    """Answers until `stop` is readable."""
    while True:
        ready, _, _ = select.select([end, stop], [], [])
        if stop in ready:
            return peer.counts
        answer = peer.answer(os.read(end, 65536))
        if answer:
            os.write(end, answer)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--step", type=int, default=100)
    parser.add_argument("--buffer", type=int, default=8000, help="below 64 KiB")
    parser.add_argument("--timeout", type=int, default=60, help="seconds after which it is killed")
    args = parser.parse_args()
    signal.alarm(args.timeout)
    stop_end, wakeup = os.pipe()
    os.set_blocking(wakeup, False)
    signal.set_wakeup_fd(wakeup)
    signal.signal(signal.SIGTERM, lambda *_: None)
    tun = device("peer")
    for words in ("address add 10.87.0.1/30 dev peer", "link set peer up"):
        subprocess.run(["ip", *words.split()], check=True)
    print("answering", file=sys.stderr, flush=True)
    print(json.dumps({"workload": "small_windows"} | run(tun, Peer(args), stop_end)), flush=True)
