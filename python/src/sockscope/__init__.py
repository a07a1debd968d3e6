"""Sockscope: where every byte waits between the write() that sent it and the read() that got it.

`open` reads a trace bundle, `convert` makes one of a capture file, `analyse` takes records of any library of tables,
and `sockscope.lab` runs experiments on the model. Tables go to pyarrow, polars, pandas and DuckDB by the Arrow
PyCapsule interface; none of these is needed to import the package.
"""

from sockscope import lab
from sockscope._errors import Error, FileError
from sockscope._native import Analysis, Bundle, Figure, Table, __version__, analyse, convert, open

__all__ = [
    "Analysis",
    "Bundle",
    "Error",
    "Figure",
    "FileError",
    "Table",
    "__version__",
    "analyse",
    "convert",
    "lab",
    "open",
]
