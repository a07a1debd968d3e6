#!/usr/bin/env python3
"""Requests that a server answers only after requests of its own, and requests that wait for another one.

`chain` asks a proxy `--calls` times. The proxy asks a service, which computes for `--service-ms`. The service asks a
store, which takes `--store-ms`.

`queries` is the same with `--queries` requests to the store for each call. With `--batch` they are one request.

`loop` has a server with a single thread. One client asks for work of `--hold-ms`, and `--clients` others ask for none
meanwhile. With `--threads` each connection has a thread of its own.

Each program is a process, named `asks`, `proxies`, `serves` and `stores`. Printed is one JSON object: the process of
each program, its port, and how many requests it served.
"""

import argparse
import json
import os
import selectors
import signal
import socket
import struct
import sys
import threading
import time

# What is asked for: milliseconds of work, and bytes of the response.
WORK = struct.Struct("!II")


def named(comm):
    with open("/proc/self/comm", "w", encoding="ascii") as own:
        own.write(comm)


def received(sock, size):
    """So many bytes; fewer where the other side closed."""
    data = b""
    while len(data) < size and (part := sock.recv(size - len(data))):
        data += part
    return data


def asked(sock, work_ms, response_bytes=100):
    """Asks for work and waits for the response."""
    sock.sendall(WORK.pack(work_ms, response_bytes))
    return len(received(sock, response_bytes)) == response_bytes


class Program:
    """A process that listens, and serves until its callers have closed."""

    def __init__(self, comm, serve):
        self.comm = comm
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port = self.listener.getsockname()[1]
        self.pid = os.fork()
        if self.pid == 0:
            signal.alarm(60)
            named(comm)
            serve(self.listener)
            os._exit(0)
        self.listener.close()

    def connect(self):
        sock = socket.create_connection(("127.0.0.1", self.port))
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return sock

    def ended(self):
        os.waitpid(self.pid, 0)
        return {"pid": self.pid, "port": self.port}


def serve_one(listener, answer):
    """Serves the requests of one connection."""
    sock, _ = listener.accept()
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    while len(head := received(sock, WORK.size)) == WORK.size:
        sock.sendall(answer(*WORK.unpack(head)))


def slept(work_ms, response_bytes):
    time.sleep(work_ms / 1000)
    return bytes(response_bytes)


def chain(opts, queries=1, batch=False):
    store = Program("stores", lambda listener: serve_one(listener, slept))

    def answer_by_store(listener):
        upstream = store.connect()

        def answer(work_ms, response_bytes):
            time.sleep(work_ms / 1000)
            if batch:
                asked(upstream, opts.store_ms * queries, 100 * queries)
            else:
                for _ in range(queries):
                    asked(upstream, opts.store_ms)
            return bytes(response_bytes)

        serve_one(listener, answer)

    service = Program("serves", answer_by_store)

    def pass_on(listener):
        upstream = service.connect()

        def answer(work_ms, response_bytes):
            asked(upstream, work_ms, response_bytes)
            return bytes(response_bytes)

        serve_one(listener, answer)

    proxy = Program("proxies", pass_on)
    named("asks")
    sock = proxy.connect()
    answered = sum(asked(sock, opts.service_ms) for _ in range(opts.calls))
    sock.close()
    programs = [proxy, service, store]
    return {"answered": answered} | {program.comm: program.ended() for program in programs}


def loop(opts):
    def by_one_thread(listener):
        waiting = selectors.DefaultSelector()
        waiting.register(listener, selectors.EVENT_READ)
        for _ in range(opts.clients + 1):
            sock, _ = listener.accept()
            waiting.register(sock, selectors.EVENT_READ)
        waiting.unregister(listener)
        while waiting.get_map():
            for key, _ in waiting.select():
                sock = key.fileobj
                if len(head := received(sock, WORK.size)) == WORK.size:
                    sock.sendall(slept(*WORK.unpack(head)))
                else:
                    waiting.unregister(sock)

    def by_threads(listener):
        threads = [threading.Thread(target=serve_one, args=(listener, slept))
                   for _ in range(opts.clients + 1)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    server = Program("serves", by_threads if opts.threads else by_one_thread)
    named("asks")
    holder = server.connect()
    others = [server.connect() for _ in range(opts.clients)]
    late = 0
    for _ in range(opts.calls):
        for sock in others:
            asked(sock, 0)
        holder.sendall(WORK.pack(opts.hold_ms, 100))
        # The server has read that one, and works.
        time.sleep(opts.hold_ms / 4000)
        since = time.monotonic()
        for sock in others:
            sock.sendall(WORK.pack(0, 100))
        for sock in others:
            received(sock, 100)
            late += (time.monotonic() - since) * 1000 > opts.hold_ms / 2
        received(holder, 100)
    facts = {"holder_port": holder.getsockname()[1], "late": late}
    for sock in [holder, *others]:
        sock.close()
    return facts | {"serves": server.ended()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["chain", "queries", "loop"])
    parser.add_argument("--calls", type=int, default=1)
    parser.add_argument("--service-ms", type=int, default=20)
    parser.add_argument("--store-ms", type=int, default=None)
    parser.add_argument("--queries", type=int, default=60)
    parser.add_argument("--batch", action="store_true", help="all queries of a call in one request")
    parser.add_argument("--hold-ms", type=int, default=400)
    parser.add_argument("--clients", type=int, default=20)
    parser.add_argument("--threads", action="store_true", help="a thread for each connection")
    parser.add_argument("--timeout", type=int, default=60)
    opts = parser.parse_args()
    signal.alarm(opts.timeout)
    if opts.what == "chain":
        opts.store_ms = 300 if opts.store_ms is None else opts.store_ms
        facts = chain(opts)
    elif opts.what == "queries":
        opts.store_ms = 4 if opts.store_ms is None else opts.store_ms
        facts = chain(opts, opts.queries, opts.batch)
    else:
        facts = loop(opts)
    json.dump(facts, sys.stdout)
    print()


if __name__ == "__main__":
    main()
