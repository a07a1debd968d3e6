#!/usr/bin/env python3
"""Sends packets over loopback from addresses and ports that no socket has: SYNs, or datagrams.

Prints how many, as one JSON object. Needs CAP_NET_RAW.
"""

import argparse
import json
import socket
import struct
import time

LOOPBACK = socket.inet_aton("127.0.0.1")
PORTS = 60_000


def checksum(data):
    """The Internet checksum (RFC 1071)."""
    if len(data) % 2:
        data += b"\0"
    total = sum(struct.unpack("!%dH" % (len(data) // 2), data))
    total = (total >> 16) + (total & 0xFFFF)
    total += total >> 16
    return ~total & 0xFFFF


def syn(source, port, to, number):
    """A SYN, with the option of --in-band where it is asked for."""
    option = OPTION
    offset = (20 + len(option)) // 4 << 4
    header = struct.pack("!HHIIBBHHH", port, to, number, 0, offset, 2, 1000, 0, 0) + option
    pseudo = source + LOOPBACK + struct.pack("!BBH", 0, socket.IPPROTO_TCP, len(header))
    return header[:16] + struct.pack("!H", checksum(pseudo + header)) + header[18:]


def datagram(source, port, to, number):
    """A datagram of one octet, without a checksum."""
    return struct.pack("!HHHH", port, to, 9, 0) + b"x"


arguments = argparse.ArgumentParser(description=__doc__)
arguments.add_argument("kind", choices=["syn", "udp"])
arguments.add_argument("--count", type=int, required=True)
arguments.add_argument("--port", type=int, required=True)
arguments.add_argument("--marked", action="store_true")
given = arguments.parse_args()
OPTION = bytes([253, 4, 0x53, 0x50]) if given.marked else b""
make, protocol = (syn, 6) if given.kind == "syn" else (datagram, 17)

raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
for number in range(given.count):
    source = struct.pack("!I", 0x7F020000 + number // PORTS)
    payload = make(source, 1024 + number % PORTS, given.port, number * 7919 % (1 << 32))
    length = 20 + len(payload)
    header = struct.pack("!BBHHHBBH", 0x45, 0, length, 0, 0, 64, protocol, 0) + source + LOOPBACK
    raw.sendto(header + payload, ("127.0.0.1", given.port))
    if number % 200 == 199:
        time.sleep(0.01)  # no faster than an unoptimized recorder
print(json.dumps({"sent": given.count}))
