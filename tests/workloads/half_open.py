#!/usr/bin/env python3
"""Connections of another host that stay half open while forged SYNs come, and open after that.

Runs in a network namespace of its own, where it is the other host behind a TUN device. The server answers by
SYN cookies, and so does not repeat its SYN-ACKs. Prints as one JSON object how many connections opened, and
how much the server read of each. Needs root: `unshare --net half_open.py --port PORT`.
"""

import argparse
import fcntl
import json
import os
import socket
import struct
import subprocess
import time

import strangers

TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 1, 0x1000
HERE, THERE = "10.86.0.1", "10.86.0.2"
SYN, ACK, PSH = 2, 16, 8
FIRST_PORT = 2000
DATA = b"x" * 100


def segment(source, sport, dport, flags, seq, ack=0, data=b""):
    """A packet with a segment to this host."""
    addresses = socket.inet_aton(source) + socket.inet_aton(HERE)
    tcp = struct.pack("!HHIIBBHHH", sport, dport, seq, ack, 5 << 4, flags, 65535, 0, 0) + data
    pseudo = addresses + struct.pack("!BBH", 0, socket.IPPROTO_TCP, len(tcp))
    tcp = tcp[:16] + struct.pack("!H", strangers.checksum(pseudo + tcp)) + tcp[18:]
    ip = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(tcp), 0, 0, 64, socket.IPPROTO_TCP, 0)
    return with_checksum(ip + addresses) + tcp


def with_checksum(ip):
    return ip[:10] + struct.pack("!H", strangers.checksum(ip)) + ip[12:]


def answers(tun, until):
    """Server's sequence numbers by the client's port, of all SYN-ACKs to `THERE` until then."""
    found = {}
    while time.monotonic() < until:
        try:
            packet = os.read(tun, 65536)
        except BlockingIOError:
            time.sleep(0.001)
            continue
        is_tcp = packet[0] == 0x45 and packet[9] == socket.IPPROTO_TCP
        if is_tcp and packet[33] == SYN | ACK and packet[16:20] == socket.inet_aton(THERE):
            port, seq = struct.unpack("!HI", packet[22:28])
            found[port] = seq
    return found


def forge(tun, port, count, rate):
    """SYNs, each from an address and port of its own."""
    began = time.monotonic()
    for number in range(count):
        source = socket.inet_ntoa(struct.pack("!I", 0x0A570000 + number // 50000))
        os.write(tun, segment(source, 1024 + number % 50000, port, SYN, number * 7919))
        ahead = number / rate - (time.monotonic() - began)
        if ahead > 0.005:
            time.sleep(ahead)


def read_all(listener, count):
    """Bytes of each connection that is accepted, at most so many."""
    listener.settimeout(2)
    read = []
    while len(read) < count:
        try:
            connection, _ = listener.accept()
        except TimeoutError:
            break
        connection.settimeout(2)
        read.append(len(connection.recv(1000)))
    return read


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--port", type=int, required=True)
    arguments.add_argument("--connections", type=int, default=20)
    arguments.add_argument("--forged", type=int, default=80000)
    arguments.add_argument("--rate", type=int, default=20000, help="forged SYNs a second")
    given = arguments.parse_args()
    tun = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(tun, TUNSETIFF, struct.pack("16sH22x", b"other", IFF_TUN | IFF_NO_PI))
    for words in (
        ["address", "add", f"{HERE}/24", "dev", "other"],
        ["link", "set", "other", "up"],
        ["route", "add", "10.87.0.0/16", "dev", "other"],
    ):
        subprocess.run(["ip", *words], check=True)
    with open("/proc/sys/net/ipv4/tcp_syncookies", "w", encoding="ascii") as setting:
        setting.write("2")
    listener = socket.create_server((HERE, given.port), backlog=given.connections)
    ports = range(FIRST_PORT, FIRST_PORT + given.connections)
    for port in ports:
        os.write(tun, segment(THERE, port, given.port, SYN, port))
    answered = answers(tun, time.monotonic() + 0.5)
    forge(tun, given.port, given.forged, given.rate)
    for port, seq in answered.items():
        os.write(tun, segment(THERE, port, given.port, ACK, port + 1, seq + 1))
        os.write(tun, segment(THERE, port, given.port, ACK | PSH, port + 1, seq + 1, DATA))
    read = read_all(listener, given.connections)
    print(json.dumps({"opened": len(read), "read_bytes": sum(read)}))


if __name__ == "__main__":
    main()
