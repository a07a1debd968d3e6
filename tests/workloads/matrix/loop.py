#!/usr/bin/env python3
"""The matrix's server in Python with asyncio: one thread, an event loop.

loop.py PORT TROUBLE UPSTREAM_PORT; README.md has the requests.
"""

import asyncio
import os
import socket
import sys
import time


def answer(writer, length, text=b""):
    writer.write(b"%d\n" % length + text + b"a" * (length - len(text)))


async def upload(reader, writer, size, pause_ms, chunk):
    reads = 0
    while size > 0 and (part := await reader.read(min(chunk, size))):
        size -= len(part)
        reads += 1
        if pause_ms:
            await asyncio.sleep(pause_ms / 1000)
    answer(writer, 100, b"%d " % reads)


async def push(writer):
    for _ in range(20):
        writer.write(b"e" * 50)
        await asyncio.sleep(0.03)
    writer.close()


async def serve(reader, writer, trouble, upstream_port):
    # asyncio itself sets TCP_NODELAY.
    if trouble == "split":
        writer.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 0)
    if trouble == "send-buffer":
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 13)
    if trouble == "push":
        return await push(writer)
    upstream = None
    while line := await reader.readline():
        what, *numbers = line.decode().split()
        a, b, c = ([int(number) for number in numbers] + [0, 0, 0])[:3]
        if what == "fast":
            answer(writer, a)
        elif what == "sleep":
            await asyncio.sleep(a / 1000)
            answer(writer, b)
        elif what == "locked":
            # What nobody should do in an event loop.
            if a:
                time.sleep(a / 1000)
            answer(writer, b)
        elif what == "split":
            writer.write(b"%d\n" % (a + b) + b"a" * a)
            writer.write(b"a" * b)
        elif what == "stream":
            writer.write(b"%d\n" % (a * c) + b"a" * c)
            for _ in range(a - 1):
                await asyncio.sleep(b / 1000)
                writer.write(b"a" * c)
        elif what == "ask":
            if upstream is None:
                upstream = await asyncio.open_connection("127.0.0.1", upstream_port)
            since = time.monotonic_ns()
            for _ in range(a):
                upstream[1].write(b"sleep %d 100\n" % b)
                await upstream[0].readexactly(104)
            answer(writer, 100, b"%d " % (time.monotonic_ns() - since))
        elif what == "upload":
            await upload(reader, writer, a, b, c)
        elif what == "early":
            answer(writer, 100)
            break
        elif what == "hang":
            await asyncio.sleep(60)
        await writer.drain()
    writer.close()


async def main():
    port, trouble, upstream_port = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    away = trouble == "accept-queue"

    async def one(reader, writer):
        try:
            await serve(reader, writer, trouble, upstream_port)
        except ConnectionError:
            writer.close()

    # A small limit: a body of many bytes stays in the socket.
    server = await asyncio.start_server(one, os.environ["MATRIX_HOST"], port, backlog=1 if away else 128, limit=1 << 14)
    if away:
        time.sleep(0.7)
    await server.serve_forever()


asyncio.run(main())
