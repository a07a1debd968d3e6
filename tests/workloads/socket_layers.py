#!/usr/bin/env python3
"""Calls over sockets that a layer of the kernel reads and writes: a sockmap with or without a program, or kTLS.

stream: a BPF program redirects what arrives at the server to another connection, as a proxy in the kernel does.
message: a BPF program puts what the client sends into the queue of the server's socket, without TCP.
member: the server's socket is in a sockmap that has no program.
ktls: both ends encrypt and decrypt in the kernel.
"""

import ctypes
import platform
import socket
import struct
import sys
import time

CALLS, REQUEST = 20, b"q" * 500
# The system call, its commands, and the kinds that it takes (linux/bpf.h).
BPF = {"x86_64": 321, "aarch64": 280}
MAP_CREATE, MAP_UPDATE, PROGRAM_LOAD, PROGRAM_ATTACH = 0, 2, 5, 8
SOCKMAP, SK_SKB, SK_MSG = 15, 14, 16
STREAM_VERDICT, MESSAGE_VERDICT = 5, 7
SK_REDIRECT_MAP, MSG_REDIRECT_MAP, INGRESS = 52, 60, 1
# linux/tcp.h, linux/tls.h
TCP_ULP, SOL_TLS, TLS_TX, TLS_RX = 31, 282, 1, 2
TLS_1_2, AES_GCM_128 = 0x0303, 51

libc = ctypes.CDLL(None, use_errno=True)


def bpf(command, attributes):
    memory = ctypes.create_string_buffer(attributes.ljust(128, b"\0"))
    result = libc.syscall(BPF[platform.machine()], command, memory, 128)
    if result < 0:
        raise OSError(ctypes.get_errno(), f"bpf command {command}")
    return result


class Sockmap:
    """Two places for sockets, and at most one program."""

    def __init__(self):
        self.fd = bpf(MAP_CREATE, struct.pack("5I", SOCKMAP, 4, 4, 2, 0))

    def add(self, index, of):
        key, value = ctypes.c_uint32(index), ctypes.c_uint32(of.fileno())
        places = ctypes.addressof(key), ctypes.addressof(value)
        bpf(MAP_UPDATE, struct.pack("IxxxxQQQ", self.fd, *places, 0))

    def redirect_to_1(self, kind, helper, flags, attached_as):
        """Attaches a program that calls the helper (context, map, 1, flags) and returns its result."""

        def instruction(code, register=0, source=0, number=0):
            return struct.pack("<BBhi", code, register | source << 4, 0, number)

        text = instruction(0x18, 2, 1, self.fd) + instruction(0)
        text += instruction(0xB7, 3, 0, 1) + instruction(0xB7, 4, 0, flags)
        text += instruction(0x85, 0, 0, helper) + instruction(0x95)
        memory, licence = ctypes.create_string_buffer(text), ctypes.create_string_buffer(b"GPL")
        places = ctypes.addressof(memory), ctypes.addressof(licence)
        program = bpf(PROGRAM_LOAD, struct.pack("IIQQ", kind, len(text) // 8, *places))
        bpf(PROGRAM_ATTACH, struct.pack("IIII", self.fd, program, attached_as, 0))


def pair():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        client = socket.create_connection(listener.getsockname())
        return client, listener.accept()[0]


def encrypt(client, server):
    """The client sends in TLS 1.2, and the server receives; the keys are no secret."""
    keys = struct.pack("=HH8s16s4s8s", TLS_1_2, AES_GCM_128, *(b"k" * n for n in (8, 16, 4)), bytes(8))
    for end, way in ((client, TLS_TX), (server, TLS_RX)):
        end.setsockopt(socket.IPPROTO_TCP, TCP_ULP, b"tls")
        end.setsockopt(SOL_TLS, way, keys)


def main(how):
    client, server = pair()
    reader, others = server, []
    if how == "ktls":
        encrypt(client, server)
    else:
        sockmap = Sockmap()
    if how == "stream":
        others = pair()
        reader = others[1]
        sockmap.redirect_to_1(SK_SKB, SK_REDIRECT_MAP, 0, STREAM_VERDICT)
        sockmap.add(1, others[0])
    elif how == "message":
        sockmap.redirect_to_1(SK_MSG, MSG_REDIRECT_MAP, INGRESS, MESSAGE_VERDICT)
        sockmap.add(1, server)
        sockmap.add(0, client)
    if how in ("stream", "member"):
        sockmap.add(0, server)
    for _ in range(CALLS):
        client.sendall(REQUEST)
        assert reader.recv(len(REQUEST), socket.MSG_WAITALL) == REQUEST
    # In a receive queue the data would wait now.
    time.sleep(0.3)
    # The client closes first, and leaves its sockmap before TCP hears of it.
    for end in (client, server, *others):
        end.close()


if __name__ == "__main__":
    main(sys.argv[1])
