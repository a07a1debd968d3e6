#!/usr/bin/env python3
"""What programs of other users, and other hosts, can do to a recorder: for tests, in namespaces of their own.

`syns` and `datagrams` forge sources (--sources addresses from --from on) towards --host and --port and need
root; `options`, `listeners` and `destinations` run as nobody, `halves` as who starts it. Each ends after `--seconds`, or by the signal
TERM, and prints what it did as one JSON object.
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

SOL_SOCKSCOPE, SO_LOG = 0x5350, 1
NOBODY = 65534
ended = False


def stop(*_):
    global ended
    ended = True


def goes_on(opts, started, done):
    """Whether to do one more, no faster than `--rate` a second."""
    if ended or time.monotonic() - started > opts.seconds or (opts.count and done >= opts.count):
        return False
    ahead = done / opts.rate - (time.monotonic() - started) if opts.rate else 0
    if ahead > 0.01:
        time.sleep(ahead)
    return True


def checksum(data):
    data += b"\0" * (len(data) % 2)
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return ~total & 0xffff


def forge(opts, protocol, transport):
    """Sends `transport(source, target, random)` from ever other sources."""
    raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
    dice = random.Random(opts.seed)
    first = int(ipaddress.ip_address(opts.source))
    target = socket.inet_aton(opts.host)
    started, done = time.monotonic(), 0
    while goes_on(opts, started, done):
        source = struct.pack("!I", first + done % opts.sources)
        body = transport(source, target, dice)
        header = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(body), done & 0xffff, 0, 64, protocol, 0,
                             source, target)
        try:
            raw.sendto(header + body, (opts.host, 0))
        except OSError:
            time.sleep(0.001)  # the queue is full
        done += 1
    return {"packets": done, "sources": min(done, opts.sources)}


def syns(opts):
    def syn(source, target, dice):
        port, number = dice.randrange(1024, 65536), dice.getrandbits(32)
        tcp = struct.pack("!HHIIBBHHH", port, opts.port, number, 0, 5 << 4, 2, 64240, 0, 0)
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
    started, done = time.monotonic(), 0
    while goes_on(opts, started, done):
        for _ in range(100):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        done += 100
    return {"options": done}


def listeners(opts):
    become_nobody()
    kept, refused = [], 0
    for _ in range(opts.count or 4200):
        sock = socket.socket()
        try:
            sock.setsockopt(SOL_SOCKSCOPE, SO_LOG, 1)
        except OSError:
            refused += 1
        sock.bind(("127.0.0.1", 0))
        sock.listen(1)
        kept.append(sock)
    print("listening", file=sys.stderr, flush=True)
    started = time.monotonic()
    while not ended and time.monotonic() - started < opts.seconds:
        time.sleep(0.05)
    return {"listeners": len(kept), "refused": refused}


def destinations(opts):
    become_nobody()
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        sock.setsockopt(SOL_SOCKSCOPE, SO_LOG, 1)
        refused = 0
    except OSError:
        refused = 1
    started, done = time.monotonic(), 0
    while goes_on(opts, started, done):
        number = done % opts.sources
        try:
            sock.sendto(b"x", (f"127.0.{2 + number // 60000}.1", 1024 + number % 60000))
        except OSError:
            pass  # nobody listens there
        done += 1
    return {"datagrams": done, "refused": refused}


def halves(opts):
    """First packets of VMTP requests of 4 MiB (RFC 1045 section 3.2), each of another client; no second comes."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    host = int(ipaddress.ip_address(opts.host))
    server = 1 << 32 | host
    started, done = time.monotonic(), 0
    while goes_on(opts, started, done):
        client = (2 + done % opts.sources) << 32 | host
        head = struct.pack("!QIIIIQI", client, 1 << 16 | 128, 0, 1, 1, server, 0x10000000 | 0x42)
        packet = head + bytes(24) + struct.pack("!I", 4 << 20) + bytes(512) + bytes(4)
        try:
            sock.sendto(packet, (opts.host, opts.port))
        except OSError:
            time.sleep(0.001)
        done += 1
    return {"packets": done}


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
    parser.add_argument("--rate", type=float, default=0, help="a second at most; 0: as fast as it goes")
    parser.add_argument("--count", type=int, default=0, help="ends after so many; 0: by time alone")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, stop)
    signal.alarm(int(args.seconds) + 60)
    print(json.dumps({"workload": "strangers", "kind": args.kind} | kinds[args.kind](args)), flush=True)
