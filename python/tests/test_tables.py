"""Tables in pyarrow, polars, pandas and DuckDB: the same rows everywhere, and those of the report."""

import subprocess
import sys
import unittest

import duckdb
import pandas
import polars
import pyarrow

import bundles
import sockscope

# A library takes the rows; the answer is their number and the sum of a column.
ANSWERS = {
    "pyarrow": lambda table, column: of_arrow(pyarrow.table(table), column),
    "polars": lambda table, column: of_polars(polars.DataFrame(table), column),
    "pandas": lambda table, column: of_pandas(pandas.DataFrame.from_arrow(table), column),
    "duckdb": lambda table, column: of_duckdb(table, column),
}


def of_arrow(table, column):
    return table.num_rows, sum(value or 0 for value in table[column].to_pylist())


def of_polars(table, column):
    return table.height, table[column].sum()


def of_pandas(table, column):
    return len(table), table[column].sum()


def of_duckdb(table, column):
    rows = table
    return duckdb.sql(f'select count(*), coalesce(sum("{column}"), 0) from rows').fetchall()[0]


class Tables(unittest.TestCase):
    def setUp(self):
        self.bundle = bundles.stalled()
        self.report = self.bundle.report()

    def tables(self):
        """Each table, with a column of numbers."""
        bundle = self.bundle
        flow = bundle.flows.to_pyarrow()["flow"][0].as_py()
        return [
            (bundle.records, "len"),
            (bundle.flows, "bytes"),
            (bundle.stages, "unknown_intervals"),
            (bundle.findings, "cost_ns"),
            (bundle.finding_times, "start_ns"),
            (bundle.evidence, "at_ns"),
            (bundle.exchanges, "request"),
            (bundle.calls, "flow"),
            (bundle.ledger(), "time_ns"),
            (bundle.ledger(flow, 7), "time_ns"),
            (bundle.curve(flow, 1), "position"),
            (bundle.queue(flow, "send_queue"), "length_bytes"),
            (bundle.delays(flow, "total"), "bytes"),
        ]

    def test_every_library_has_the_same_rows_and_sums(self):
        for table, column in self.tables():
            expected = ANSWERS["pyarrow"](table, column)
            for library, answer in ANSWERS.items():
                with self.subTest(table=table.name, library=library):
                    self.assertEqual(tuple(map(int, answer(table, column))), tuple(map(int, expected)))

    def test_a_conversion_by_name_gives_what_the_library_makes(self):
        flows = self.bundle.flows
        self.assertTrue(flows.to_pyarrow().equals(pyarrow.table(flows)))
        self.assertTrue(flows.to_polars().equals(polars.DataFrame(flows)))
        self.assertTrue(flows.to_pandas().equals(pandas.DataFrame.from_arrow(flows)))

    def test_the_schema_is_that_of_the_stream(self):
        for table, _ in self.tables():
            found = pyarrow.table(table).schema
            self.assertEqual(list(table.schema), found.names, table.name)
            self.assertEqual(pyarrow.schema(table), found, table.name)
            self.assertEqual([column.name for column in table.columns], found.names)
        column = {column.name: column for column in self.bundle.flows.columns}["bytes"]
        self.assertEqual((column.type, column.unit), ("Int64", "bytes"))
        self.assertTrue(column.description)
        self.assertIn("bytes: Int64 [bytes]", repr(self.bundle.flows))

    def test_a_stream_that_is_not_read_frees_itself(self):
        for _ in range(3):
            self.bundle.records.__arrow_c_stream__()
            self.bundle.records.__arrow_c_schema__()
        self.assertEqual(self.bundle.records.to_pyarrow().num_rows, self.report["trace"]["records"])

    def test_a_table_outlives_its_bundle(self):
        table = bundles.stalled().exchanges
        self.assertEqual(pyarrow.table(table), pyarrow.table(table))

    def test_flows_have_the_numbers_of_the_report(self):
        rows = {row["flow"]: row for row in self.bundle.flows.to_pyarrow().to_pylist()}
        flows = [flow for one in self.report["connections"] for flow in one["flows"]]
        self.assertEqual(sorted(rows), sorted(flow["id"] for flow in flows))
        for flow in flows:
            self.assertEqual(rows[flow["id"]]["bytes"], flow["bytes"])
            self.assertEqual(rows[flow["id"]]["segments"], flow["segments"])

    def test_shares_of_a_ledger_are_those_of_the_report(self):
        ledger = self.bundle.ledger().to_polars()
        for one in self.report["connections"]:
            for flow in one["flows"]:
                rows = ledger.filter(polars.col("flow") == flow["id"])
                shares = dict(zip(rows["place"], rows["share"]))
                for place, share in flow["ledger"].items():
                    self.assertAlmostEqual(shares.get(place, 0), share, places=6, msg=place)

    def test_findings_are_those_of_the_report(self):
        rows = self.bundle.findings.to_pyarrow().to_pylist()
        found = sorted((row["name"], row["flow"], row["count"]) for row in rows)
        expected = (finding for one in self.report["connections"] for finding in one["findings"])
        self.assertEqual(found, sorted((it["id"], it["flow"], it["count"]) for it in expected))
        self.assertIn("nagle-delayed-ack", {name for name, _, _ in found})

    def test_a_missing_library_is_named_with_the_command_that_installs_it(self):
        for library in ("pyarrow", "polars", "pandas"):
            code = (
                f"import sys; sys.modules[{library!r}] = None\n"
                f"import sockscope; bundle = sockscope.open({str(bundles.MODEL)!r})\n"
                f"try: bundle.flows.to_{library}()\n"
                "except ModuleNotFoundError as error: print(error)"
            )
            run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
            line = f"to_{library}() needs {library}, which is not installed: pip install {library}\n"
            self.assertEqual(run.stdout, line, run.stderr)


class Analysed(unittest.TestCase):
    """`sockscope.analyse` of tables that other libraries hold."""

    def setUp(self):
        self.bundle = bundles.stalled()
        self.expected = self.bundle.report()["connections"]

    def test_records_of_any_library_give_the_same_connections(self):
        records, flows = self.bundle.records, self.bundle.flows
        relation = duckdb.sql("select * from records")
        for name, of_records, of_flows in [
            ("sockscope", records, flows),
            ("pyarrow", records.to_pyarrow(), flows.to_pyarrow()),
            ("polars", records.to_polars(), flows.to_polars()),
            ("pandas", records.to_pandas(), flows.to_pandas()),
            ("duckdb", relation, duckdb.sql("select * from flows")),
        ]:
            with self.subTest(name):
                analysis = sockscope.analyse(of_records, flows=of_flows)
                self.assertEqual(analysis.report()["connections"], self.expected)

    def test_without_flows_the_addresses_are_unknown_and_the_times_are_there(self):
        found = sockscope.analyse(self.bundle.records).report()["connections"]
        numbers = ("id", "bytes", "segments", "stages")
        of = lambda report: [[flow[it] for it in numbers] for one in report for flow in one["flows"]]
        self.assertEqual(of(found), of(self.expected))
        self.assertNotEqual(found[0]["client"], self.expected[0]["client"])

    def test_a_part_of_the_records_is_analysed_alone(self):
        records = self.bundle.records.to_polars()
        flow = self.expected[0]["flows"][0]["id"]
        part = records.filter(polars.col("flow").is_in([flow, flow ^ 1]))
        found = sockscope.analyse(part, flows=self.bundle.flows).report()["connections"]
        numbers = {one["id"]: one for one in found}
        self.assertEqual(numbers[flow // 2]["findings"], self.expected[0]["findings"])

    def test_the_file_of_records_is_such_a_table_too_but_for_one_name(self):
        with pyarrow.OSFile(str(bundles.STALLED / "records.arrows")) as file:
            records = pyarrow.ipc.open_stream(file).read_all()
        records = records.rename_columns([{"kind": "kind_code"}.get(name, name) for name in records.column_names])
        found = sockscope.analyse(records, flows=self.bundle.flows).report()["connections"]
        self.assertEqual(found, self.expected)

    def test_what_is_no_table_of_records_is_refused_with_its_place(self):
        records, flows = pyarrow.table(self.bundle.records), pyarrow.table(self.bundle.flows)
        place = records.column_names.index("len")
        negative = records.set_column(place, "len", pyarrow.array([-1] * records.num_rows))
        words = "records: expected a table with __arrow_c_stream__, as of pyarrow, polars or pandas 3, found list"
        nowhere = self.bundle.flows.to_polars().with_columns(client=polars.lit("nowhere"))
        for table, of, line in [
            ([1], None, f"^{words}$"),
            (flows, None, "column at_ns.*: expected integers, found no such column"),
            (negative, None, "row 0.*: expected 0 to 4294967295 in column len, found -1"),
            (records, nowhere, 'row 0 of the flows: expected an address .* in column client, found "nowhere"'),
            (records, 7, "flows: expected a table with .* found int"),
        ]:
            with self.assertRaisesRegex(sockscope.Error, line):
                sockscope.analyse(table, flows=of)

    def test_an_error_of_the_other_library_is_handed_on(self):
        def broken():
            yield pyarrow.record_batch(self.bundle.records.to_pyarrow().to_batches()[0])
            raise RuntimeError("the disk is gone")

        schema = pyarrow.schema(self.bundle.records)
        reader = pyarrow.RecordBatchReader.from_batches(schema, broken())
        with self.assertRaisesRegex(sockscope.Error, "records: .*the disk is gone"):
            sockscope.analyse(reader)


if __name__ == "__main__":
    unittest.main()
