#!/usr/bin/env python3
"""Messages over Unix sockets of one process: a stream, datagrams to a name, and messages of a seqpacket pair.

Of each kind 20 messages of 100 octets, each read before the next one is sent. Prints one JSON object.
"""

import json
import os
import socket
import tempfile

MESSAGES, SIZE = 20, 100


def exchange(sender, receiver):
    """Sends each message and reads it whole."""
    for _ in range(MESSAGES):
        sender.sendall(b"x" * SIZE)
        length = 0
        while length < SIZE:
            length += len(receiver.recv(SIZE - length))


def main():
    exchange(*socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM))
    exchange(*socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET))
    with tempfile.TemporaryDirectory() as folder:
        receiver = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        receiver.bind(os.path.join(folder, "receiver"))
        sender = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        sender.connect(receiver.getsockname())
        exchange(sender, receiver)
    print(json.dumps({"workload": "unix_sockets", "messages": 3 * MESSAGES, "bytes": 3 * MESSAGES * SIZE}))


if __name__ == "__main__":
    main()
