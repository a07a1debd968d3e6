#!/usr/bin/env python3
"""Calls whose client sends and receives by io_uring: one request and one answer at a time.

The kernel may carry such a call out in the system call that submits it, or later, when data wake it.
"""

import ctypes
import json
import mmap
import os
import socket
import struct

import ends

# Numbers of the system calls and of the operations (linux/io_uring.h).
SETUP, ENTER = 425, 426
GETEVENTS = 1
SEND, RECEIVE = 26, 27
SUBMISSIONS, COMPLETIONS, ENTRIES = 0, 0x8000000, 0x10000000
ENTRY_BYTES = 64
REQUEST, ANSWER = b"q" * 400, b"a" * 100

libc = ctypes.CDLL(None, use_errno=True)


class Ring:
    """A ring with one operation at a time."""

    def __init__(self):
        parameters = bytearray(120)
        raw = (ctypes.c_char * 120).from_buffer(parameters)
        self.fd = libc.syscall(SETUP, 4, raw)
        if self.fd < 0:
            raise OSError(ctypes.get_errno(), "io_uring_setup")
        entries, completions = struct.unpack_from("<2I", parameters)
        # head, tail, mask, entries, flags, dropped, array; head, tail, mask, entries, overflow, entries' place.
        self.sent = struct.unpack_from("<7I", parameters, 40)
        self.done = struct.unpack_from("<6I", parameters, 80)
        self.submissions = mmap.mmap(self.fd, self.sent[6] + entries * 4, offset=SUBMISSIONS)
        self.completions = mmap.mmap(self.fd, self.done[5] + completions * 16, offset=COMPLETIONS)
        self.entries = mmap.mmap(self.fd, entries * ENTRY_BYTES, offset=ENTRIES)
        self.mask = struct.unpack_from("<I", self.submissions, self.sent[2])[0]
        self.completion_mask = struct.unpack_from("<I", self.completions, self.done[2])[0]

    def call(self, operation, fd, buffer, length):
        """Submits one operation, waits for its end and returns its result."""
        tail = struct.unpack_from("<I", self.submissions, self.sent[1])[0]
        place = tail & self.mask
        entry = struct.pack("<BBHiQQI", operation, 0, 0, fd, 0, ctypes.addressof(buffer), length)
        self.entries[place * ENTRY_BYTES : (place + 1) * ENTRY_BYTES] = entry.ljust(ENTRY_BYTES, b"\0")
        struct.pack_into("<I", self.submissions, self.sent[6] + place * 4, place)
        struct.pack_into("<I", self.submissions, self.sent[1], tail + 1)
        if libc.syscall(ENTER, self.fd, 1, 1, GETEVENTS, None, 0) < 0:
            raise OSError(ctypes.get_errno(), "io_uring_enter")
        head = struct.unpack_from("<I", self.completions, self.done[0])[0]
        at = self.done[5] + (head & self.completion_mask) * 16
        _, result, _ = struct.unpack_from("<QiI", self.completions, at)
        struct.pack_into("<I", self.completions, self.done[0], head + 1)
        if result < 0:
            raise OSError(-result, os.strerror(-result))
        return result


def client(opts):
    sock = ends.connect(opts)
    ring = Ring()
    request = ctypes.create_string_buffer(REQUEST, len(REQUEST))
    answer = ctypes.create_string_buffer(len(ANSWER))
    for _ in range(opts.calls):
        assert ring.call(SEND, sock.fileno(), request, len(REQUEST)) == len(REQUEST)
        got = 0
        while got < len(ANSWER):
            got += ring.call(RECEIVE, sock.fileno(), answer, len(ANSWER) - got)
    port = sock.getsockname()[1]
    sock.close()
    calls = opts.calls
    return {"pid": os.getpid(), "local_port": port, "calls": calls, "written_bytes": calls * len(REQUEST)}


def server(opts):
    connection = ends.Counted(ends.accept(opts))
    while connection.read_exactly(len(REQUEST)) is not None:
        connection.write(ANSWER)
    return ends.totals([connection.facts()])


if __name__ == "__main__":
    parser = ends.options(__doc__)
    parser.add_argument("--calls", type=int, default=100)
    ends.run(parser.parse_args(), client, server)
