"""Bundles, captures, figures and experiments as objects of Python."""

import errno
import ipaddress
import json
import os
import pickle
import struct
import subprocess
import sys
import threading
import unittest
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pyarrow

import bundles
import sockscope

SVG = "{http://www.w3.org/2000/svg}svg"


class Bundles(unittest.TestCase):
    def test_a_report_has_the_content_of_the_program(self):
        program = Path(os.environ.get("CARGO_TARGET_DIR", bundles.ROOT / "target")) / "debug/sockscope"
        if not program.exists():
            print("\nSKIPPED: a_report_has_the_content_of_the_program: no program sockscope: cargo build", file=sys.stderr)
            return
        for path in (bundles.STALLED, bundles.MODEL, bundles.OLD):
            command = [program, "report", path, "--format", "json"]
            expected = subprocess.run(command, capture_output=True, check=True).stdout
            self.assertEqual(sockscope.open(path).report(), json.loads(expected))

    def test_a_report_of_one_flow_has_its_connection_alone(self):
        bundle = bundles.stalled()
        flow = bundle.report()["connections"][0]["flows"][1]["id"]
        [connection] = bundle.report(flow=flow)["connections"]
        self.assertEqual([it["id"] for it in connection["flows"]], [flow])

    def test_a_bundle_says_what_it_is(self):
        bundle = sockscope.open(str(bundles.MODEL))
        self.assertIsInstance(bundle, sockscope.Analysis)
        self.assertEqual(bundle.path, bundles.MODEL)
        self.assertEqual(repr(bundle), f"<sockscope.Bundle {bundles.MODEL}: 333 records of 2 connections>")
        self.assertEqual(sockscope.open(bundles.STALLED).notes, [])

    def test_html_has_the_verdict_and_the_ledger_and_loads_nothing(self):
        html = bundles.stalled()._repr_html_()
        self.assertIn("<dt>verdict</dt>", html)
        self.assertIn('<svg class="ledger-bar"', html)
        for absent in ("<script", "http:", "https:", "@import"):
            self.assertNotIn(absent, html)

    def test_what_is_no_bundle_is_refused_with_its_place(self):
        folder = bundles.folder(self)
        (folder / "file").write_text("x")
        for path, number, line in [
            (folder / "none", errno.ENOENT, "no such folder: a trace bundle is one"),
            (folder / "file", errno.ENOTDIR, "a file, and a trace bundle is a folder"),
        ]:
            with self.assertRaises(sockscope.FileError) as caught:
                sockscope.open(path)
            error = caught.exception
            self.assertIsInstance(error, (OSError, sockscope.Error))
            self.assertEqual((error.errno, Path(error.filename)), (number, path))
            self.assertTrue(str(error).startswith(f"{path}: {line}"), str(error))
            self.assertEqual(str(pickle.loads(pickle.dumps(error))), str(error))
        with self.assertRaisesRegex(sockscope.Error, "not a trace bundle: expected records.arrows"):
            sockscope.open(folder)

    def test_a_damaged_bundle_opens_and_says_so(self):
        folder = bundles.folder(self)
        for file in bundles.MODEL.iterdir():
            content = file.read_bytes()
            is_cut = file.name == "records.arrows"
            (folder / file.name).write_bytes(content[:-600] if is_cut else content)
        bundle = sockscope.open(folder)
        self.assertIn("records.arrows: truncated", bundle.notes[0])
        self.assertEqual(pyarrow.table(bundle.records).num_rows, bundle.report()["trace"]["records"])

    def test_arguments_outside_their_range_are_named_with_those_that_there_are(self):
        bundle = bundles.stalled()
        for ask, line in [
            (lambda: bundle.report(flow=99), "no flow 99 in this trace, which has flows 2 to 3"),
            (lambda: bundle.ledger(99), "no flow 99 in this trace, which has flows 2 to 3"),
            (lambda: bundle.plot("no-such"), "no figure is called \"no-such\"; there are requests, packet-trace"),
            (lambda: bundle.plot("ledger", flow=99), "no flow 99 in this trace, which has flows 2 to 3"),
            (lambda: bundle.plot("ledger", from_ns=10**15), "nothing was recorded"),
            (lambda: bundle.curve(2, 9), "point: expected 1 to 8, or one of SendEnqueue"),
            (lambda: bundle.queue(2, "no-such"), "stage: expected one of send_queue"),
        ]:
            with self.assertRaises(sockscope.Error) as caught:
                ask()
            self.assertTrue(str(caught.exception).startswith(line), str(caught.exception))

    def test_numbers_outside_their_range_are_named_with_the_range(self):
        bundle = bundles.stalled()
        for ask, line in [
            (lambda: bundle.report(flow=-1), "flow: expected 0 or more, found -1"),
            (lambda: bundle.curve(2**40, 1), "flow: expected 4294967295 or less, found 1099511627776"),
            (lambda: bundle.curve(2, 2**80), f"point: expected 1 to 8, found {2**80}"),
            (lambda: bundle.ledger(2, 0), "bins: expected 1 or more, found 0"),
            (lambda: bundle.ledger(2, bins=-(2**80)), f"bins: expected 1 or more, found -{2**80}"),
            (lambda: bundle.plot("acks", from_ns=-4), "from_ns: expected 0 or more, found -4"),
            (lambda: bundle.plot("acks", to_ns=2**64), f"to_ns: expected {2**64 - 1} or less, found {2**64}"),
            (lambda: bundle.plot("acks", width=-1), "width: expected 0 or more, found -1"),
            (lambda: bundle.plot("acks", height=2**32), "height: expected 4294967295 or less, found 4294967296"),
            (lambda: sockscope.lab.run("bb-2", seed=-1), "seed: expected 0 or more, found -1"),
            (lambda: sockscope.lab.run("bb-2", repetitions=-1), "repetitions: expected 1 or more, found -1"),
        ]:
            with self.assertRaises(sockscope.Error) as caught:
                ask()
            self.assertEqual(str(caught.exception), line)

    def test_arguments_of_another_type_are_named_with_the_expectation(self):
        bundle = bundles.stalled()
        for ask, line in [
            (lambda: bundle.queue(2, 3), "stage: expected a name, found int"),
            (lambda: bundle.curve(2, None), "point: expected 1 to 8, or a name, found NoneType"),
            (lambda: bundle.plot("acks", width="wide"), "width: expected a whole number, found str"),
            (lambda: bundle.ledger("2"), "flow: expected a whole number, found str"),
        ]:
            with self.assertRaises(TypeError) as caught:
                ask()
            self.assertEqual(str(caught.exception), line)

    def test_points_have_numbers_and_names(self):
        bundle = bundles.stalled()
        by_number, by_name = bundle.curve(2, 1), bundle.curve(2, "SendEnqueue")
        self.assertEqual(pyarrow.table(by_number), pyarrow.table(by_name))


class Figures(unittest.TestCase):
    def test_every_figure_is_a_document_of_svg(self):
        bundle = bundles.stalled()
        names = "requests packet-trace queue-length queue-delay protocol-delay acks time-sequence sequence layers ledger"
        for name in names.split():
            figure = bundle.plot(name, width=800, height=500)
            root = ElementTree.fromstring(figure.svg)
            self.assertEqual((figure.name, root.tag), (name, SVG))
            self.assertEqual(figure._repr_svg_(), figure.svg)

    def test_a_figure_is_that_of_the_program(self):
        program = Path(os.environ.get("CARGO_TARGET_DIR", bundles.ROOT / "target")) / "debug/sockscope-view"
        if not program.exists():
            line = "\nSKIPPED: a_figure_is_that_of_the_program: no program sockscope-view: cargo build"
            print(line, file=sys.stderr)
            return
        for name in ("requests", "queue-length"):
            command = [program, "plot", bundles.STALLED, "--figure", name, "--from", "10ms", "-o", "-"]
            expected = subprocess.run(command, capture_output=True, text=True, check=True).stdout
            self.assertEqual(bundles.stalled().plot(name, from_ns=10_000_000).svg, expected)

    def test_a_figure_is_saved_as_svg_and_as_nothing_else(self):
        folder = bundles.folder(self)
        figure = bundles.stalled().plot("ledger")
        figure.save(folder / "f.svg")
        self.assertEqual((folder / "f.svg").read_text(encoding="utf-8"), figure.svg)
        with self.assertRaisesRegex(sockscope.Error, "expected a name that ends in .svg"):
            figure.save(folder / "f.png")
        with self.assertRaises(sockscope.FileError) as caught:
            figure.save(folder / "none/f.svg")
        self.assertEqual(caught.exception.errno, errno.ENOENT)


class Laboratory(unittest.TestCase):
    def test_a_run_has_its_cases_and_results_as_tables(self):
        run = sockscope.lab.run("bb-2", messages=3)
        cases, results = pyarrow.table(run.cases), pyarrow.table(run.results)
        sizes = [case["parameters"]["message_bytes"] for case in run.report()["cases"]]
        self.assertEqual(cases["message_bytes"].to_pylist(), sizes)
        self.assertEqual(cases["messages"].to_pylist(), [3] * len(sizes))
        rows = {(row["case"], row["result"]): row["value"] for row in results.to_pylist()}
        for case in cases.to_pylist():
            self.assertEqual(rows[case["case"], "calls.sosend"], case["calls.sosend"])
        self.assertIn("bb-2", repr(run))
        self.assertIn("message_bytes", str(run))

    def test_the_same_seed_gives_the_same_results(self):
        first, again = (sockscope.lab.run("bb-2", messages=2, seed=7).report() for _ in range(2))
        self.assertEqual((first, first["seed"]), (again, 7))

    def test_figures_of_an_experiment_are_drawn_by_name(self):
        run = sockscope.lab.run("bb-2", messages=2)
        for name in run.figures:
            self.assertEqual(ElementTree.fromstring(run.plot(name).svg).tag, SVG)
        with self.assertRaisesRegex(sockscope.Error, "bb-2: no figure is called \"none\"; there are "):
            run.plot("none")

    def test_a_case_gives_a_bundle_as_a_recording_does(self):
        run = sockscope.lab.run("lh-2", data_bytes=4900)
        written = run.bundles(bundles.folder(self))
        self.assertEqual(len(written), len(run.report()["cases"]))
        for bundle in written:
            self.assertEqual(bundle.report()["trace"]["source"], "model")

    def test_every_experiment_is_listed_with_its_title(self):
        experiments = sockscope.lab.experiments()
        self.assertEqual(len(experiments), len(list((bundles.ROOT / "experiments").glob("*.toml"))))
        self.assertTrue(all(experiments.values()))

    def test_a_file_of_ones_own_is_an_experiment(self):
        path = bundles.ROOT / "experiments/bb-2.toml"
        run = sockscope.lab.run(str(path), messages=1)
        self.assertEqual(run.report()["cases"], sockscope.lab.run("bb-2", messages=1).report()["cases"])

    def test_what_makes_no_sense_is_refused_with_its_name(self):
        for ask, line in [
            (lambda: sockscope.lab.run("no-such"), "no experiment `no-such`; "),
            (lambda: sockscope.lab.run("bb-2", mesages=1), "mesages=1: "),
            (lambda: sockscope.lab.run("bb-2", messages="many"), "messages=many: "),
            (lambda: sockscope.lab.run("bb-2", repetitions=0), "repetitions: expected 1 or more, found 0"),
        ]:
            with self.assertRaises(sockscope.Error) as caught:
                ask()
            self.assertTrue(str(caught.exception).startswith(line), str(caught.exception))
        with self.assertRaisesRegex(TypeError, "messages: expected a number, a word or a bool, found list"):
            sockscope.lab.run("bb-2", messages=[1, 2])
        with self.assertRaises(sockscope.FileError):
            sockscope.lab.run("no-such.toml")


def capture(packets):
    """A capture file (pcap, raw IP) of TCP packets: time in microseconds, sender's port, sequence, acknowledgment, data."""
    file = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 101)
    for at_us, is_client, flags, seq, ack, length in packets:
        client, server = (int(ipaddress.ip_address(text)) for text in ("10.0.0.1", "10.0.0.2"))
        ends = (client, server) if is_client else (server, client)
        ports = (40000, 80) if is_client else (80, 40000)
        ip = struct.pack("!BBHHHBBHII", 0x45, 0, 40 + length, 0, 0, 64, 6, 0, *ends)
        tcp = struct.pack("!HHIIBBHHH", *ports, seq, ack, 0x50, flags, 65535, 0, 0)
        packet = ip + tcp + bytes(length)
        file += struct.pack("<IIII", 1_700_000_000, at_us, len(packet), len(packet)) + packet
    return file


SYN, ACK = 2, 16
CALL = capture(
    [
        (0, True, SYN, 100, 0, 0),
        (100, False, SYN | ACK, 500, 101, 0),
        (200, True, ACK, 101, 501, 0),
        (300, True, ACK, 101, 501, 20),
        (400, False, ACK, 501, 121, 30),
    ]
)


class Captures(unittest.TestCase):
    def test_a_capture_becomes_a_bundle(self):
        folder = bundles.folder(self)
        (folder / "call.pcap").write_bytes(CALL)
        bundle = sockscope.convert(folder / "call.pcap", folder / "call", host="10.0.0.1")
        [connection] = bundle.report()["connections"]
        self.assertEqual((connection["client"], connection["server"]), ("10.0.0.1:40000", "10.0.0.2:80"))
        self.assertEqual([flow["bytes"] for flow in connection["flows"]], [20, 30])
        self.assertIn("the capturing host sent 3 packets (point 4) and received 2 packets (point 5)", bundle.notes)
        others = sockscope.convert(folder / "call.pcap", folder / "others", host=["10.0.0.2", "fe80::1"])
        self.assertIn("the capturing host sent 2 packets (point 4) and received 3 packets (point 5)", others.notes)

    def test_what_is_no_capture_is_refused_with_its_name(self):
        folder = bundles.folder(self)
        (folder / "text").write_text("no capture")
        (folder / "empty.pcap").write_bytes(capture([]))
        for capture_file, host, line in [
            ("text", None, str(folder / "text")),
            ("empty.pcap", None, f"{folder / 'empty.pcap'}: no packet of TCP or UDP that can be read"),
            ("empty.pcap", "here", 'host: expected an address as 10.0.0.1, found "here"'),
        ]:
            with self.assertRaises(sockscope.Error) as caught:
                sockscope.convert(folder / capture_file, folder / "out", host=host)
            self.assertTrue(str(caught.exception).startswith(line), str(caught.exception))
            self.assertFalse((folder / "out").exists())
        with self.assertRaises(sockscope.FileError) as caught:
            sockscope.convert(folder / "none", folder / "out")
        self.assertEqual(caught.exception.errno, errno.ENOENT)


class Threads(unittest.TestCase):
    def test_other_threads_run_during_long_work(self):
        counts, is_over = [0], threading.Event()

        def count():
            while not is_over.is_set():
                counts[0] += 1

        thread = threading.Thread(target=count)
        thread.start()
        before = counts[0]
        try:
            sockscope.lab.run("bb-2", messages=50)
        finally:
            during = counts[0] - before
            is_over.set()
            thread.join()
        # With the lock held the other thread would have no turn between the two readings, or one.
        self.assertGreater(during, 1000)

    def test_threads_share_one_analysis(self):
        bundle, reports = bundles.stalled(), []
        threads = [threading.Thread(target=lambda: reports.append(bundle.report())) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(reports, [bundle.report()] * 4)


if __name__ == "__main__":
    unittest.main()
