"""The planted troubles of the matrix. Each function plants one in a server and returns what its callers measured."""

import os
import pathlib
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

from callers import Lines, Postgres, Redis, connected, protocol, wait_for
from servers import LIBC, STARTED, Server

CLONE_NEWNET = 0x40000000
TUN_LINK = pathlib.Path(__file__).parent.parent / "tun_link.py"
MS = 1_000_000


def facts(asking, **others):
    """Of callers, with all their waits."""
    return {"calls": [call for caller in asking for call in caller.calls]} | others


def longer(asking, ms):
    """The sum of the waits of so many milliseconds or more."""
    return sum(wait for caller in asking for _, _, wait in caller.calls if wait >= ms * MS)


def process(server, caller):
    """The process that serves this caller."""
    return caller.backend if isinstance(caller, Postgres) else server.pid


def started(name, built, trouble="none", upstream=None, link=None):
    """A server, and a caller that is connected to it."""
    server = Server(name, built, trouble, upstream, link)
    kind = protocol(server)
    caller = kind(server)
    if kind is Redis:
        caller.fill()
    return server, kind, caller


def own_network(*rules):
    """A network namespace of this process and its children, which the kernel removes with them."""
    if LIBC.unshare(CLONE_NEWNET):
        raise SystemExit("no network namespace")
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    for rule in rules:
        subprocess.run(rule.split(" "), check=True)


def filter_rule(rule):
    """Has the host drop packets that arrive."""
    nft = f"table inet matrix {{\nchain input {{\ntype filter hook input priority 0\n{rule}\n}}\n}}\n"
    subprocess.run(["nft", "-f", "-"], input=nft, text=True, check=True)


class Link:
    """A link to a host of its own, on which a packet takes 5 ms. The caller's end is this process's network."""

    far = "10.86.0.2"

    def __init__(self):
        own_network()
        self.namespace = f"mx{os.getpid()}"
        subprocess.run(["ip", "netns", "add", self.namespace], check=True)
        STARTED.append(self)
        words = [sys.executable, "-B", str(TUN_LINK), "--far", self.namespace, "--delay-ms", "5"]
        self.process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        if "forwarding" not in self.process.stderr.readline():
            raise SystemExit("the link is not there")

    def pids(self):
        return []

    def ended(self):
        self.process.terminate()
        self.process.wait()
        subprocess.run(["ip", "netns", "delete", self.namespace], check=True)


def split_write(name, built):
    """The second write of a message waits for a delayed acknowledgment."""
    server = Server(name, built, "split")
    kind = protocol(server)
    if kind is Lines:
        caller = kind(server)
        for _ in range(20):
            caller.call(b"split 100 300\n")
        pid = server.pid
    else:
        caller = kind(server, nodelay=False)
        for _ in range(20):
            caller.call(kind.fast(), parts=2)
        pid = os.getpid()
    return facts([caller], pid=pid, cost_ns=longer([caller], 20))


def slow_service(name, built):
    """Each answer takes its program 150 ms."""
    server, kind, caller = started(name, built)
    for _ in range(3):
        caller.call(kind.fast())
    for _ in range(5):
        caller.call(kind.slow(150))
    return facts([caller], pid=process(server, caller), cost_ns=longer([caller], 100))


def one_slow(name, built):
    """One answer of many takes its program 400 ms."""
    server, kind, caller = started(name, built)
    for number in range(200):
        caller.call(kind.slow(400) if number == 100 else kind.fast())
    if name == "nginx":
        # It delays what comes too soon after another one.
        caller.call(kind.slow(400))
    return facts([caller], pid=process(server, caller), cost_ns=longer([caller], 100))


def late_caller(name, built):
    """A caller does something else for 150 ms before it reads each answer."""
    _, kind, caller = started(name, built)
    for _ in range(6):
        caller.send(kind.fast())
        time.sleep(0.15)
        while not caller.take():
            pass
        caller.finish()
    return facts([caller], pid=os.getpid(), cost_ns=longer([caller], 100))


def freeze(name, built):
    """One request takes 400 ms, and 20 callers who ask for nothing wait for it."""
    server, kind, holder = started(name, built)
    others = [kind(server) for _ in range(20)]
    requests = {Lines: (b"locked 400 200\n", b"locked 0 200\n"),
                Redis: (Redis.slow(400), Redis.fast()),
                Postgres: (Postgres.query(b"select pg_advisory_lock(1), pg_sleep(0.4), pg_advisory_unlock(1)"),
                           Postgres.query(b"select pg_advisory_lock(1), pg_advisory_unlock(1)"))}[kind]
    for caller in others:
        caller.call(requests[1])
    holder.send(requests[0])
    time.sleep(0.1)
    for caller in others:
        caller.send(requests[1])
    wait_for([holder, *others])
    late = [call for caller in others for call in caller.calls if call[2] >= 100 * MS]
    held_ns = max(since + wait for _, since, wait in late) - min(since for _, since, _ in late)
    # Callers with a thread each were served, and waited for the lock.
    served_ns = longer([holder, *others], 100)
    return facts([holder, *others], pid=process(server, holder), cost_ns=held_ns, sum_ns=served_ns, count=len(late))


def unanswered(name, built):
    """A request is read and not answered, and the caller gives up after 600 ms."""
    server, kind, caller = started(name, built)
    caller.call(kind.fast())
    if name == "nginx":
        # The first one is within the rate.
        caller.call(kind.never())
    hanging = kind(server)
    hanging.send(kind.never())
    hanging.sock.settimeout(0.6)
    waited = 0
    try:
        hanging.take()
    except TimeoutError:
        waited = time.monotonic_ns() - hanging.since
    pid = process(server, hanging)
    hanging.close()
    # The end of the server is another event, and may be an answer.
    time.sleep(0.02)
    return facts([caller], pid=pid, cost_ns=waited)


def upstream_wait(name, built):
    """A proxy answers after its upstream has taken 150 ms."""
    store = Server("threads", built)
    server, kind, caller = started(name, built, upstream=store)
    for _ in range(6):
        caller.call(b"ask 1 150\n" if kind is Lines else kind.upstream(150))
    return facts([caller], pid=store.pid, innocent=server.pid, cost_ns=longer([caller], 100))


def n_plus_one(name, built):
    """A service asks its store 60 times for each answer."""
    store = Server("threads", built)
    server, _, caller = started(name, built, upstream=store)
    waited = 0
    for _ in range(3):
        caller.call(b"ask 60 3\n")
        waited += caller.said()
    return facts([caller], pid=server.pid, innocent=store.pid, cost_ns=waited, count=3)


def connection_churn(name, built):
    """Each request opens a connection of its own, over a link on which a handshake takes 10 ms."""
    server, kind, first = started(name, built, link=Link())
    first.call(kind.fast())
    asking = []
    for _ in range(40):
        caller = kind(server)
        caller.call(kind.fast())
        caller.close()
        asking.append(caller)
    cost_ns = sum(caller.connect_ns for caller in asking)
    return facts(asking, pid=os.getpid(), cost_ns=cost_ns, count=len(asking))


def send_buffer(name, built):
    """A server with a send buffer of 16 KiB answers over the same link."""
    server, kind, caller = started(name, built, "send-buffer", link=Link())
    caller.call(kind.large() if name == "nginx" else kind.fast(2_000_000))
    return facts([caller], pid=server.pid, cost_ns=longer([caller], 100))


def slow_reader(name, built):
    """A reader pauses for 30 ms after each 64 KiB."""
    server, kind, caller = started(name, built)
    if kind is Lines:
        caller.call(b"upload 2000000 30 65536\n" + b"u" * 2_000_000)
        return facts([caller], pid=server.pid, cost_ns=longer([caller], 100))
    for _ in range(2):
        caller.send(kind.large())
        caller.sock.recv(1, socket.MSG_PEEK)
        since = time.monotonic_ns()
        while not caller.take(1 << 16):
            time.sleep(0.03)
        read_ns = time.monotonic_ns() - since
        caller.finish()
    return facts([caller], pid=os.getpid(), cost_ns=2 * read_ns)


def accept_queue(name, built):
    """A server accepts nothing for 700 ms, and its queue has room for two connections."""
    if name == "postgres":
        own_network("sysctl -qw net.core.somaxconn=1")
    server = Server(name, built, "accept-queue")
    kind = protocol(server)
    stopped = None
    if kind is Redis:
        holder = kind(server)
        holder.fill()
        holder.send(kind.slow(700))
        time.sleep(0.05)
    elif name in ("nginx", "postgres"):
        stopped = server.pid
        os.kill(stopped, signal.SIGSTOP)
        threading.Timer(0.7, os.kill, (stopped, signal.SIGCONT)).start()
    opening = []
    for _ in range(6):
        sock = socket.socket()
        sock.setblocking(False)
        sock.connect_ex(("127.0.0.1", server.port))
        opening.append((sock, time.monotonic_ns()))
    late = [opened(sock, since) for sock, since in opening]
    asking = []
    for (sock, _), wait in zip(opening, late):
        sock.setblocking(True)
        caller = kind(server, sock=sock)
        caller.call(kind.fast())
        asking.append(caller)
    late = [wait for wait in late if wait >= 500 * MS]
    return facts(asking, pid=server.process.pid if name == "postgres" else server.pid, cost_ns=sum(late),
                 count=len(late))


def opened(sock, since):
    """The nanoseconds until a connection is open: the others have a thread each."""
    import select
    select.select([], [sock], [], 10)
    return time.monotonic_ns() - since


def refused(name, built):
    """The server listens at another address than its callers use."""
    server = Server(name, built)
    count = 0
    for _ in range(5):
        try:
            connected(server.port, host="127.0.0.2")
        except ConnectionRefusedError:
            count += 1
        time.sleep(0.05)
    return facts([], pid=os.getpid(), count=count)


def reset_unread(name, built):
    """A server answers before it has read the request, and closes."""
    server, kind, caller = started(name, built)
    caller.call(kind.fast())
    count = 0
    body = b"b" * 1_000_000
    request = {"nginx": b"POST / HTTP/1.1\r\nHost: matrix\r\nContent-Length: 1000000\r\n\r\n" + body,
               "redis": body, "postgres": struct.pack("!II", len(body), 3 << 16) + body}.get(name, b"early\n" + body)
    for _ in range(5):
        sock, _ = connected(server.port)
        try:
            sock.sendall(request)
            while sock.recv(4096):
                pass
        except ConnectionError:
            count += 1
        sock.close()
    return facts([caller], pid=server.pid, count=count)


def streamed(name, built):
    """An answer has pauses of 100 ms between its parts."""
    server, kind, caller = started(name, built)
    for _ in range(3):
        caller.call(kind.stream())
    return facts([caller], pid=process(server, caller), cost_ns=longer([caller], 100))


def small_reads(name, built):
    """A reader takes 100 bytes at a time."""
    server, kind, caller = started(name, built)
    # A runtime may load its code at the first request.
    caller.call(kind.fast())
    if kind is Lines:
        caller.call(b"upload 400000 0 100\n" + b"u" * 400_000)
        return facts([caller], pid=server.pid, count=caller.said())
    caller.send(kind.large())
    count = 1
    while not caller.take(100):
        count += 1
    caller.finish()
    return facts([caller], pid=os.getpid(), count=count)


def dropped(name, built):
    """A packet filter drops each eighth segment that the server sends."""
    own_network()
    server, kind, caller = started(name, built)
    filter_rule(f"tcp sport {server.port} ip length > 150 numgen inc mod 8 == 0 drop")
    for _ in range(32):
        caller.call(kind.fast())
    return facts([caller], pid=process(server, caller), cost_ns=longer([caller], 5))


def syn_dropped(name, built):
    """A packet filter drops each first SYN."""
    own_network()
    server = Server(name, built)
    kind = protocol(server)
    filter_rule(f"tcp dport {server.port} tcp flags & (syn | ack) == syn numgen inc mod 2 == 0 drop")
    asking = [kind(server) for _ in range(2)]
    if kind is Redis:
        asking[0].fill()
    for caller in asking:
        caller.call(kind.fast())
    return facts(asking, pid=server.pid, cost_ns=sum(caller.connect_ns for caller in asking), count=2)


def slow_interface(name, built):
    """The interface takes 20 Mbit/s."""
    own_network("ip link set lo mtu 1500")
    server, kind, caller = started(name, built)
    own = "tc qdisc add dev lo root tbf rate 20mbit burst 32kb limit 400kb"
    subprocess.run(own.split(" "), check=True)
    caller.call(kind.large())
    return facts([caller], pid=process(server, caller), cost_ns=longer([caller], 100))


SHAPES = {
    "split-write": split_write, "slow-service": slow_service, "one-slow": one_slow, "late-caller": late_caller,
    "freeze": freeze, "unanswered": unanswered, "upstream-wait": upstream_wait, "n-plus-one": n_plus_one,
    "connection-churn": connection_churn, "slow-reader": slow_reader, "accept-queue": accept_queue,
    "refused": refused, "reset-unread": reset_unread, "streamed": streamed, "small-reads": small_reads,
    "dropped": dropped, "syn-dropped": syn_dropped, "slow-interface": slow_interface, "send-buffer": send_buffer,
}
