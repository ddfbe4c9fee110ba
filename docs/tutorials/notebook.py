"""Runs the cells of `first-look.ipynb`, and with `--write` stores what they show.

python docs/tutorials/notebook.py --write
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import sys
from pathlib import Path
from typing import Any

NOTEBOOK = Path(__file__).with_name("first-look.ipynb")


def run(source: str, names: dict[str, Any]) -> list[dict[str, Any]]:
    """The outputs of a cell: what it prints, then its last expression as a notebook shows it."""
    *statements, last = ast.parse(source).body
    printed = io.StringIO()
    value = None
    with contextlib.redirect_stdout(printed):
        if isinstance(last, ast.Expr):
            exec(compile(ast.Module(statements, []), "cell", "exec"), names)  # noqa: S102
            value = eval(compile(ast.Expression(last.value), "cell", "eval"), names)  # noqa: S307
        else:
            exec(compile(source, "cell", "exec"), names)  # noqa: S102
    outputs: list[dict[str, Any]] = []
    if printed.getvalue():
        lines = printed.getvalue().splitlines(keepends=True)
        outputs.append({"output_type": "stream", "name": "stdout", "text": lines})
    if value is not None:
        shown = {"text/plain": [repr(value)]}
        if hasattr(value, "_repr_html_"):
            shown["text/html"] = [value._repr_html_()]
        outputs.append({"output_type": "execute_result", "execution_count": None, "data": shown, "metadata": {}})
    return outputs


def executed(notebook: dict[str, Any]) -> dict[str, Any]:
    """The notebook with the outputs of its cells."""
    names: dict[str, Any] = {}
    cells = [
        {**cell, "outputs": run("".join(cell["source"]), names)} if cell["cell_type"] == "code" else cell
        for cell in notebook["cells"]
    ]
    return {**notebook, "cells": cells}


if __name__ == "__main__":
    found = executed(json.loads(NOTEBOOK.read_text("utf-8")))
    if "--write" in sys.argv:
        NOTEBOOK.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", "utf-8")
