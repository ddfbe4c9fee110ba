"""A gateway in a process of its own: python gateway_server.py JSON."""

import json
import sys
from pathlib import Path

import uvicorn

from dptext.service.app import create_app
from dptext.service.settings import Settings


def main(given: dict) -> None:
    """Serve until it is killed."""
    paths = {name: Path(given.pop(name)) for name in ("models", "spool", "key_file")}
    port = given.pop("port")
    uvicorn.run(create_app(Settings(**paths, **given)), port=port, log_level="error", access_log=False)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
