#!/usr/bin/env python3
"""Several datagrams in each send call, which the kernel segments (UDP_SEGMENT, udp(7)).

With --receive-offload the reader gets what came in one packet in one read (UDP_GRO). The last datagram
of a call has half the size of the others. The reader ends after a second of silence.
"""

import socket
import time

import ends

# linux/udp.h
UDP_SEGMENT = 103
UDP_GRO = 104
SILENCE_S = 1.0


def client(opts):
    sock = ends.datagram_socket(opts)
    sock.setsockopt(socket.IPPROTO_UDP, UDP_SEGMENT, opts.datagram_bytes)
    sock.connect((opts.host, opts.port))
    connection = ends.Counted(sock)
    for _ in range(opts.calls):
        connection.write(b"d" * call_bytes(opts))
        time.sleep(opts.pause_ms / 1000)
    facts = ends.totals([connection.facts()])
    sock.close()
    return facts | {"datagrams": opts.calls * opts.datagrams_a_call}


def server(opts):
    sock = opts.listener
    if opts.receive_offload:
        sock.setsockopt(socket.IPPROTO_UDP, UDP_GRO, 1)
    reads, read_bytes = 0, 0
    while True:
        try:
            read_bytes += len(sock.recv(65536))
        except TimeoutError:
            break
        sock.settimeout(SILENCE_S)
        reads += 1
    return {"read_bytes": read_bytes, "reads": reads, "ok": read_bytes == opts.calls * call_bytes(opts)}


def call_bytes(opts):
    return opts.datagram_bytes * (opts.datagrams_a_call - 1) + opts.datagram_bytes // 2


if __name__ == "__main__":
    parser = ends.options(__doc__)
    parser.add_argument("--calls", type=int, default=100)
    parser.add_argument("--datagrams-a-call", type=int, default=10, help="at most 64")
    parser.add_argument("--datagram-bytes", type=int, default=1200)
    parser.add_argument("--pause-ms", type=float, default=2, help="of the sender, after each call")
    parser.add_argument("--receive-offload", action="store_true")
    ends.run(parser.parse_args(), client, server, kind=socket.SOCK_DGRAM)
