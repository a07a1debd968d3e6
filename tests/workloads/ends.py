"""The two ends of a test connection: options, sockets that count, facts as JSON.

Each workload gives a `client` and a `server` function; both take the options and return facts. With
`--role both` (the default) the server is a process of its own that listens before the client starts;
with `--role client` and `--role server` the ends run apart, as in two network namespaces. Each end
is killed after `--timeout` seconds, so that no workload outlives its test.

Printed is one JSON object: `workload`, `port`, and the facts of each end that ran here. Bytes and
calls are what this program passed to and got from the kernel: `writes` and `reads` count system
calls, a read that returned end of file is not among them.
"""

import argparse
import json
import os
import signal
import socket
import sys
import threading
import time

SOL_SOCKSCOPE, SO_LOG = 0x5350, 1


def options(description):
    """A parser with the options that every workload has."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--host", default="127.0.0.1", help="address of the server, IPv4 or IPv6")
    add("--port", type=int, default=0, help="port of the server; 0 lets the kernel choose")
    add("--role", choices=["client", "server", "both"], default="both")
    add("--one-process", action="store_true", help="with both: the server is a thread")
    add("--timeout", type=int, default=60, help="seconds after which an end is killed")
    add("--nodelay", action="store_true", help="set TCP_NODELAY at both ends")
    add("--sndbuf", type=int, help="SO_SNDBUF to ask for at both ends, bytes")
    add("--rcvbuf", type=int, help="SO_RCVBUF to ask for at both ends, bytes")
    add("--cc", help="TCP_CONGESTION to set at both ends before they connect")
    return parser


def paced(seconds, rate=0, count=0):
    """Numbers from 0 on: at most `rate` of them a second, and `count` in all, where these are not 0.

    They end after `seconds`, or by the signal TERM, which no longer ends the program from now on.
    """
    ended = []
    signal.signal(signal.SIGTERM, lambda *_: ended.append(True))

    def numbers():
        started, number = time.monotonic(), 0
        while not ended and time.monotonic() - started <= seconds and (not count or number < count):
            ahead = number / rate - (time.monotonic() - started) if rate else 0
            # Shorter sleeps take longer than asked for, and would make the rate too low.
            if ahead > 0.01:
                time.sleep(ahead)
            yield number
            number += 1

    return numbers()


class Counted:
    """A connected socket that counts its calls and bytes."""

    def __init__(self, sock):
        self.socket = sock
        # Asked for now: a socket that both ends have closed no longer knows its peer.
        self.local_port = sock.getsockname()[1]
        self.peer_port = sock.getpeername()[1]
        self.written_bytes = self.read_bytes = self.writes = self.reads = 0

    def write(self, data, flags=0):
        """Writes all of `data`, in as many calls as the kernel needs; `flags` as in send(2)."""
        rest = memoryview(data)
        while rest:
            taken = self.socket.send(rest, flags)
            self.writes += 1
            self.written_bytes += taken
            rest = rest[taken:]

    def read(self, size_max):
        """One read; empty at the end of the stream."""
        data = self.socket.recv(size_max)
        if data:
            self.reads += 1
            self.read_bytes += len(data)
        return data

    def read_exactly(self, size):
        """Reads `size` bytes; None when the stream ends before the first of them."""
        parts, missing = [], size
        while missing:
            part = self.read(missing)
            if not part:
                if missing == size:
                    return None
                raise EOFError(f"stream ended {missing} bytes early")
            parts.append(part)
            missing -= len(part)
        return b"".join(parts)

    def read_to_end(self, size_max=65536):
        """Reads until the peer closes; yields each piece."""
        while data := self.read(size_max):
            yield data

    def facts(self):
        """Counts and ports of this end."""
        return {
            "local_port": self.local_port,
            "peer_port": self.peer_port,
            "written_bytes": self.written_bytes,
            "read_bytes": self.read_bytes,
            "writes": self.writes,
            "reads": self.reads,
        }


def totals(connections):
    """Facts of one end: its process, its connections, and their sums."""
    keys = ("written_bytes", "read_bytes", "writes", "reads")
    sums = {key: sum(connection[key] for connection in connections) for key in keys}
    return {"pid": os.getpid(), **sums, "connections": connections}


def ask_for_log(sock):
    """Asks that this socket be recorded: None where that is granted, else the number of the error."""
    try:
        sock.setsockopt(SOL_SOCKSCOPE, SO_LOG, 1)
    except OSError as error:
        return error.errno
    return None


def connect(opts):
    """Connects to the server, which may be slow to start; retries for five seconds."""
    give_up_at = time.monotonic() + 5
    while True:
        sock = _configured(opts, socket.SOCK_STREAM)
        try:
            sock.connect((opts.host, opts.port))
            return sock
        except ConnectionRefusedError:
            sock.close()
            if time.monotonic() > give_up_at:
                raise
            time.sleep(0.05)


def accept(opts):
    """The next connection, with the options that sockets do not inherit set again."""
    sock, _ = opts.listener.accept()
    if opts.nodelay:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


def datagram_socket(opts):
    """A UDP socket of the host's family, with the buffers asked for."""
    return _configured(opts, socket.SOCK_DGRAM)


def run(opts, client, server, kind=socket.SOCK_STREAM):
    """Runs the ends that `--role` names, prints their facts, exits 1 when an end says `ok` false."""
    signal.alarm(opts.timeout)
    facts = {"workload": os.path.basename(sys.argv[0]).removesuffix(".py")}
    if opts.role != "client":
        opts.listener = _listen(opts, kind)
        opts.port = opts.listener.getsockname()[1]
        print(f"listening on {opts.host} port {opts.port}", file=sys.stderr, flush=True)
    if opts.role == "both":
        finish = _in_thread(opts, server) if opts.one_process else _in_process(opts, server)
        facts["client"] = client(opts)
        facts["server"] = finish()
    elif opts.role == "client":
        facts["client"] = client(opts)
    else:
        facts["server"] = server(opts)
    facts["port"] = opts.port
    print(json.dumps(facts), flush=True)
    ends = [facts[role] for role in ("client", "server") if role in facts]
    sys.exit(0 if all(end is not None and end.get("ok", True) for end in ends) else 1)


def _configured(opts, kind):
    family = socket.AF_INET6 if ":" in opts.host else socket.AF_INET
    sock = socket.socket(family, kind)
    if opts.sndbuf:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, opts.sndbuf)
    if opts.rcvbuf:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, opts.rcvbuf)
    if opts.nodelay and kind == socket.SOCK_STREAM:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if opts.cc and kind == socket.SOCK_STREAM:
        # An accepted socket inherits it.
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, opts.cc.encode())
    return sock


def _listen(opts, kind):
    sock = _configured(opts, kind)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind((opts.host, opts.port))
    if kind == socket.SOCK_STREAM:
        sock.listen(1024)
    return sock


def _in_process(opts, server):
    """Starts the server as a child; the function returned waits for its facts."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        signal.alarm(opts.timeout)
        facts = server(opts)
        with os.fdopen(writing, "w") as pipe:
            json.dump(facts, pipe)
        os._exit(0)
    os.close(writing)
    opts.listener.close()

    def finish():
        with os.fdopen(reading) as pipe:
            text = pipe.read()
        os.waitpid(child, 0)
        return json.loads(text) if text else None

    return finish


def _in_thread(opts, server):
    """Starts the server as a thread; the function returned waits for its facts."""
    facts = []
    thread = threading.Thread(target=lambda: facts.append(server(opts)), daemon=True)
    thread.start()

    def finish():
        thread.join()
        return facts[0] if facts else None

    return finish
