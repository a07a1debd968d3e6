"""Errors of the package: one line each, with the place and the expectation."""


class Error(ValueError):
    """Something that was asked for cannot be done: the line has the place and the expectation."""

    __module__ = "sockscope"


class FileError(OSError, Error):
    """The system refused a file or a folder: `errno` and `filename` are set."""

    __module__ = "sockscope"

    def __init__(self, line: str, number: int | None = None, path: object = None) -> None:
        super().__init__(line)
        self.errno = number
        self.filename = path

    def __str__(self) -> str:
        return str(self.args[0])

    def __reduce__(self):
        return (type(self), (str(self), self.errno, self.filename))
