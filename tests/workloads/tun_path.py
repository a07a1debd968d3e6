#!/usr/bin/env python3
"""A path between two network namespaces that reorders and drops: two TUN devices and a loop that forwards.

Runs in one namespace (10.85.0.1) and moves one device to the namespace `--far` (10.85.0.2). Of the packets
with data from here to there every 7th is overtaken by the next one, and every 50th is dropped. Ends by the
signal TERM and prints its counts as one JSON object. Needs root; the devices end with the program.
"""

import argparse
import fcntl
import json
import os
import select
import signal
import struct
import subprocess
import sys

TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 1, 0x1000
HELD_S = 0.005


def device(name):
    end = os.open("/dev/net/tun", os.O_RDWR)
    fcntl.ioctl(end, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TUN | IFF_NO_PI))
    return end


def ip(*words):
    subprocess.run(["ip", *words], check=True)


def up(namespace, name, address):
    ip(*namespace, "address", "add", address, "dev", name)
    ip(*namespace, "link", "set", name, "up")


def has_data(packet):
    """Says if an IPv4 packet of TCP has data after its headers (RFC 791, section 3.1; RFC 9293, section 3.1)."""
    ip_header, length = (packet[0] & 15) * 4, struct.unpack_from("!H", packet, 2)[0]
    tcp_header = (packet[ip_header + 12] >> 4) * 4
    return length > ip_header + tcp_header


def forward(near, far, stop):
    """Forwards until `stop` is readable."""
    packets = overtaken = dropped = 0
    held = None
    while True:
        ready, _, _ = select.select([near, far, stop], [], [], HELD_S if held else None)
        if stop in ready:
            return {"packets": packets, "overtaken": overtaken, "dropped": dropped}
        if far in ready:
            os.write(near, os.read(far, 65536))
        if near in ready:
            packet = os.read(near, 65536)
            if not has_data(packet):
                os.write(far, packet)
                continue
            packets += 1
            if packets % 50 == 0:
                dropped += 1
            elif packets % 7 == 0 and not held:
                held = packet
                continue
            else:
                os.write(far, packet)
                overtaken += held is not None
        if held:
            os.write(far, held)
            held = None


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--far", required=True, metavar="NAMESPACE", help="as in `ip netns`")
    parser.add_argument("--timeout", type=int, default=60, help="seconds after which it is killed")
    args = parser.parse_args()
    signal.alarm(args.timeout)
    stop, wakeup = os.pipe()
    os.set_blocking(wakeup, False)
    signal.set_wakeup_fd(wakeup)
    signal.signal(signal.SIGTERM, lambda *_: None)
    ends = device("near"), device("far")
    ip("link", "set", "far", "netns", args.far)
    up((), "near", "10.85.0.1/30")
    up(("-n", args.far), "far", "10.85.0.2/30")
    print("forwarding", file=sys.stderr, flush=True)
    print(json.dumps({"workload": "tun_path"} | forward(*ends, stop)), flush=True)
