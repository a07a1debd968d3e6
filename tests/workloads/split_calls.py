#!/usr/bin/env python3
"""Calls whose request goes out in two writes: Nagle's algorithm meets the delayed acknowledgment.

The client writes a head and a body, the server answers when it has both. Without `--nodelay` the
body waits for the acknowledgment of the head, which the server's kernel delays by some 40 ms.
`--one-write` and `--nodelay` are the two cures. `--body-writes` cuts the body up. With `--more` the head waits for the body in the send
queue, for as long as `--pause-ms` lets it. With `--more-left` the body has the flag too, and with
`--cork left` the client never uncorks: then each call waits for TCP's timer. `--cork each` uncorks after
each message, `--uncork-after-ms` later.
"""

import socket
import statistics
import time

import ends


def client(opts):
    sock = ends.connect(opts)
    connection = ends.Counted(sock)
    if opts.cork == "left":
        cork(sock, True)
    body, size = b"b" * opts.body_bytes, -(-opts.body_bytes // opts.body_writes)
    pieces = [body[start:start + size] for start in range(0, len(body), size)]
    parts = [b"h" * opts.head_bytes, *pieces]
    if opts.one_write:
        parts = [b"".join(parts)]
    times_ns = []
    for _ in range(opts.calls):
        if opts.quickack:
            # The kernel takes it back by itself.
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
        start_ns = time.monotonic_ns()
        if opts.cork == "each":
            cork(sock, True)
        for part in parts[:-1]:
            connection.write(part, socket.MSG_MORE if opts.more or opts.more_left else 0)
            if opts.pause_ms:
                time.sleep(opts.pause_ms / 1000)
        connection.write(parts[-1], socket.MSG_MORE if opts.more_left else 0)
        if opts.cork == "each":
            if opts.uncork_after_ms:
                time.sleep(opts.uncork_after_ms / 1000)
            cork(sock, False)
        connection.read_exactly(opts.answer_bytes)
        times_ns.append(time.monotonic_ns() - start_ns)
    facts = ends.totals([connection.facts()])
    sock.close()
    return facts | {
        "calls": opts.calls,
        # A delayed acknowledgment takes 40 ms or more; an answer over loopback far below one.
        "calls_over_20ms": sum(call_ns > 20_000_000 for call_ns in times_ns),
        "call_ns_p50": int(statistics.median(times_ns)),
        "call_ns_max": max(times_ns),
    }


def cork(sock, is_on):
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, int(is_on))


def server(opts):
    sock = ends.accept(opts)
    connection = ends.Counted(sock)
    answer = b"a" * opts.answer_bytes
    calls = 0
    while connection.read_exactly(opts.head_bytes + opts.body_bytes) is not None:
        connection.write(answer)
        calls += 1
    facts = ends.totals([connection.facts()])
    sock.close()
    return facts | {"calls": calls}


if __name__ == "__main__":
    parser = ends.options(__doc__)
    parser.add_argument("--calls", type=int, default=200)
    parser.add_argument("--head-bytes", type=int, default=100)
    parser.add_argument("--body-bytes", type=int, default=300)
    parser.add_argument("--body-writes", type=int, default=1)
    parser.add_argument("--answer-bytes", type=int, default=100)
    parser.add_argument("--one-write", action="store_true", help="head and body in one write")
    parser.add_argument("--more", action="store_true", help="send the head with MSG_MORE")
    parser.add_argument("--more-left", action="store_true", help="send head and body with MSG_MORE")
    parser.add_argument("--cork", choices=["left", "each"], help="TCP_CORK, left on or set for each call")
    parser.add_argument("--quickack", action="store_true", help="acknowledge each answer at once")
    parser.add_argument("--uncork-after-ms", type=float, default=0, help="after the last write")
    parser.add_argument("--pause-ms", type=float, default=0, help="between head and body")
    ends.run(parser.parse_args(), client, server)
