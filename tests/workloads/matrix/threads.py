#!/usr/bin/env python3
"""The matrix's server in Python: a thread for each connection.

threads.py PORT TROUBLE UPSTREAM_PORT; README.md has the requests.
"""

import os
import socket
import sys
import threading
import time

LOCK = threading.Lock()


def answer(sock, length, text=b""):
    sock.sendall(b"%d\n" % length + text + b"a" * (length - len(text)))


def ask(upstream, ms):
    upstream.sendall(b"sleep %d 100\n" % ms)
    got = 0
    while got < 104:
        got += len(upstream.recv(4096))


def upload(sock, size, pause_ms, chunk):
    reads = 0
    while size > 0 and (part := sock.recv(min(chunk, size))):
        size -= len(part)
        reads += 1
        if pause_ms:
            time.sleep(pause_ms / 1000)
    answer(sock, 100, b"%d " % reads)


def line_of(sock):
    """A line, and no byte behind it."""
    line = b""
    while not line.endswith(b"\n"):
        there = sock.recv(256, socket.MSG_PEEK)
        if not there:
            return None
        line += sock.recv(there.index(b"\n") + 1 if b"\n" in there else len(there))
    return line


def headers(sock):
    while line_of(sock) not in (b"\r\n", None):
        pass


def serve(sock, trouble, upstream_port):
    if trouble != "split":
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if trouble == "send-buffer":
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 13)
    upstream = None
    while line := line_of(sock):
        if line.startswith(b"GET "):
            # From a proxy: only a pause and an answer.
            _, _, ms, size = line.split()[1].split(b"/")
            headers(sock)
            time.sleep(int(ms) / 1000)
            sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % int(size) + b"a" * int(size))
            continue
        what, *numbers = line.decode().split()
        a, b, c = ([int(number) for number in numbers] + [0, 0, 0])[:3]
        if what == "fast":
            answer(sock, a)
        elif what == "sleep":
            time.sleep(a / 1000)
            answer(sock, b)
        elif what == "locked":
            with LOCK:
                if a:
                    time.sleep(a / 1000)
            answer(sock, b)
        elif what == "split":
            sock.sendall(b"%d\n" % (a + b) + b"a" * a)
            sock.sendall(b"a" * b)
        elif what == "stream":
            sock.sendall(b"%d\n" % (a * c) + b"a" * c)
            for _ in range(a - 1):
                time.sleep(b / 1000)
                sock.sendall(b"a" * c)
        elif what == "ask":
            if upstream is None:
                upstream = socket.create_connection(("127.0.0.1", upstream_port))
                upstream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            since = time.monotonic_ns()
            for _ in range(a):
                ask(upstream, b)
            answer(sock, 100, b"%d " % (time.monotonic_ns() - since))
        elif what == "upload":
            upload(sock, a, b, c)
        elif what == "early":
            answer(sock, 100)
            break
        elif what == "hang":
            time.sleep(60)
    sock.close()


def main():
    port, trouble, upstream_port = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    away = trouble == "accept-queue"
    listener = socket.create_server((os.environ["MATRIX_HOST"], port), backlog=1 if away else 128)
    if away:
        time.sleep(0.7)
    while True:
        sock, _ = listener.accept()
        threading.Thread(target=serve, args=(sock, trouble, upstream_port), daemon=True).start()


if __name__ == "__main__":
    main()
