#!/usr/bin/env python3
"""Paced streams over loopback whose sender shares its CPU with a process that fills a Unix socket.

The timers of the paced streams interrupt that process, and the data that they send is announced to a
reader (`sk_data_ready`) in the midst of the announcements of the Unix socket: a probe at that tracepoint
interrupts itself. Prints the bytes of each end, as one JSON object.
"""

import argparse
import json
import os
import selectors
import socket
import time

SO_MAX_PACING_RATE = 47  # missing in the socket module
CHUNK = 65536


def fill_unix_socket(until):
    """Sends to itself until then."""
    sender, reader = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    while time.monotonic() < until:
        for _ in range(1000):
            sender.send(b"x")
            reader.recv(1)


def read_all(listener, streams):
    """Reads the streams to their ends; how much they carried."""
    ready = selectors.DefaultSelector()
    for _ in range(streams):
        ready.register(listener.accept()[0], selectors.EVENT_READ)
    total = 0
    while ready.get_map():
        for key, _ in ready.select():
            data = key.fileobj.recv(CHUNK)
            total += len(data)
            if not data:
                ready.unregister(key.fileobj)
                key.fileobj.close()
    return total


def write_all(port, streams, rate, until):
    """Writes to each stream as often as it has room until then; how much in all."""
    ready = selectors.DefaultSelector()
    for _ in range(streams):
        stream = socket.socket()
        stream.setsockopt(socket.SOL_SOCKET, SO_MAX_PACING_RATE, rate)
        stream.connect(("127.0.0.1", port))
        stream.setblocking(False)
        ready.register(stream, selectors.EVENT_WRITE)
    total = 0
    while time.monotonic() < until:
        for key, _ in ready.select(0.1):
            try:
                total += key.fileobj.send(bytes(CHUNK))
            except BlockingIOError:
                pass
    for key in list(ready.get_map().values()):
        key.fileobj.close()
    return total


def forked(work):
    """Runs `work` in a process of its own; its number and where it says what it returned."""
    answer, said = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(said, json.dumps(work()).encode())
        os._exit(0)
    os.close(said)
    return pid, answer


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--port", type=int, required=True)
    arguments.add_argument("--streams", type=int, default=20)
    arguments.add_argument("--rate", type=int, default=20_000_000, help="bytes a second of each")
    arguments.add_argument("--seconds", type=float, default=3)
    given = arguments.parse_args()
    cpus = sorted(os.sched_getaffinity(0))
    until = time.monotonic() + given.seconds
    listener = socket.create_server(("127.0.0.1", given.port))
    os.sched_setaffinity(0, {cpus[-1]})
    reading, answer = forked(lambda: read_all(listener, given.streams))
    listener.close()
    os.sched_setaffinity(0, {cpus[0]})
    filling, nothing = forked(lambda: fill_unix_socket(until))
    written = write_all(given.port, given.streams, given.rate, until)
    read = json.loads(os.read(answer, 100))
    for pid in (reading, filling):
        os.waitpid(pid, 0)
    for pipe in (answer, nothing):
        os.close(pipe)
    print(json.dumps({"written_bytes": written, "read_bytes": read}))


if __name__ == "__main__":
    main()
