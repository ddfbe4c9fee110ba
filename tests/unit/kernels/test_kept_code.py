"""Machine code that was kept in files: what a fresh process imports to load it."""

import subprocess
import sys
from pathlib import Path

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


def said(folder: Path, script: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", script], cwd=folder, check=True, capture_output=True, text=True
    ).stdout.strip()


def test_kept_code_is_loaded_without_what_compiles_it(tmp_path: Path) -> None:
    (tmp_path / "loops.py").write_text(LOOPS)
    assert said(tmp_path, CALL) == "0 True True"
    assert said(tmp_path, CALL + OTHERS) == "1 False False"
