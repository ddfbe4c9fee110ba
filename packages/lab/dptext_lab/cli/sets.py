"""The two sets of texts that `audit divergence` and `audit trait` are about."""

from pathlib import Path
from typing import Annotated

from dptext.cli import options

FirstSet = Annotated[Path, options.file_argument(metavar="A", help="Texts of one set, such as a sensitive one.")]
SecondSet = Annotated[Path, options.file_argument(metavar="B", help="Texts of the other, such as a safe one.")]
