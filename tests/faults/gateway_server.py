"""A gateway in a process of its own: python gateway_server.py JSON."""

import json
import sys
from pathlib import Path

from dptext.service.app import create_app
from dptext.service.server import server
from dptext.service.settings import Settings


def main(given: dict) -> None:
    """Serve until it is killed."""
    paths = {name: Path(given.pop(name)) for name in ("models", "spool", "key_file")}
    port = given.pop("port")
    server(create_app(Settings(**paths, **given)), "127.0.0.1", port).run()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
