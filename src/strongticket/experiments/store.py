"""Results in one SQLite file: a row per finished trial, a row per figure that was asked for."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from strongticket.experiments.trial import canonical_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from strongticket.experiments.trial import Result, Trial

FILE = "results.sqlite"
FORMAT = 1
_APPLICATION = 0x53544B54
_SCHEMA = """
CREATE TABLE trials (
    id TEXT PRIMARY KEY, experiment TEXT NOT NULL, config TEXT NOT NULL, result TEXT NOT NULL, seeds TEXT NOT NULL,
    versions TEXT NOT NULL, host TEXT NOT NULL, seconds REAL NOT NULL, finished_at TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE plans (
    figure TEXT PRIMARY KEY, preset TEXT NOT NULL, settings TEXT NOT NULL, trials TEXT NOT NULL, asked_at TEXT NOT NULL
) WITHOUT ROWID;
"""
_COLUMNS = "id, experiment, config, result, seeds, versions, host, seconds, finished_at"


@dataclass(frozen=True)
class Row:
    """A finished trial."""

    id: str
    experiment: str
    config: dict[str, Any]
    result: dict[str, Any]
    seeds: list[int]
    versions: dict[str, str]
    host: dict[str, Any]
    seconds: float
    finished_at: str


@dataclass(frozen=True)
class Plan:
    """A figure that was asked for, and the trials it is made of."""

    figure: str
    preset: str
    settings: dict[str, Any]
    trials: list[str]
    asked_at: str


@dataclass(frozen=True)
class Outcome:
    """What a trial gave, and where; ``error`` is a traceback and then there is no result."""

    result: Result | None
    seconds: float
    versions: dict[str, str]
    host: dict[str, Any]
    error: str | None = None


class Store:
    """The results of one folder. Only one process writes; each trial is one transaction, so a kill loses none."""

    def __init__(self, folder: Path, *, create: bool = False) -> None:
        """Open ``folder/results.sqlite``, or make it with ``create``; anything else there is refused."""
        self.folder, self.path = Path(folder), Path(folder) / FILE
        if not self.path.exists():
            if not create:
                raise ValueError(
                    f"{folder} holds no results: there is no {FILE} in it; `strongticket reproduce` makes one"
                )
            self.folder.mkdir(parents=True, exist_ok=True)
        self._connection = sqlite3.connect(self.path, timeout=30.0, isolation_level=None)
        try:
            self._check(create)
        except BaseException:
            self.close()
            raise

    def _check(self, create: bool) -> None:
        try:
            application, version = (self._value(f"PRAGMA {key}") for key in ("application_id", "user_version"))
            empty = not self._value("SELECT count(*) FROM sqlite_master")
        except sqlite3.DatabaseError as error:
            raise ValueError(f"{self.path} is not a store of results: {error}; choose another folder") from None
        if empty and create:
            with self._transaction():
                for statement in filter(None, map(str.strip, _SCHEMA.split(";"))):
                    self._connection.execute(statement)
                self._connection.execute(f"PRAGMA application_id = {_APPLICATION}")
                self._connection.execute(f"PRAGMA user_version = {FORMAT}")
        elif application != _APPLICATION:
            raise ValueError(f"{self.path} was not made by strongticket; choose another folder")
        elif version != FORMAT:
            raise ValueError(
                f"{self.path} has the format {version}, this version of strongticket reads {FORMAT}; "
                f"choose another folder or the version that made it"
            )

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def save(self, trial: Trial, outcome: Outcome) -> None:
        """Store a finished trial; one that is there already stays as it is."""
        values = (
            trial.id,
            trial.kind,
            canonical_json(trial.config()),
            canonical_json(outcome.result),
            canonical_json(trial.seeds),
            canonical_json(outcome.versions),
            canonical_json(outcome.host),
            outcome.seconds,
            _now(),
        )
        with self._transaction():
            self._connection.execute(f"INSERT OR IGNORE INTO trials ({_COLUMNS}) VALUES (?,?,?,?,?,?,?,?,?)", values)

    def ask(self, figure: str, preset: str, settings: dict[str, Any], trials: Sequence[Trial]) -> None:
        """Remember which trials a figure is made of, in place of what it was made of before."""
        values = (figure, preset, canonical_json(settings), canonical_json([t.id for t in trials]), _now())
        with self._transaction():
            self._connection.execute("INSERT OR REPLACE INTO plans VALUES (?,?,?,?,?)", values)

    def forget(self, trials: Iterable[Trial]) -> None:
        """Drop the results of the given trials, so that they run again."""
        with self._transaction():
            self._connection.executemany("DELETE FROM trials WHERE id = ?", [(trial.id,) for trial in trials])

    def finished(self) -> set[str]:
        """The ids of all finished trials."""
        return {row[0] for row in self._all("SELECT id FROM trials")}

    def rows(self, ids: Iterable[str] | None = None) -> list[Row]:
        """The finished trials, or those of them with the given ids in that order."""
        found = [_row(values) for values in self._all(f"SELECT {_COLUMNS} FROM trials ORDER BY experiment, id")]
        if ids is None:
            return found
        by_id = {row.id: row for row in found}
        return [by_id[key] for key in ids if key in by_id]

    def plans(self) -> list[Plan]:
        """The figures that were asked for."""
        found = self._all("SELECT figure, preset, settings, trials, asked_at FROM plans ORDER BY figure")
        return [Plan(f, p, json.loads(s), json.loads(t), at) for f, p, s, t, at in found]

    def _all(self, query: str) -> list[Any]:
        with closing(self._connection.execute(query)) as cursor:
            return cursor.fetchall()

    def _value(self, query: str) -> Any:
        return self._all(query)[0][0]

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._connection.execute("ROLLBACK")
            raise
        self._connection.execute("COMMIT")


def _row(values: tuple[Any, ...]) -> Row:
    key, experiment, config, result, seeds, versions, host, seconds, finished_at = values
    config, result, seeds, versions, host = (json.loads(text) for text in (config, result, seeds, versions, host))
    return Row(key, experiment, config, result, seeds, versions, host, seconds, finished_at)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
