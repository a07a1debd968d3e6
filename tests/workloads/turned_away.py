#!/usr/bin/env python3
"""Connections and datagrams that their host does not take, and look-alikes that it does.

`queue` connects `--clients` times at once to a server that accepts nothing for `--away-ms`: with a `--backlog` below
the number of clients the kernel ignores the rest. Each client that is accepted gets an answer.

`filter` connects to a socket whose own filter drops all packets until `--lift-ms`; with `--accept-all` it drops none.

`refused` connects `--times` times to a port where nothing listens; with `--then-served` a server starts there at last
and the same program is served.

`unread` is served by a program that answers after the first 10 bytes of a request of `--request-bytes` and closes; with
`--read-all` it reads the request first.

`datagrams` sends `--times` datagrams to a port that no socket has, or with `--filter` to a socket whose filter drops
them; with `--taken` to a socket that takes them.

Printed is one JSON object with what the programs saw.
"""

import argparse
import ctypes
import json
import os
import selectors
import signal
import socket
import struct
import time

SO_ATTACH_FILTER, SO_DETACH_FILTER = 26, 27
# Of the classic packet filter: return a constant, the bytes of the packet that are kept.
BPF_RET_K = 0x06

ANSWER = b"a" * 200


def listener(opts, backlog):
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind((opts.host, 0))
    sock.listen(backlog)
    return sock


def in_child(serve):
    """Runs `serve` in a child; returns its process."""
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        serve()
        os._exit(0)
    return child


def ended(child):
    os.waitpid(child, 0)


def queue(opts):
    listening = listener(opts, opts.backlog)

    def serve():
        time.sleep(opts.away_ms / 1000)
        for _ in range(opts.clients):
            sock, _ = listening.accept()
            sock.recv(100)
            sock.sendall(ANSWER)
            sock.close()

    child = in_child(serve)
    address = listening.getsockname()
    listening.close()
    waiting = selectors.DefaultSelector()
    for _ in range(opts.clients):
        sock = socket.socket()
        sock.setblocking(False)
        sock.connect_ex(address)
        waiting.register(sock, selectors.EVENT_WRITE, time.monotonic())
    connect_ms, answered = [], 0
    while waiting.get_map():
        for key, event in waiting.select():
            sock = key.fileobj
            if event == selectors.EVENT_WRITE:
                connect_ms.append((time.monotonic() - key.data) * 1000)
                sock.send(b"question")
                waiting.modify(sock, selectors.EVENT_READ, key.data)
                continue
            answered += len(sock.recv(1000)) == len(ANSWER)
            waiting.unregister(sock)
            sock.close()
    ended(child)
    # The kernel sends a SYN again after a second.
    late = sum(time_ms > 900 for time_ms in connect_ms)
    return {"port": address[1], "server_pid": child, "answered": answered, "late": late}


def attach_filter(sock, keep_bytes):
    """Lets the socket take so many bytes of each packet; of 0 the packet is dropped."""
    program = ctypes.create_string_buffer(struct.pack("HBBI", BPF_RET_K, 0, 0, keep_bytes))
    sock.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, struct.pack("HL", 1, ctypes.addressof(program)))


def filtered(opts):
    listening = listener(opts, 16)
    attach_filter(listening, 0xffffffff if opts.accept_all else 0)

    def serve():
        time.sleep(opts.lift_ms / 1000)
        listening.setsockopt(socket.SOL_SOCKET, SO_DETACH_FILTER, 0)
        sock, _ = listening.accept()
        sock.sendall(ANSWER)
        sock.close()

    child = in_child(serve)
    address = listening.getsockname()
    listening.close()
    started = time.monotonic()
    sock = socket.create_connection(address)
    connect_ms = (time.monotonic() - started) * 1000
    read_bytes = len(sock.recv(1000))
    sock.close()
    ended(child)
    return {"port": address[1], "connect_ms": connect_ms, "read_bytes": read_bytes}


def refused(opts):
    listening = listener(opts, 16)
    address = listening.getsockname()
    listening.close()
    refusals = 0
    for _ in range(opts.times):
        try:
            socket.create_connection(address).close()
        except ConnectionRefusedError:
            refusals += 1
    if opts.then_served:
        again = socket.create_server(address)
        socket.create_connection(address).close()
        again.close()
    return {"port": address[1], "refusals": refusals}


def unread(opts):
    listening = listener(opts, 16)

    def serve():
        sock, _ = listening.accept()
        left = opts.request_bytes if opts.read_all else 10
        while left:
            left -= len(sock.recv(left))
        sock.sendall(ANSWER)
        # The rest of the request has arrived by then.
        time.sleep(0.2)
        sock.close()

    child = in_child(serve)
    address = listening.getsockname()
    listening.close()
    sock = socket.create_connection(address)
    sock.sendall(bytes(opts.request_bytes))
    read_bytes, ended_by = 0, "end of stream"
    try:
        while data := sock.recv(1000):
            read_bytes += len(data)
    except ConnectionResetError:
        ended_by = "reset"
    ended(child)
    return {"port": address[1], "server_pid": child, "read_bytes": read_bytes, "ended_by": ended_by}


def datagrams(opts):
    taking = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    taking.bind((opts.host, 0))
    address = taking.getsockname()
    if opts.filter:
        attach_filter(taking, 0)
    elif not opts.taken:
        taking.close()
    sending = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    taken = 0
    for _ in range(opts.times):
        sending.sendto(b"d" * 100, address)
        if opts.taken:
            taken += len(taking.recv(1000)) == 100
    return {"port": address[1], "sent": opts.times, "taken": taken}


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--host", default="127.0.0.1", help="IPv4 address of the server")
    tasks = parser.add_subparsers(required=True)
    task = tasks.add_parser("queue")
    task.set_defaults(run=queue)
    task.add_argument("--backlog", type=int, default=1)
    task.add_argument("--clients", type=int, default=6)
    task.add_argument("--away-ms", type=int, default=500)
    task = tasks.add_parser("filter")
    task.set_defaults(run=filtered)
    task.add_argument("--lift-ms", type=int, default=500)
    task.add_argument("--accept-all", action="store_true")
    task = tasks.add_parser("refused")
    task.set_defaults(run=refused)
    task.add_argument("--times", type=int, default=3)
    task.add_argument("--then-served", action="store_true")
    task = tasks.add_parser("unread")
    task.set_defaults(run=unread)
    task.add_argument("--request-bytes", type=int, default=1000)
    task.add_argument("--read-all", action="store_true")
    task = tasks.add_parser("datagrams")
    task.set_defaults(run=datagrams)
    task.add_argument("--times", type=int, default=5)
    task.add_argument("--filter", action="store_true")
    task.add_argument("--taken", action="store_true")
    opts = parser.parse_args()
    signal.alarm(60)
    print(json.dumps(opts.run(opts)), flush=True)


if __name__ == "__main__":
    main()
