#!/usr/bin/env python3
"""Packets and calls of other users and other hosts that a recorder has to withstand.

`syns` and `datagrams` forge sources (`--sources` addresses from `--from` on) towards `--host` and `--port`,
and need CAP_NET_RAW. `options`, `listeners` and `destinations` become nobody and need root. `halves` runs
as the user who starts it. Each ends after `--seconds`, by `--count` or by the signal TERM, and prints its
counts as one JSON object.
"""

import argparse
import ipaddress
import json
import os
import random
import resource
import signal
import socket
import struct
import sys
import time

import ends

NOBODY = 65534
# The TCP option that `record --in-band` looks for: RFC 4727's first experimental kind, length, mark.
IN_BAND = bytes([253, 4, 0x53, 0x50])


def paced(opts):
    return ends.paced(opts.seconds, opts.rate, opts.count)


def checksum(data):
    data += b"\0" * (len(data) % 2)
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return ~total & 0xffff


def forge(opts, protocol, transport):
    """Sends `transport(source, target, random)`, each time from the next source."""
    raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
    dice = random.Random(opts.seed)
    first = int(ipaddress.ip_address(opts.source))
    target = socket.inet_aton(opts.host)
    sent = refused = 0
    for number in paced(opts):
        source = struct.pack("!I", first + number % opts.sources)
        body = transport(source, target, dice)
        header = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(body), number & 0xffff, 0, 64, protocol, 0,
                             source, target)
        try:
            raw.sendto(header + body, (opts.host, 0))
            sent += 1
        except OSError:
            refused += 1
            time.sleep(0.001)  # the queue is full
    return {"packets": sent, "refused": refused}


def syns(opts):
    option = IN_BAND if opts.in_band else b""

    def syn(source, target, dice):
        port, number = dice.randrange(1024, 65536), dice.getrandbits(32)
        offset = (20 + len(option)) // 4 << 4
        tcp = struct.pack("!HHIIBBHHH", port, opts.port, number, 0, offset, 2, 64240, 0, 0) + option
        pseudo = source + target + struct.pack("!BBH", 0, socket.IPPROTO_TCP, len(tcp))
        return tcp[:16] + struct.pack("!H", checksum(pseudo + tcp)) + tcp[18:]
    return forge(opts, socket.IPPROTO_TCP, syn)


def datagrams(opts):
    def datagram(_source, _target, dice):
        return struct.pack("!HHHH", dice.randrange(1024, 65536), opts.port, 9, 0) + b"x"
    return forge(opts, socket.IPPROTO_UDP, datagram)


def become_nobody():
    files = min(resource.getrlimit(resource.RLIMIT_NOFILE)[1], 65536)
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)


def options(opts):
    become_nobody()
    sock = socket.socket()
    done = 0
    for _ in paced(opts):
        for _ in range(100):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        done += 100
    return {"options": done}


def listeners(opts):
    become_nobody()
    until_ended = ends.paced(opts.seconds, rate=20)
    kept, refused = [], 0
    for _ in range(opts.count or 4200):
        sock = socket.socket()
        refused += ends.ask_for_log(sock) is not None
        sock.bind(("127.0.0.1", 0))
        sock.listen(1)
        kept.append(sock)
    print("listening", file=sys.stderr, flush=True)
    for _ in until_ended:
        pass
    return {"listeners": len(kept), "refused": refused}


def destinations(opts):
    become_nobody()
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    refused = int(ends.ask_for_log(sock) is not None)
    done = 0
    for number in paced(opts):
        place = number % opts.sources
        try:
            sock.sendto(b"x", (f"127.0.{2 + place // 60000}.1", 1024 + place % 60000))
        except OSError:
            pass  # no socket has that port
        done += 1
    return {"datagrams": done, "refused": refused}


def halves(opts):
    """First packets of VMTP requests of 4 MiB (RFC 1045 section 3.2), each of another client; the rest is never sent."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    host = int(ipaddress.ip_address(opts.host))
    server = 1 << 32 | host
    sent = refused = 0
    for number in paced(opts):
        client = (2 + number % opts.sources) << 32 | host
        head = struct.pack("!QIIIIQI", client, 1 << 16 | 128, 0, 1, 1, server, 0x10000000 | 0x42)
        packet = head + bytes(24) + struct.pack("!I", 4 << 20) + bytes(512) + bytes(4)
        try:
            sock.sendto(packet, (opts.host, opts.port))
            sent += 1
        except OSError:
            refused += 1
            time.sleep(0.001)
    return {"packets": sent, "refused": refused}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    kinds = {f.__name__: f for f in (syns, datagrams, options, listeners, destinations, halves)}
    parser.add_argument("kind", choices=kinds)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--from", dest="source", default="10.84.0.1", help="first forged source")
    parser.add_argument("--sources", type=int, default=300_000)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--rate", type=float, default=0, help="a second at most; 0: no limit")
    parser.add_argument("--count", type=int, default=0, help="ends after so many; 0: no limit")
    parser.add_argument("--in-band", action="store_true", help="syns: with the option of record --in-band")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    signal.alarm(int(args.seconds) + 60)
    print(json.dumps({"workload": "strangers", "kind": args.kind} | kinds[args.kind](args)), flush=True)
