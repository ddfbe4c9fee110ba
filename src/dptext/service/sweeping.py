"""What a gateway forgets and deletes: what has expired, ended badly, or is no file of a job that lies here."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

import sqlalchemy as sa

from dptext.service.answers import Answers
from dptext.service.jobs import Jobs
from dptext.service.store import JOBS, KEPT

_ROWS: Final = 500  # looked for at once


class Sweeper:
    """Deletes for good, and so goes by the earliest time that it may be."""

    def __init__(self, jobs: Jobs, answers: Answers) -> None:
        self._jobs, self._answers = jobs, answers
        self._settings, self._store = jobs.settings, jobs.store

    def sweep(self) -> None:
        """Forget what has expired, and delete files of jobs that ended badly or are elsewhere, and old uploads.

        Problem: the spool is another folder than this gateway began with, whose files are somebody else's.
        """
        self._answers.sweep()
        self._jobs.require_spool()
        self._jobs.expire()
        # Seen before the rows are read: what no row knows may be on its way to one, unless nothing came for long.
        folders = [folder for folder in self._settings.spool.iterdir() if folder.is_dir()]
        old = {folder for folder in folders if self._quiet(folder)}
        for first in range(0, len(folders), _ROWS):
            some = folders[first : first + _ROWS]
            names = [folder.name.split("-")[1] for folder in some if folder.name.startswith("job-")]
            rows = self._store.rows(sa.select(JOBS).where(JOBS.c.id.in_(names)))
            wanted = {self._jobs.folder(row): row.state in KEPT and self._jobs.mine(row) for row in rows}
            for folder in some:
                if wanted.get(folder, folder not in old):
                    continue
                if folder not in wanted and not (self._quiet(folder) and self._unknown(folder)):
                    continue  # it was taken since
                shutil.rmtree(folder, ignore_errors=True)

    def _quiet(self, folder: Path) -> bool:
        """Whether nothing was written into a folder for long."""
        # A slow upload may lie in a buffer for as long as it may take.
        most = self._settings.seconds if folder.name.startswith("job-") else self._settings.upload_seconds
        return _touched(folder) < self._jobs.clock.earliest() - 2 * most

    def _unknown(self, folder: Path) -> bool:
        """Whether no row has this folder."""
        row = self._jobs.row(folder.name.split("-")[1])
        return row is None or self._jobs.folder(row) != folder


def _touched(folder: Path) -> float:
    """When something was last written in a folder; 0 where it is gone."""
    try:
        return max(path.stat().st_mtime for path in (folder, *folder.iterdir()))
    except OSError:
        return 0.0
