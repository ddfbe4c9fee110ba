"""`-` for stdin and stdout: files in their place, which only their owner can read and which go with the run."""

import contextlib
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from dptext.errors import ConfigError
from dptext.runs.certificate import certificate_path
from dptext.runs.plan import Plan
from dptext.text.files import Target, create_private, refuse_inputs, writing

STREAM: Final = Path("-")
_SUFFIX: Final = certificate_path(Path("x")).name[1:]  # what the name of a certificate ends in


@contextlib.contextmanager
def spooled(source: Path, target: Path, certificate: Path | None, plan: Plan) -> Iterator[tuple[Path, Path]]:
    """The files of a run, in the place of `STREAM`. After the block the certificate is written and then stdout, whole.

    The certificate goes here if the target is a stream. Its name says what file it speaks of.
    """
    if (target == STREAM) != (certificate is not None):
        raise ConfigError("Expected --certificate NAME.guarantee.json with OUT -, and only there: it goes to a file.")
    if target == STREAM and sys.__stdout__ is None:
        raise ConfigError("Expected an open stdout with OUT -, found a closed one: the release would be lost.")
    if source == STREAM and plan.input_format is None:
        raise ConfigError("Expected --format with IN -: stdin has no extension that tells it.")
    if certificate is not None:
        refuse_inputs(certificate, [source])
        Target(certificate, plan.force).check()
        if not certificate.name.endswith(_SUFFIX) or certificate.name == _SUFFIX:
            named = f"--certificate {str(certificate)!r}"
            raise ConfigError(f"Expected {named} to end in {_SUFFIX}, after the name that stdout is saved as.")
        if plan.resume:
            raise ConfigError("Expected no --resume with OUT -: of an unfinished run nothing is left.")
    with contextlib.ExitStack() as stack:
        if STREAM in (source, target):
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="dptext-")))  # of mode 0700
        if source == STREAM:
            source = folder / "stdin"
            with writing(source), create_private(source) as file:
                shutil.copyfileobj(sys.stdin.buffer, file)
        if certificate is not None:
            target = folder / certificate.name.removesuffix(_SUFFIX)
        yield source, target
        if certificate is not None and target.exists():
            Target(certificate, plan.force, private=False).write(certificate_path(target).read_bytes())
            sys.stdout.flush()
            try:
                with target.open("rb") as made, open(sys.stdout.fileno(), "wb", closefd=False) as out:
                    shutil.copyfileobj(made, out)
            except OSError as error:
                reason = error.strerror
            else:
                return
            raise ConfigError(
                f"stdout took no more ({reason}): what arrived is not whole. Throw it and {certificate} away, and "
                "run again; what was charged stays charged."
            )
