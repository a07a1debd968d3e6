#!/usr/bin/env python3
"""Short connections to a redis: each pings a few times and closes.

Ends after `--seconds` or by the signal TERM; prints connections and bytes as the client counts them.
"""

import argparse
import json
import socket

import ends

PING, PONG = b"PING\r\n", b"+PONG\r\n"


def run(opts):
    done = written = read = 0
    for _ in ends.paced(opts.seconds, opts.rate):
        with socket.create_connection((opts.host, opts.port), timeout=20) as sock:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection = ends.Counted(sock)
            for _ in range(opts.calls):
                connection.write(PING)
                connection.read_exactly(len(PONG))
        done, written, read = done + 1, written + connection.written_bytes, read + connection.read_bytes
    return {"connections": done, "written_bytes": written, "read_bytes": read}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--calls", type=int, default=5, help="of each connection")
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--rate", type=float, default=100, help="connections a second at most")
    print(json.dumps({"workload": "short_calls"} | run(parser.parse_args())), flush=True)
