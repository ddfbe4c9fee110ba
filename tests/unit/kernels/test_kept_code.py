"""Machine code that was kept in files: what a fresh process imports to load it, and when it is compiled anew."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import dptext

LOOPS = """
from dptext.kernels.compilation import compiled

@compiled
def doubled(x):
    for i in range(len(x)):
        x[i] = x[i] * 2
"""
CALL = """
import sys
import numpy as np
from loops import doubled

x = np.arange(3.0)
doubled(x)
assert x.tolist() == [0, 2, 4]
print(sum(doubled.stats.cache_hits.values()), "numba.np.linalg" in sys.modules, "scipy.linalg" in sys.modules)
"""
#: Somebody's own loops in the same process, which need what was not imported.
OTHERS = """
from numba import njit

assert njit(lambda a: a @ a)(np.eye(3)).tolist() == np.eye(3).tolist()
"""
#: A function of one file that calls one of another file.
ROUNDED = """
import numpy as np
from dptext.kernels import products

x, bits = np.ones((1, 2), np.float32), np.zeros((1, 2), np.uint16)
products.round_activated(x, 1, bits)
print((bits.astype(np.uint32) << 16).view(np.float32)[0, 0], sum(products.round_activated.stats.cache_hits.values()))
"""
DOUBLED = """

@compiled
def gelu_of_row(x: Array, i: int) -> None:
    x[i, 0] = 2.0
"""


def said(folder: Path, script: str) -> str:
    environment = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
    return subprocess.run(
        [sys.executable, "-c", script], cwd=folder, check=True, capture_output=True, text=True, env=environment
    ).stdout.strip()


def test_kept_code_is_loaded_without_what_compiles_it(tmp_path: Path) -> None:
    (tmp_path / "loops.py").write_text(LOOPS)
    assert said(tmp_path, CALL) == "0 True True"
    assert said(tmp_path, CALL + OTHERS) == "1 False False"


def test_kept_code_of_another_version_is_compiled_anew(tmp_path: Path) -> None:
    """A function is kept with what it calls: its own file does not tell that another file has changed."""
    shutil.copytree(Path(dptext.__file__).parent, tmp_path / "dptext", ignore=shutil.ignore_patterns("*.nb[ic]"))
    assert said(tmp_path, ROUNDED) == "0.83984375 0"
    assert said(tmp_path, ROUNDED) == "0.83984375 1"
    with (tmp_path / "dptext" / "kernels" / "activations.py").open("a") as file:
        file.write(DOUBLED)
    assert said(tmp_path, ROUNDED) == "2.0 0"
