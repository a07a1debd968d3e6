#!/usr/bin/env python3
"""Short connections to a redis: each pings a few times and closes.

Runs for `--seconds` or until the signal TERM, at `--rate` connections a second; printed are connections and
bytes as the client counts them.
"""

import argparse
import json
import signal
import socket
import time

PING, PONG = b"PING\r\n", b"+PONG\r\n"
ended = False


def stop(*_):
    global ended
    ended = True


def run(opts):
    started, done = time.monotonic(), 0
    while not ended and time.monotonic() - started < opts.seconds:
        with socket.create_connection((opts.host, opts.port), timeout=20) as sock:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for _ in range(opts.calls):
                sock.sendall(PING)
                answer = b""
                while len(answer) < len(PONG):
                    answer += sock.recv(100)
        done += 1
        time.sleep(max(0, done / opts.rate - (time.monotonic() - started)))
    each = opts.calls * len(PING), opts.calls * len(PONG)
    facts = {"connections": done, "written_bytes": done * each[0], "read_bytes": done * each[1]}
    print(json.dumps({"workload": "short_calls"} | facts), flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--calls", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--rate", type=float, default=100, help="connections a second")
    signal.signal(signal.SIGTERM, stop)
    run(parser.parse_args())
