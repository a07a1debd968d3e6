"""Each workload says the same at both ends and what was asked of it. Run by `cargo xtask ci`."""

import json
import pathlib
import subprocess
import sys
import unittest

FOLDER = pathlib.Path(__file__).parent


def facts(program, *arguments):
    """What the workload printed; fails when it failed."""
    command = [sys.executable, "-B", str(FOLDER / program), "--timeout", "30", *arguments]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode:
        raise AssertionError(f"{program} ended with {result.returncode}: {result.stderr}")
    return json.loads(result.stdout)


class BothEnds(unittest.TestCase):
    def check(self, program, *arguments, written, answered):
        """The client wrote and the server answered so many bytes, by the count of either end."""
        for host in ("127.0.0.1", "::1"):
            said = facts(program, "--host", host, *arguments)
            client, server = said["client"], said["server"]
            self.assertEqual((client["written_bytes"], server["read_bytes"]), (written, written))
            self.assertEqual((server["written_bytes"], client["read_bytes"]), (answered, answered))
        return client, server

    def test_split_calls_write_twice_a_call_unless_told(self):
        calls = ("--calls", "10", "--nodelay")
        client, _ = self.check("split_calls.py", *calls, written=4000, answered=1000)
        self.assertEqual(client["writes"], 20)
        client, _ = self.check("split_calls.py", *calls, "--one-write", written=4000, answered=1000)
        self.assertEqual(client["writes"], 10)

    def test_split_calls_wait_for_the_timer_under_a_cork_left_on(self):
        for how, waits in (("--cork=left", True), ("--more-left", True), ("--cork=each", False)):
            client, _ = self.check("split_calls.py", "--calls", "2", how, written=800, answered=200)
            self.assertEqual(client["calls_over_20ms"] == 2, waits)

    def test_the_slow_reader_sleeps_after_each_read(self):
        _, server = self.check("slow_reader.py", "--bytes", "300001", "--sleep-ms", "1",
                               written=300_001, answered=0)
        self.assertEqual(server["sleeps"], server["reads"])

    def test_the_reader_beside_hogs_gets_every_message(self):
        _, server = self.check("hog_reader.py", "--messages", "20", "--interval-ms", "1",
                               written=20_000, answered=0)
        self.assertEqual(server["messages"], 20)

    def test_rpc_echoes(self):
        payload = 1 + 10 + 100 + 1000 + 1448 + 4096 + 10000 + 65536
        bytes_each_way = payload + 8 * 4
        client, _ = self.check("rpc.py", "--calls", "8", "--split",
                               written=bytes_each_way, answered=bytes_each_way)
        self.assertEqual(client["payload_bytes"], payload)

    def test_each_caller_makes_all_its_calls(self):
        client, server = self.check("callers.py", "--callers", "4", "--calls", "25",
                                    written=10_000, answered=10_000)
        self.assertEqual((client["writes"], server["writes"]), (100, 100))

    def test_bulk_is_checked_at_both_ends(self):
        client, server = self.check("bulk.py", "--bytes", "3000001", written=3_000_001, answered=32)
        self.assertEqual(client["sha256"], server["sha256"])
        self.check("bulk.py", "--bytes", "3000001", "--reverse", written=32, answered=3_000_001)
        self.check("bulk.py", "--bytes", "300001", "--halt-at", "100000", "--until", __file__,
                   written=300_001, answered=32)

    def test_half_close_delivers_both_directions(self):
        self.check("half_close.py", "--rounds", "2", written=4000, answered=1_000_000)

    def test_many_connections_have_a_port_each(self):
        client, server = self.check("many_connections.py", "--connections", "60", "--parallel", "20",
                                    written=3000, answered=12_000)
        ports = {connection["local_port"] for connection in client["connections"]}
        self.assertEqual(ports, {connection["peer_port"] for connection in server["connections"]})

    def test_many_connections_ask_as_often_as_asked_for(self):
        client, _ = self.check("many_connections.py", "--connections", "3", "--questions", "4", "--closer", "client",
                               written=600, answered=2400)
        self.assertEqual(client["writes"], 12)

    def test_both_requests_are_answered(self):
        client, _ = self.check("large_request.py", "--bytes", "3000", written=3100, answered=200)
        self.assertTrue(client["answered"])

    def test_idle_exchanges(self):
        self.check("idle.py", "--exchanges", "3", "--rest-s", "0.01", written=300, answered=300)


class Datagrams(unittest.TestCase):
    def test_every_datagram_was_read_or_is_missing(self):
        said = facts("udp_flood.py", "--datagrams", "200")
        self.assertEqual(said["client"]["datagrams"], 200)
        self.assertEqual(said["server"]["datagrams"] + said["server"]["missing"], 200)

    def test_none_is_missing_where_there_is_room(self):
        said = facts("udp_flood.py", "--datagrams", "50", "--sleep-ms", "0",
                     "--reader-rcvbuf", "200000")
        self.assertEqual(said["server"]["read_bytes"], said["client"]["written_bytes"])

    def test_what_one_call_gives_to_segmentation_is_read_one_by_one_or_at_once(self):
        for offload in ((), ("--receive-offload",)):
            said = facts("udp_segments.py", "--calls", "6", "--pause-ms", "20", *offload)
            self.assertEqual(said["server"]["read_bytes"], said["client"]["written_bytes"])
            self.assertEqual(said["client"]["datagrams"], 60)
            # The first call may come before the option is set.
            self.assertEqual(said["server"]["reads"] == 60, not offload)


class Nested(unittest.TestCase):
    def test_every_call_through_the_chain_is_answered(self):
        said = facts("nested.py", "chain", "--calls", "3", "--store-ms", "1", "--service-ms", "1")
        self.assertEqual(said["answered"], 3)
        self.assertEqual(len({said[name]["pid"] for name in ("proxies", "serves", "stores")}), 3)
        for how in ((), ("--batch",)):
            said = facts("nested.py", "queries", "--queries", "5", "--store-ms", "1", *how)
            self.assertEqual(said["answered"], 1)

    def test_a_single_thread_makes_all_others_wait(self):
        clients = ("--clients", "5", "--hold-ms", "200")
        self.assertEqual(facts("nested.py", "loop", *clients)["late"], 5)
        self.assertEqual(facts("nested.py", "loop", *clients, "--threads")["late"], 0)


class Apart(unittest.TestCase):
    def test_the_ends_run_as_programs_of_their_own(self):
        command = [sys.executable, "-B", str(FOLDER / "rpc.py"), "--role", "server"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True) as server:
            port = server.stderr.readline().split()[-1]
            client = facts("rpc.py", "--role", "client", "--port", port, "--calls", "8")
            said = json.loads(server.stdout.read())
        self.assertEqual(client["client"]["written_bytes"], said["server"]["read_bytes"])
        self.assertNotIn("server", client)

    def test_an_end_that_waits_too_long_is_killed(self):
        command = [sys.executable, "-B", str(FOLDER / "rpc.py"), "--role", "server", "--timeout", "1"]
        ended = subprocess.run(command, capture_output=True, check=False)
        self.assertNotEqual(ended.returncode, 0)


if __name__ == "__main__":
    unittest.main()
