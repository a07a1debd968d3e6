#!/usr/bin/env python3
"""Connections and datagrams that their host does not take, and look-alikes that it does.

`queue` connects `--clients` times at once to a server that accepts nothing for `--away-ms`: with a `--backlog` below
the number of clients the kernel ignores the rest. Each client that is accepted gets an answer.

Printed is one JSON object with what the programs saw.
"""

import argparse
import json
import os
import selectors
import signal
import socket
import time

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
    opts = parser.parse_args()
    signal.alarm(60)
    print(json.dumps(opts.run(opts)), flush=True)


if __name__ == "__main__":
    main()
