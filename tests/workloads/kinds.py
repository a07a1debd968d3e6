#!/usr/bin/env python3
"""Kinds of traffic to record and replay, each with a changed twin (`--changed`).

split        calls of two writes; changed: of one write
pipelined    32 commands to a redis in as many writes, then their answers; changed: in one write
bulk         a transfer whose reader takes 8 KiB a call; changed: 64 KiB
slow-reader  a reader that takes 16 KiB and sleeps 5 ms; changed: 64 KiB
chat         a client says a line on one connection, and the server sends it to all 50; changed: TCP_NODELAY
http         requests on a kept connection, whose answer is a head and a body; changed: in one write
datagrams    requests over UDP that take 300 µs to answer; changed: no time
thinking     a client that sleeps between calls of two writes, a server that computes; changed: one write

The kernel chooses the CPUs of both ends, unless --cpus binds them to one or to two.
"""

import http.client
import http.server
import json
import os
import selectors
import socket
import subprocess
import tempfile
import time

import ends

KINDS = ["split", "pipelined", "bulk", "slow-reader", "chat", "http", "datagrams", "thinking"]
HEAD, BODY, ANSWER = b"h" * 100, b"b" * 300, b"a" * 100
COMMANDS = 32
LINE = b"l" * 80


def compute(seconds):
    """Uses the CPU for this time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass


def bind(opts, role):
    """Binds this process to the CPU of its role: the first one that it may use, or the second one."""
    if opts.cpus:
        usable = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {usable[1 if opts.cpus == "two" and role == "server" else 0]})


def bound(role, end):
    def run(opts):
        bind(opts, role)
        return end(opts)

    return run


def summary(times_ns):
    ordered = sorted(times_ns)
    at = lambda share: ordered[min(len(ordered) - 1, int(share * len(ordered)))]
    return {"exchanges": len(ordered), "exchange_ns_p50": at(0.5), "exchange_ns_p99": at(0.99)} if ordered else {}


def timed(calls, call):
    """The times of the calls."""
    times_ns = []
    for _ in range(calls):
        start_ns = time.monotonic_ns()
        call()
        times_ns.append(time.monotonic_ns() - start_ns)
    return times_ns


# Calls over TCP: split and thinking.

def call_client(opts):
    connection = ends.Counted(ends.connect(opts))

    def call():
        if opts.changed:
            connection.write(HEAD + BODY)
        else:
            connection.write(HEAD)
            connection.write(BODY)
        connection.read_exactly(len(ANSWER))

    times_ns = []
    for _ in range(opts.calls):
        times_ns += timed(1, call)
        if opts.kind == "thinking":
            time.sleep(0.005)
    return ends.totals([connection.facts()]) | summary(times_ns)


def call_server(opts):
    connection = ends.Counted(ends.accept(opts))
    while connection.read_exactly(len(HEAD + BODY)) is not None:
        if opts.kind == "thinking":
            compute(0.0005)
        connection.write(ANSWER)
    return ends.totals([connection.facts()])


# Transfers: bulk and slow-reader.

def transfer_client(opts):
    connection = ends.Counted(ends.connect(opts))
    piece = bytes(65536)
    for _ in range(opts.megabytes * 16):
        connection.write(piece)
    connection.socket.shutdown(socket.SHUT_WR)
    connection.read_to_end()
    return ends.totals([connection.facts()])


def transfer_server(opts):
    connection = ends.Counted(ends.accept(opts))
    size = 65536 if opts.changed else (8192 if opts.kind == "bulk" else 16384)
    for _ in connection.read_to_end(size):
        if opts.kind == "slow-reader":
            time.sleep(0.005)
    return ends.totals([connection.facts()])


# A chat.

def chat_client(opts):
    members = [ends.Counted(ends.connect(opts)) for _ in range(50)]

    def say():
        speaker = members[say.turn % len(members)]
        say.turn += 1
        speaker.write(LINE)
        for member in members:
            member.read_exactly(len(LINE))

    say.turn = 0
    times_ns = timed(opts.calls, say)
    for member in members:
        member.socket.close()
    return {"pid": os.getpid()} | summary(times_ns)


def chat_server(opts):
    members = [ends.Counted(ends.accept(opts)) for _ in range(50)]
    selector = selectors.DefaultSelector()
    for member in members:
        selector.register(member.socket, selectors.EVENT_READ, member)
    while True:
        for key, _ in selector.select():
            line = key.data.read(len(LINE))
            if not line:
                return {"pid": os.getpid()}
            for member in members:
                member.write(line)


# HTTP on a kept connection.

class Page(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", "600")
        if self.server.in_one_write:
            self._headers_buffer.append(b"\r\n" + b"p" * 600)
            self.flush_headers()
        else:
            self.end_headers()
            self.wfile.write(b"p" * 600)

    def log_message(self, *_):
        pass


def http_client(opts):
    connection = http.client.HTTPConnection(opts.host, opts.port)

    def get():
        connection.request("GET", "/page")
        connection.getresponse().read()

    times_ns = timed(opts.calls, get)
    connection.close()
    return {"pid": os.getpid()} | summary(times_ns)


def http_server(opts):
    server = http.server.HTTPServer((opts.host, 0), Page, bind_and_activate=False)
    server.socket.close()
    server.socket = opts.listener
    server.in_one_write = opts.changed
    server.handle_request()
    return {"pid": os.getpid()}


# Datagrams.

def datagram_client(opts):
    sock = ends.datagram_socket(opts)
    sock.connect((opts.host, opts.port))

    def call():
        sock.send(HEAD)
        sock.recv(2048)

    times_ns = timed(opts.calls, call)
    sock.send(b"end")
    return {"pid": os.getpid()} | summary(times_ns)


def datagram_server(opts):
    while True:
        request, peer = opts.listener.recvfrom(2048)
        if request == b"end":
            return {"pid": os.getpid()}
        if not opts.changed:
            compute(0.0003)
        opts.listener.sendto(ANSWER, peer)


# A redis, which is a process of its own.

def pipelined(opts):
    with tempfile.TemporaryDirectory() as folder:
        with socket.create_server(("127.0.0.1", 0)) as free:
            opts.port = free.getsockname()[1]
        command = ["redis-server", "--port", str(opts.port), "--save", "", "--dir", folder, "--daemonize", "no"]
        redis = subprocess.Popen(command, stdout=subprocess.DEVNULL, preexec_fn=lambda: bind(opts, "server"))
        bind(opts, "client")
        try:
            connection = ends.Counted(ends.connect(opts))
            commands = [b"INCR counter%d\r\n" % number for number in range(COMMANDS)]

            def ask():
                for command in [b"".join(commands)] if opts.changed else commands:
                    connection.write(command)
                answers = 0
                while answers < COMMANDS:
                    answers += connection.read(65536).count(b"\r\n")

            times_ns = timed(opts.calls, ask)
            print(json.dumps({"workload": "kinds", "client": summary(times_ns)}))
            connection.socket.close()
        finally:
            redis.terminate()
            redis.wait()


if __name__ == "__main__":
    parser = ends.options(__doc__)
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("--changed", action="store_true", help="the changed twin")
    parser.add_argument("--calls", type=int, default=100)
    parser.add_argument("--megabytes", type=int, default=8)
    parser.add_argument("--cpus", choices=["one", "two"], help="both ends on one CPU, or each on its own")
    options = parser.parse_args()
    options.nodelay |= options.kind == "chat" and options.changed
    pairs = {
        "split": (call_client, call_server),
        "thinking": (call_client, call_server),
        "bulk": (transfer_client, transfer_server),
        "slow-reader": (transfer_client, transfer_server),
        "chat": (chat_client, chat_server),
        "http": (http_client, http_server),
        "datagrams": (datagram_client, datagram_server),
    }
    if options.kind == "pipelined":
        pipelined(options)
    else:
        kind = socket.SOCK_DGRAM if options.kind == "datagrams" else socket.SOCK_STREAM
        client, server = pairs[options.kind]
        ends.run(options, bound("client", client), bound("server", server), kind=kind)
