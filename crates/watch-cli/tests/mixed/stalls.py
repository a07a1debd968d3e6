"""Both ends of connections that stall when they are asked to. A connection for each kind, at a server port of its own.

stalls.py serve ADDRESS PORT           answers at PORT to PORT + 3
stalls.py ask ADDRESS PORT FROM...     connects from these ports, one for each kind; plants stalls

A line of input names a stall. `ask` says `now`, waits for another line, and prints the times of the stall.
"""
import queue
import socket
import sys
import threading
import time

KINDS = ["slow-reader", "stopped-server", "delayed-acknowledgment", "full-send-buffer"]
SECONDS = 2.0
REQUEST, ANSWER = 400, 100
LARGE = 16 << 20


def serve(listener):
    peer = listener.accept()[0]
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    while request := peer.recv(REQUEST, socket.MSG_WAITALL):
        peer.sendall(b"a" * ANSWER)
        if request[:1] in b"sl":
            # What follows is not read meanwhile.
            time.sleep(SECONDS)
        if request[:1] == b"l":
            left = LARGE
            while left:
                left -= len(peer.recv(min(left, 1 << 20)))
            peer.sendall(b"a" * ANSWER)


def exchange(sock, requests, begins=b"q"):
    for _ in range(requests):
        sock.sendall(begins + b"q" * (REQUEST - 1))
    sock.recv(ANSWER * requests, socket.MSG_WAITALL)


def slow_reader(sock):
    exchange(sock, 1, b"s")
    exchange(sock, 20)


def stopped_server(sock):
    # The server was stopped by the one who asked for this.
    exchange(sock, 1)


def delayed_acknowledgment(sock):
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        # Nagle's rule holds the second write until the first one is acknowledged.
        sock.sendall(b"q" * 100)
        sock.sendall(b"q" * 300)
        sock.recv(ANSWER, socket.MSG_WAITALL)


def full_send_buffer(sock):
    exchange(sock, 1, b"l")
    sock.sendall(b"x" * LARGE)
    sock.recv(ANSWER, socket.MSG_WAITALL)


STALLS = [slow_reader, stopped_server, delayed_acknowledgment, full_send_buffer]


def ask(address, port, places):
    socks = []
    for number, place in enumerate(places):
        to = (address, port + number)
        socks.append(socket.create_connection(to, source_address=("127.0.0.1", place)))
    print("ready", flush=True)
    lines = queue.Queue()
    threading.Thread(target=lambda: [lines.put(line.strip()) for line in sys.stdin], daemon=True).start()
    while True:
        try:
            number = KINDS.index(lines.get(timeout=0.2))
        except queue.Empty:
            for sock in socks:
                exchange(sock, 1)
            continue
        print("now", flush=True)
        lines.get()
        begun = time.monotonic_ns()
        STALLS[number](socks[number])
        print(begun, time.monotonic_ns(), flush=True)


if sys.argv[1] == "serve":
    first = int(sys.argv[3])
    for number in range(len(KINDS)):
        listener = socket.create_server((sys.argv[2], first + number))
        threading.Thread(target=serve, args=(listener,), daemon=True).start()
    print("ready", flush=True)
    sys.stdin.read()
else:
    ask(sys.argv[2], int(sys.argv[3]), [int(place) for place in sys.argv[4:]])
