#!/usr/bin/env python3
"""gRPC calls on one channel: unary ones in turn, and such that overlap.

`server` sleeps `--sleep-ms` in each call. `client` makes `--calls` calls in turn, then `--overlapping` at once. Printed is
one JSON object: `pid`, the number of calls, the median of those in turn, and the time of all that overlap.
"""

import argparse
import json
import os
import signal
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import grpc

METHOD = "/situation.Echo/Call"


class Echo(grpc.GenericRpcHandler):
    def __init__(self, sleep_ms):
        self.sleep_ms = sleep_ms

    def service(self, details):
        if details.method != METHOD:
            return None
        return grpc.unary_unary_rpc_method_handler(self.answer)

    def answer(self, request, _context):
        time.sleep(self.sleep_ms / 1000)
        return request


def serve(args):
    server = grpc.server(ThreadPoolExecutor(max_workers=32), handlers=[Echo(args.sleep_ms)])
    server.add_insecure_port(f"127.0.0.1:{args.port}")
    server.start()
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    print(f"listening on 127.0.0.1 port {args.port}", file=sys.stderr, flush=True)
    server.wait_for_termination()


def client(args):
    with grpc.insecure_channel(f"127.0.0.1:{args.port}") as channel:
        grpc.channel_ready_future(channel).result(timeout=20)
        call = channel.unary_unary(METHOD)
        times_ms = []
        for _ in range(args.calls):
            begun = time.monotonic()
            call(b"x" * 100, timeout=20)
            times_ms.append((time.monotonic() - begun) * 1000)
        begun = time.monotonic()
        for one in [call.future(b"x" * 100, timeout=20) for _ in range(args.overlapping)]:
            one.result()
        overlapping_ms = (time.monotonic() - begun) * 1000
    times_ms.sort()
    facts = {
        "pid": os.getpid(),
        "calls": args.calls,
        "overlapping": args.overlapping,
        "p50_ms": round(times_ms[len(times_ms) // 2], 2) if times_ms else None,
        "overlapping_ms": round(overlapping_ms, 1),
    }
    print(json.dumps(facts))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("role", choices=["server", "client"])
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--sleep-ms", type=float, default=5)
    parser.add_argument("--calls", type=int, default=40)
    parser.add_argument("--overlapping", type=int, default=20)
    args = parser.parse_args()
    (serve if args.role == "server" else client)(args)


if __name__ == "__main__":
    main()
