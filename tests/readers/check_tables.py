"""Reads exported tables with DuckDB, Polars, pandas and pyarrow, and compares their sums.

    check_tables.py PARQUET CSV SUMS

PARQUET and CSV are folders of the same trace. SUMS is JSON: by table the number of rows, and sums of columns. An
assertion that fails names the table, the column and the reader.
"""

import json
import pathlib
import sys

import duckdb
import pandas
import polars
import pyarrow
import pyarrow.compute
import pyarrow.csv
import pyarrow.parquet

ROWS_OF_A_GROUP = 122_880


def duckdb_sums(path, columns):
    read = "read_parquet" if path.suffix == ".parquet" else "read_csv"
    # All lines: a sample may have only empty cells of a column.
    more = "" if path.suffix == ".parquet" else ", sample_size=-1"
    # A table without rows has no types in CSV.
    sums = "".join(f', sum(CAST("{column}" AS BIGINT))' for column in columns)
    row = duckdb.sql(f"SELECT count(*){sums} FROM {read}('{path}'{more})").fetchall()[0]
    return [int(value or 0) for value in row]


def polars_sums(path, columns):
    parquet = path.suffix == ".parquet"
    frame = polars.read_parquet(path) if parquet else polars.read_csv(path, infer_schema_length=None)
    return [frame.height] + [frame[column].cast(polars.Int64).sum() for column in columns]


def pandas_sums(path, columns):
    frame = pandas.read_parquet(path) if path.suffix == ".parquet" else pandas.read_csv(path)
    return [len(frame)] + [int(frame[column].sum()) for column in columns]


def pyarrow_sums(path, columns):
    parquet = path.suffix == ".parquet"
    table = pyarrow.parquet.read_table(path) if parquet else pyarrow.csv.read_csv(path)
    sums = [pyarrow.compute.sum(table[column].cast("int64")).as_py() or 0 for column in columns]
    return [table.num_rows] + sums


READERS = {
    "duckdb": duckdb_sums,
    "polars": polars_sums,
    "pandas": pandas_sums,
    "pyarrow": pyarrow_sums,
}


def check_sums(path, rows, sums):
    for name, reader in READERS.items():
        found = reader(path, list(sums))
        assert found == [rows, *sums.values()], f"{path} by {name}: {found}, not {rows}, {sums}"


def check_records(path):
    """The order, the row groups, the types and the metadata of the records."""
    file = pyarrow.parquet.ParquetFile(path)
    groups = [file.metadata.row_group(at) for at in range(file.metadata.num_row_groups)]
    rows = [group.num_rows for group in groups]
    assert all(count == ROWS_OF_A_GROUP for count in rows[:-1]), rows
    assert len(rows) > 1, "more than one group"
    flow = file.schema_arrow.get_field_index("flow")
    bounds = [group.column(flow).statistics for group in groups]
    assert all(one.max <= next.min for one, next in zip(bounds, bounds[1:])), "groups by flow"
    facts = file.metadata.metadata
    assert facts[b"schema"] == b"sockscope.records/1", facts
    assert json.loads(facts[b"sockscope.meta"])["format_version"] == 2
    types = {field.name: field.type for field in file.schema_arrow}
    assert types["at_ns"] == pyarrow.int64(), types
    assert types["at"] == pyarrow.timestamp("ns", "UTC"), types
    assert pyarrow.types.is_dictionary(types["kind"]), types
    assert not any(pyarrow.types.is_unsigned_integer(of) for of in types.values()), types
    assert file.schema_arrow.field("len").metadata[b"unit"] == b"bytes"

    frame = polars.read_parquet(path)
    assert frame.equals(frame.sort("flow", "at_ns", maintain_order=True)), "sorted by flow, then by time"
    kinds = frame.group_by("kind", "kind_code").len()
    assert kinds.height == frame["kind_code"].n_unique(), "a kind has one code"
    # The two clocks have one distance, and `at` is the time since 1970.
    distance = (frame["at"].to_physical() - frame["at_ns"]).unique().to_list()
    assert distance == [1_795_771_800_000_000_000], distance
    by_second = duckdb.sql(
        f"SELECT count(DISTINCT date_trunc('second', \"at\"::TIMESTAMPTZ)) FROM '{path}' WHERE kind = 'SendEnqueue'"
    ).fetchall()
    assert by_second[0][0] >= 1


def check_csv_is_parquet(parquet, csv):
    """Every cell of the text is the value of the file of columns."""
    left = pyarrow.parquet.read_table(parquet)
    options = pyarrow.csv.ConvertOptions(
        column_types={
            field.name: pyarrow.string() if pyarrow.types.is_dictionary(field.type) else field.type
            for field in left.schema
        },
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
        null_values=[""],
    )
    right = pyarrow.csv.read_csv(csv, convert_options=options)
    assert left.column_names == right.column_names, csv
    for name in left.column_names:
        one, other = left[name], right[name]
        if pyarrow.types.is_dictionary(one.type):
            one = one.cast(pyarrow.string())
        assert one.to_pylist() == other.to_pylist(), f"{csv}: {name}"


def main():
    parquet, csv, sums = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), json.loads(sys.argv[3])
    tables = sorted(path.stem for path in parquet.iterdir())
    assert tables == sorted(sums), f"{tables} are there, not {sorted(sums)}"
    assert tables == sorted(path.stem for path in csv.iterdir())
    for table, expected in sums.items():
        rows = expected.pop("rows")
        check_sums(parquet / f"{table}.parquet", rows, expected)
        check_sums(csv / f"{table}.csv", rows, expected)
        if table != "records":
            check_csv_is_parquet(parquet / f"{table}.parquet", csv / f"{table}.csv")
    check_records(parquet / "records.parquet")
    print(f"{len(tables)} tables, {len(READERS)} readers, two forms: equal")


main()
