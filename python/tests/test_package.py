"""The wheel: its metadata, its files, and its types."""

import ast
import importlib.metadata
import inspect
import subprocess
import sys
import unittest
from pathlib import Path

import sockscope
from sockscope import _native

FOLDER = Path(sockscope.__file__).parent


class Package(unittest.TestCase):
    def test_no_library_is_required_or_imported(self):
        required = importlib.metadata.requires("sockscope") or []
        self.assertTrue(all("extra ==" in line for line in required), required)
        libraries = ["pyarrow", "polars", "pandas", "duckdb", "numpy"]
        code = f"import sys, sockscope; print([name for name in {libraries} if name in sys.modules])"
        run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        self.assertEqual(run.stdout, "[]\n")

    def test_one_wheel_serves_python_3_10_and_later(self):
        wheel = importlib.metadata.distribution("sockscope").read_text("WHEEL")
        self.assertIn("Tag: cp310-abi3-", wheel)
        metadata = importlib.metadata.metadata("sockscope")
        self.assertEqual(metadata["Requires-Python"], ">=3.10")
        self.assertEqual(metadata["Version"], sockscope.__version__)

    def test_licences_and_types_are_in_the_wheel(self):
        names = {Path(str(file)).name for file in importlib.metadata.files("sockscope")}
        expected = {"LICENSE-MIT", "LICENSE-APACHE", "py.typed", "_native.pyi", "lab.py"}
        self.assertEqual(expected - names, set())
        licence = importlib.metadata.metadata("sockscope")["License-Expression"]
        self.assertEqual(licence, "MIT OR Apache-2.0")

    def test_the_stub_has_the_names_and_parameters_of_the_module(self):
        stub = ast.parse((FOLDER / "_native.pyi").read_text(encoding="utf-8"))
        described = {}
        for item in stub.body:
            if isinstance(item, ast.ClassDef) and not item.name.startswith("_"):
                methods = (it for it in item.body if isinstance(it, ast.FunctionDef))
                described[item.name] = {method.name: method for method in methods}
            elif isinstance(item, ast.FunctionDef):
                described[item.name] = item
        public = {name for name in vars(_native) if not name.startswith("_")}
        self.assertEqual(set(described), public)
        for name, item in described.items():
            found = getattr(_native, name)
            if isinstance(item, ast.FunctionDef):
                self.assertEqual(parameters_of(item), parameters(found), name)
                continue
            own = {it for it in vars(found) if not it.startswith("__") or it.startswith("__arrow")}
            self.assertEqual(set(item), own, name)
            for method, of_stub in item.items():
                if not of_stub.decorator_list:
                    found_parameters = parameters(getattr(found, method))
                    self.assertEqual(parameters_of(of_stub), found_parameters, f"{name}.{method}")

    def test_everything_public_is_documented(self):
        for name in sockscope.__all__:
            if name != "__version__":
                self.assertTrue(getattr(sockscope, name).__doc__, name)
        for kind in (sockscope.Analysis, sockscope.Bundle, sockscope.Table, sockscope.Figure, sockscope.lab.Run):
            for name, member in vars(kind).items():
                if not name.startswith("_"):
                    self.assertTrue(member.__doc__, f"{kind.__name__}.{name}")


def parameters_of(function):
    """Names and defaults of a function in a stub, with a star before those that need their names."""
    given = function.args
    defaults = [None] * (len(given.args) - len(given.defaults)) + given.defaults
    values = [(one.arg, default) for one, default in zip(given.args, defaults)]
    values += [("*" + one.arg, default) for one, default in zip(given.kwonlyargs, given.kw_defaults)]
    return [(name, ast.literal_eval(value) if value else "needed") for name, value in values]


def parameters(function):
    found = []
    for parameter in inspect.signature(function).parameters.values():
        star = "*" if parameter.kind is inspect.Parameter.KEYWORD_ONLY else ""
        is_needed = parameter.default is inspect.Parameter.empty
        found.append((star + parameter.name, "needed" if is_needed else parameter.default))
    return found


if __name__ == "__main__":
    unittest.main()
