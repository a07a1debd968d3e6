"""Runs what documents show: the examples of a page, and the cells of a notebook.

A page has examples in blocks of Python with prompts. All blocks of a page share their names, in the order of the page.
With SOCKSCOPE_UPDATE=1 the results that were found are written into the document.
"""

import ast
import contextlib
import doctest
import io
import json
import os
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
IS_UPDATE = os.environ.get("SOCKSCOPE_UPDATE") == "1"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def of_page(path):
    """The results of all examples of a page that differ: (example, expected, found)."""
    page = Path(path).read_text(encoding="utf-8")
    names, differences = {"__name__": "__main__"}, []

    def again(block):
        return "```python\n" + run_block(block.group(1), names, differences) + "```"

    renewed = BLOCK.sub(again, page)
    if IS_UPDATE and renewed != page:
        Path(path).write_text(renewed, encoding="utf-8")
        return []
    return differences


def run_block(block, names, differences):
    """The block with the results that were found."""
    checker, parts = doctest.OutputChecker(), []
    for part in doctest.DocTestParser().parse(block):
        if not isinstance(part, doctest.Example):
            parts.append(part)
            continue
        found = run_example(part.source, names)
        is_same = checker.check_output(part.want, found, doctest.ELLIPSIS)
        if not is_same:
            differences.append((part.source, part.want, found))
        first, *rest = part.source.splitlines()
        lines = [f">>> {first}", *(f"... {line}".rstrip() for line in rest)]
        # A result that is written with dots in it stays.
        parts.append("\n".join(lines) + "\n" + (part.want if is_same else found))
    return "".join(parts)


def run_example(source, names):
    """The output of one example, as the prompt shows it; of an exception its last line."""
    out = io.StringIO()
    try:
        with contextlib.redirect_stdout(out):
            exec(compile(source, "<example>", "single"), names)
    except Exception as error:
        kind = type(error)
        module = "" if kind.__module__ == "builtins" else f"{kind.__module__}."
        out.write(f"Traceback (most recent call last):\n  ...\n{module}{kind.__qualname__}: {error}\n")
    return out.getvalue()


def of_notebook(path):
    """The cells of a notebook whose outputs differ: (source, expected, found)."""
    notebook = json.loads(Path(path).read_text(encoding="utf-8"))
    names, differences, count = {"__name__": "__main__"}, [], 0
    for cell in notebook["cells"]:
        if cell["cell_type"] != "code":
            continue
        count += 1
        source = "".join(cell["source"])
        outputs = run_cell(source, names, count)
        if outputs != cell["outputs"]:
            differences.append((source, cell["outputs"], outputs))
        cell["outputs"], cell["execution_count"] = outputs, count
    if IS_UPDATE:
        text = json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"
        Path(path).write_text(text, encoding="utf-8")
        return []
    return differences


def run_cell(source, names, count):
    """The outputs of a cell in the form of a notebook's file (nbformat 4): what it prints, and its last value."""
    body = ast.parse(source).body
    last = body.pop() if body and isinstance(body[-1], ast.Expr) else None
    out, value = io.StringIO(), None
    with contextlib.redirect_stdout(out):
        exec(compile(ast.Module(body, []), "<cell>", "exec"), names)
        if last is not None:
            value = eval(compile(ast.Expression(last.value), "<cell>", "eval"), names)
    outputs = []
    if out.getvalue():
        outputs.append({"name": "stdout", "output_type": "stream", "text": lines(out.getvalue())})
    if value is not None:
        data = {"text/plain": lines(repr(value))}
        for kind, method in (("image/svg+xml", "_repr_svg_"), ("text/html", "_repr_html_")):
            form = getattr(value, method, None)
            text = form() if form else None
            if text is not None:
                data[kind] = lines(text)
        outputs.append(
            {"data": data, "execution_count": count, "metadata": {}, "output_type": "execute_result"}
        )
    return outputs


def lines(text):
    """Text as a notebook's file has it: a list of lines with their ends."""
    return text.splitlines(keepends=True)


if __name__ == "__main__":
    os.chdir(ROOT)
    for name in sys.argv[1:]:
        run = of_notebook if name.endswith(".ipynb") else of_page
        for source, expected, found in run(name):
            print(f"{name}:\n{source}\nexpected: {expected}\nfound: {found}")
