"""Sweeps of experiments, with and without Dask."""

import json
import subprocess
import sys
import unittest

import bundles
import sockscope
from sockscope import lab
from sockscope.sweep import sweep

FILE = bundles.ROOT / "experiments/lh-2.toml"


class Sweeps(unittest.TestCase):
    def test_a_sweep_has_the_results_of_a_run_with_any_number_of_workers(self):
        expected = lab.run("lh-2").report()
        self.assertEqual(len(expected["cases"]), 4)
        self.assertEqual(sweep("lh-2"), expected)
        self.assertEqual(sweep("lh-2", workers=2), expected)
        changed = lab.run(str(FILE), seed=7, data_bytes=4900).report()
        self.assertEqual(sweep(str(FILE), ["data_bytes=4900"], seed=7), changed)

    def test_the_command_writes_the_document(self):
        out = bundles.folder(self) / "lh-2.json"
        command = [sys.executable, "-m", "sockscope.sweep", FILE, "--set", "server_timer_ms=80", "--workers", "0"]
        said = subprocess.run([*command, "-o", out], capture_output=True, text=True, check=True)
        self.assertEqual((said.stdout, said.stderr), ("", ""))
        self.assertEqual(json.loads(out.read_text()), lab.run("lh-2", server_timer_ms=80).report())

    def test_an_unknown_parameter_is_an_error_of_one_line(self):
        with self.assertRaises(sockscope.Error) as raised:
            sweep("lh-2", ["data_byte=1"])
        command = [sys.executable, "-m", "sockscope.sweep", "lh-2", "--set", "data_byte=1", "--workers", "0"]
        said = subprocess.run(command, capture_output=True, text=True)
        self.assertEqual((said.returncode, said.stdout), (2, ""))
        self.assertEqual(said.stderr, f"sockscope.sweep: {raised.exception}\n")


if __name__ == "__main__":
    unittest.main()
