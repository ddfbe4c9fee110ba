"""A gateway in a process of its own."""

import os
import socket
from pathlib import Path
from typing import Any

from dptext_gateway.app import create_app
from dptext_gateway.server import server
from dptext_gateway.settings import Settings


def serve(given: dict[str, Any]) -> None:
    """Serve in silence until it is killed."""
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)
    paths = {name: Path(given.pop(name)) for name in ("models", "spool", "key_file")}
    taken = socket.create_server(("127.0.0.1", given.pop("port")))
    server(create_app(Settings(**paths, **given))).run(sockets=[taken])
