"""The trials of a store as a flat table: CSV or Parquet."""

from __future__ import annotations

import csv
import json
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from strongticket.experiments.store import Row, Store

FORMATS = (".csv", ".parquet")


def matching(store: Store, figure: str | None, where: Sequence[str]) -> list[Row]:
    """The trials of a figure, or all, whose configuration (or experiment) has every ``KEY=VALUE``."""
    wanted = []
    for condition in where:
        key, sign, value = condition.partition("=")
        if not (key and sign):
            raise ValueError(f"a condition is written KEY=VALUE, got {condition!r}")
        wanted.append((key, value))
    ids = None
    if figure is not None:
        plans = {plan.figure: plan.trials for plan in store.plans()}
        if figure not in plans:
            raise ValueError(f"{figure!r} was not asked for in {store.folder}; it holds {', '.join(plans) or 'none'}")
        ids = plans[figure]
    rows = store.rows(ids)
    known = {key for row in rows for key in row.config} | {"experiment", "id"}
    for key, _ in wanted:
        if key not in known:
            raise ValueError(f"no trial has the setting {key!r}; choose from {', '.join(sorted(known))}")
    return [row for row in rows if all(str(_value(row, key)) == value for key, value in wanted)]


def flat(row: Row) -> dict[str, Any]:
    """One trial as one row: lists and dictionaries become JSON."""
    found: dict[str, Any] = {"id": row.id, "experiment": row.experiment}
    for prefix, values in (("", row.config), ("result.", row.result), ("version.", row.versions), ("host.", row.host)):
        found |= {f"{prefix}{key}": _scalar(value) for key, value in values.items() if key != "kind"}
    return found | {"seeds": json.dumps(row.seeds), "seconds": row.seconds, "finished_at": row.finished_at}


def write_table(rows: Sequence[Row], path: Path) -> None:
    """Write all rows; the ending of ``path`` chooses the format."""
    if path.suffix not in FORMATS:
        raise ValueError(f"a table is written to a file that ends in {' or '.join(FORMATS)}, got {path.name!r}")
    table = [flat(row) for row in rows]
    columns = list(dict.fromkeys(key for row in table for key in row))
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.partial")
    if path.suffix == ".csv":
        with partial.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, columns, lineterminator="\n")
            writer.writeheader()
            writer.writerows(table)
    else:
        try:
            import pyarrow
            from pyarrow import parquet
        except ImportError:
            raise ImportError("Parquet needs the package 'pyarrow': pip install 'strongticket[parquet]'") from None
        arrays = {column: [row.get(column) for row in table] for column in columns}
        parquet.write_table(pyarrow.table(arrays), partial)
    os.replace(partial, path)


def _value(row: Row, key: str) -> Any:
    return {"experiment": row.experiment, "id": row.id}.get(key, row.config.get(key))


def _scalar(value: Any) -> Any:
    return json.dumps(value, separators=(",", ":")) if isinstance(value, list | dict) else value
