"""Deletion of data that has expired, of files of jobs that ended badly, and of files of no job here."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

import sqlalchemy as sa

from dptext_gateway.answers import StoredAnswers
from dptext_gateway.jobs import Jobs
from dptext_gateway.store import JOBS, KEPT

_ROWS: Final = 500  # rows of one query


class Sweeper:
    """Deletes data for good, and so goes by the earliest possible time."""

    def __init__(self, jobs: Jobs, answers: StoredAnswers) -> None:
        self._jobs, self._answers = jobs, answers
        self._settings, self._store = jobs.settings, jobs.store

    def sweep(self) -> None:
        """Forget expired answers and jobs, and delete old uploads and files of jobs that ended badly or are elsewhere.

        Problem: the spool is not the folder that this gateway began with, so its files are somebody else's.
        """
        self._answers.sweep()
        self._jobs.require_spool()
        self._jobs.expire()
        # Looked at before rows are read: a folder without a row may be about to get one, unless it is quiet for long.
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
                    continue  # a job has taken it since
                shutil.rmtree(folder, ignore_errors=True)

    def _quiet(self, folder: Path) -> bool:
        """Whether nothing was written into a folder for a long time."""
        # A slow upload may lie in a buffer for as long as it may take.
        most = self._settings.seconds if folder.name.startswith("job-") else self._settings.upload_seconds
        return _touched(folder) < self._jobs.clock.earliest() - 2 * most

    def _unknown(self, folder: Path) -> bool:
        """Whether no row has this folder."""
        row = self._jobs.row(folder.name.split("-")[1])
        return row is None or self._jobs.folder(row) != folder


def _touched(folder: Path) -> float:
    """Return the time of the last write in a folder; 0 if the folder is gone."""
    try:
        return max(path.stat().st_mtime for path in (folder, *folder.iterdir()))
    except OSError:
        return 0.0
