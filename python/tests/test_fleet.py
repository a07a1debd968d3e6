"""The fleet: modelled hosts with known clocks and planted troubles, analysed with and without Dask."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

import distributed
import duckdb

import bundles
import sockscope
from sockscope import _engine, fleet, lab

BEGIN_NS = 1_795_772_700_000_000_000
"""The true time at which the modelled hosts begin."""


def content(folder):
    """The files of a result, by name."""
    return {path.name: path.read_bytes() for path in sorted(Path(folder).iterdir())}


def findings(folder):
    return set(duckdb.sql(f"SELECT client, server, finding FROM '{folder}/findings.parquet'").fetchall())


class TenHosts(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        made = tempfile.TemporaryDirectory()
        cls.addClassCleanup(made.cleanup)
        cls.folder = Path(made.name)
        cls.truth = lab.fleet(cls.folder / "spool", hosts=10)
        cls.result = cls.folder / "alone"
        cls.written = fleet.analyse(cls.folder / "spool", cls.result)

    def analysed(self, name, **options):
        fleet.analyse(self.folder / "spool", self.folder / name, **options)
        return content(self.folder / name)

    def test_all_planted_troubles_are_found_and_no_others(self):
        whole = [it for it in self.truth["connections"] if not it["is_cut"]]
        planted = {it["planted"] for it in whole} - {""}
        self.assertEqual(len(planted), 4)
        for it in whole:
            self.assertTrue(not it["planted"] or it["planted"] in it["findings"], it)
        expected = {(it["client"], it["server"], finding) for it in whole for finding in it["findings"]}
        ends = {(it["client"], it["server"]) for it in whole}
        self.assertEqual({it for it in findings(self.result) if it[:2] in ends}, expected)

    def test_a_cut_connection_has_no_finding_that_neither_the_whole_nor_an_end_of_it_has(self):
        cut = [it for it in self.truth["connections"] if it["is_cut"]]
        known = [it["findings"] + sum(it["findings_of_ends"], []) for it in cut]
        possible = {(it["client"], it["server"], name) for it, names in zip(cut, known) for name in names}
        ends = {(it["client"], it["server"]) for it in cut}
        self.assertEqual({it for it in findings(self.result) if it[:2] in ends} - possible, set())

    def test_whole_connections_have_both_ends_on_one_clock(self):
        whole = sum(not it["is_cut"] for it in self.truth["connections"])
        missing = self.truth["missing_host"]
        one_end = sum(missing in (it["client_host"], it["server_host"]) for it in self.truth["connections"])
        query = f"SELECT sum(with_both_ends), sum(connections) FROM '{self.result}/connections.parquet'"
        both, connections = duckdb.sql(query).fetchall()[0]
        self.assertGreaterEqual(both, whole)
        self.assertGreaterEqual(connections - both, one_end)

    def test_the_true_difference_of_clocks_is_within_its_bounds(self):
        hosts = {it["name"]: it for it in self.truth["hosts"]}
        query = f"SELECT host, other_host, epoch_ns(bounds_at), ahead_ns_min, ahead_ns_max FROM '{self.result}/clocks.parquet'"
        rows = duckdb.sql(query).fetchall()
        self.assertGreater(len(rows), 20)
        for one, other, at_ns, least, most in rows:
            one, other = hosts[one], hosts[other]
            # The true time at which the other host's clock shows this.
            elapsed = at_ns - BEGIN_NS - other["ahead_ns"]
            elapsed -= elapsed * other["gain_ns_per_s"] // 10**9
            ahead = [it["ahead_ns"] + elapsed * it["gain_ns_per_s"] // 10**9 for it in (one, other)]
            with self.subTest(one=one["name"], other=other["name"]):
                self.assertLessEqual(least - 10, ahead[1] - ahead[0])
                self.assertLessEqual(ahead[1] - ahead[0], most + 10)

    def test_missing_and_damaged_segments_are_named(self):
        query = f"SELECT problem, host FROM '{self.result}/problems.parquet' GROUP BY ALL ORDER BY ALL"
        expected = [
            ("damaged-segment", self.truth["damaged_segment"]),
            ("missing-host", self.truth["missing_address"]),
            ("missing-segment", self.truth["missing_segment"]),
        ]
        self.assertEqual(duckdb.sql(query).fetchall(), expected)
        self.assertEqual(len(self.written.problems), len(duckdb.sql(f"FROM '{self.result}/problems.parquet'").fetchall()))

    def test_the_result_has_the_same_bytes_with_one_and_two_workers_and_without(self):
        alone = content(self.result)
        self.assertEqual(self.analysed("again"), alone)
        self.assertEqual(self.analysed("one", workers=1), alone)
        self.assertEqual(self.analysed("two", workers=2), alone)

    def test_a_killed_worker_changes_nothing(self):
        work = fleet.plan(self.folder / "spool")
        with distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
        ) as cluster, distributed.Client(cluster) as client:
            victim = sorted(client.run(os.getpid).values())[0]
            futures = client.map(slowly, work.tasks, pure=False, retries=_engine.RETRIES)
            distributed.wait(futures[:1])
            os.kill(victim, signal.SIGKILL)
            summaries = client.gather(futures)
        fleet.write(work.head, summaries, self.folder / "killed")
        self.assertEqual(content(self.folder / "killed"), content(self.result))

    def test_each_query_of_the_guide_has_an_answer(self):
        page = (bundles.ROOT / "docs/guide/fleet-queries.md").read_text(encoding="utf-8")
        queries = re.findall(r"^```sql\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
        self.assertEqual(len(queries), page.count("\n## "))
        (self.folder / "queries").mkdir()
        (self.folder / "queries" / "fleet").symlink_to(self.result)
        with contextlib.chdir(self.folder / "queries"):
            # The rows of DuckDB itself need another library for times.
            answers = [duckdb.sql(query).pl().rows() for query in queries]
        for query, rows in zip(queries, answers):
            with self.subTest(query):
                self.assertTrue(rows)
        worst = {row[:3] for row in answers[0]}
        self.assertLessEqual(
            {
                ("web", "orders:8080", "nagle-delayed-ack"),
                ("sync", "archive:2049", "slow-reader"),
                ("mail", "relay:25", "retransmission"),
                ("replica", "primary:3306", "receive-window-limited"),
            },
            worst,
        )
        [ahead_of_first] = [row[1] for row in answers[8] if row[0] == "host-000"]
        self.assertLess(abs(ahead_of_first), 2_000, "milliseconds")

    def test_the_command_prints_sums_and_problems(self):
        command = [sys.executable, "-m", "sockscope.fleet", self.folder / "spool", "-o", self.folder / "command"]
        said = subprocess.run([*command, "--workers", "0"], capture_output=True, text=True, check=True)
        self.assertRegex(said.stdout, r"^\d+ connections, [\d,]+ records, \d+ findings, \d problems, in ")
        self.assertIn("sockscope.fleet: missing-segment: host-008: segment 1 of recording", said.stderr)
        self.assertEqual(content(self.folder / "command"), content(self.result))


def slowly(task):
    time.sleep(0.05)
    return fleet.analyse_task(task)


class Refused(unittest.TestCase):
    def test_a_folder_that_is_no_spool_is_refused_with_its_place(self):
        folder = bundles.folder(self)
        with self.assertRaises(sockscope.Error) as raised:
            fleet.plan(folder)
        self.assertEqual(
            str(raised.exception),
            f"{folder}: no segment in this spool: `sockscope export TRACE --to spool -o DIR` writes one",
        )
        command = [sys.executable, "-m", "sockscope.fleet", folder / "none", "--workers", "0"]
        said = subprocess.run(command, capture_output=True, text=True)
        self.assertEqual((said.returncode, said.stdout), (2, ""))
        self.assertIn("No such file or directory", said.stderr)


if __name__ == "__main__":
    unittest.main()
