"""Types of the native half. The package `sockscope` has all of its names but those of `sockscope.lab`."""

from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, final

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

__version__: str

_Path: TypeAlias = str | PathLike[str]
_Point: TypeAlias = Literal[
    1,
    2,
    3,
    4,
    5,
    6,
    7,
    8,
    "SendEnqueue",
    "SendDequeue",
    "InterfaceEnqueue",
    "InterfaceDequeue",
    "InputEnqueue",
    "InputDequeue",
    "ReceiveEnqueue",
    "ReceiveDequeue",
]
_Stage: TypeAlias = Literal[
    "send_queue",
    "tcp_output",
    "interface_queue",
    "wire",
    "input_queue",
    "tcp_input",
    "receive_queue",
    "total",
]
_Picture: TypeAlias = Literal[
    "requests",
    "packet-trace",
    "queue-length",
    "queue-delay",
    "protocol-delay",
    "acks",
    "time-sequence",
    "sequence",
    "layers",
    "ledger",
]

class _ArrowStream(Protocol):
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...

@final
class Column:
    """A column of a table. The unit and the description are empty where they are unknown."""

    @property
    def name(self) -> str: ...
    @property
    def type(self) -> str: ...
    @property
    def unit(self) -> str: ...
    @property
    def description(self) -> str: ...

@final
class Table:
    """A table as a stream of Arrow batches, which pyarrow, polars, pandas and DuckDB take."""

    @property
    def name(self) -> str: ...
    @property
    def schema(self) -> dict[str, str]: ...
    @property
    def columns(self) -> list[Column]: ...
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...
    def __arrow_c_schema__(self) -> object: ...
    def to_pyarrow(self) -> pyarrow.Table: ...
    def to_polars(self) -> polars.DataFrame: ...
    def to_pandas(self) -> pandas.DataFrame: ...

@final
class Figure:
    """A drawing as SVG, which notebooks show."""

    @property
    def name(self) -> str: ...
    @property
    def svg(self) -> str: ...
    def _repr_svg_(self) -> str: ...
    def save(self, path: _Path) -> None: ...

class Analysis:
    """What the records of a trace show: reports, tables and figures."""

    def report(self, *, flow: int | None = None) -> dict[str, Any]: ...
    @property
    def flows(self) -> Table: ...
    @property
    def stages(self) -> Table: ...
    @property
    def findings(self) -> Table: ...
    @property
    def finding_times(self) -> Table: ...
    @property
    def evidence(self) -> Table: ...
    @property
    def exchanges(self) -> Table: ...
    @property
    def calls(self) -> Table: ...
    def ledger(self, flow: int | None = None, bins: int | None = None) -> Table: ...
    def curve(self, flow: int, point: _Point) -> Table: ...
    def queue(self, flow: int, stage: _Stage) -> Table: ...
    def delays(self, flow: int, stage: _Stage) -> Table: ...
    def plot(
        self,
        figure: _Picture,
        *,
        flow: int | None = None,
        from_ns: int | None = None,
        to_ns: int | None = None,
        width: int = 800,
        height: int = 600,
    ) -> Figure: ...
    def _repr_html_(self) -> str: ...

@final
class Bundle(Analysis):
    """A trace bundle that is open."""

    @property
    def path(self) -> PathLike[str]: ...
    @property
    def notes(self) -> list[str]: ...
    @property
    def records(self) -> Table: ...

@final
class Run:
    """The results of an experiment on the model."""

    @property
    def experiment(self) -> str: ...
    @property
    def cases(self) -> Table: ...
    @property
    def results(self) -> Table: ...
    @property
    def figures(self) -> list[str]: ...
    def report(self) -> dict[str, Any]: ...
    def plot(self, figure: str, *, width: int = 960, height: int = 640) -> Figure: ...
    def bundles(self, folder: _Path) -> list[Bundle]: ...

def open(path: _Path) -> Bundle: ...
def analyse(records: _ArrowStream, *, flows: _ArrowStream | None = None) -> Analysis: ...
def convert(capture: _Path, out: _Path, *, host: str | list[str] | None = None) -> Bundle: ...
def fleet(spool: _Path, hosts: int, rounds: int, seed: int) -> bytes: ...
def fleet_analyse(task: bytes) -> bytes: ...
def fleet_plan(spool: _Path) -> tuple[bytes, list[tuple[bytes, int]]]: ...
def fleet_write(head: bytes, summaries: list[bytes], folder: _Path) -> tuple[int, int, int, list[str]]: ...
def cases(experiment: str, changes: list[str]) -> list[list[str]]: ...
def experiments() -> list[tuple[str, str]]: ...
def run(
    experiment: str, changes: list[str], *, seed: int | None = None, repetitions: int | None = None
) -> Run: ...
