#!/usr/bin/env python3
"""Datagrams that come faster than their reader takes them, into a small socket buffer.

The kernel drops what does not fit. The reader ends after a second of silence, so that sent less
received is what was dropped, to the datagram.
"""

import socket
import struct
import time

import ends

NUMBER = struct.Struct("!I")
SILENCE_S = 1.0


def client(opts):
    sock = ends.datagram_socket(opts)
    sock.connect((opts.host, opts.port))
    connection = ends.Counted(sock)
    filling = b"d" * (opts.datagram_bytes - NUMBER.size)
    for number in range(opts.datagrams):
        connection.write(NUMBER.pack(number) + filling)
        if opts.burst and number % opts.burst == opts.burst - 1:
            time.sleep(opts.pause_ms / 1000)
    facts = ends.totals([connection.facts()])
    sock.close()
    return facts | {"datagrams": connection.writes}


def server(opts):
    sock = opts.listener
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, opts.reader_rcvbuf)
    numbers, read_bytes = [], 0
    while True:
        try:
            datagram = sock.recv(65536)
        except TimeoutError:
            break
        sock.settimeout(SILENCE_S)
        numbers.append(NUMBER.unpack_from(datagram)[0])
        read_bytes += len(datagram)
        if opts.sleep_ms:
            time.sleep(opts.sleep_ms / 1000)
    return {
        "read_bytes": read_bytes,
        "reads": len(numbers),
        "datagrams": len(numbers),
        "missing": opts.datagrams - len(numbers),
        "granted_rcvbuf_bytes": sock.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF),
        "ok": len(set(numbers)) == len(numbers) <= opts.datagrams,
    }


if __name__ == "__main__":
    parser = ends.options(__doc__)
    parser.add_argument("--datagrams", type=int, default=1000)
    parser.add_argument("--datagram-bytes", type=int, default=500, help="4 or more")
    parser.add_argument("--burst", type=int, default=50, help="pause after so many; 0: never")
    parser.add_argument("--pause-ms", type=float, default=5)
    parser.add_argument("--sleep-ms", type=float, default=1, help="of the reader, between reads")
    parser.add_argument("--reader-rcvbuf", type=int, default=8192, help="asked for by the reader")
    ends.run(parser.parse_args(), client, server, kind=socket.SOCK_DGRAM)
