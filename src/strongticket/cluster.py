"""A Dask cluster to run work on, named as dask://HOST:PORT."""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


def check_cluster(cluster: str | None) -> None:
    """Refuse a wrong address before any work.

    >>> check_cluster("dask://localhost:8786")
    """
    if cluster is not None and not re.fullmatch(r"dask://[^/:]+:\d+", cluster):
        raise ValueError(f"a cluster is given as dask://HOST:PORT, got {cluster!r}")


@contextmanager
def connected(cluster: str) -> Iterator[None]:
    """While the context lasts, joblib's work runs on the workers of ``cluster``."""
    try:
        from distributed import Client
    except ImportError:
        raise ImportError("a Dask cluster needs the package 'distributed': pip install 'strongticket[dask]'") from None
    import joblib

    address = cluster.removeprefix("dask://")
    with Client(f"tcp://{address}", timeout="10s") as client, joblib.parallel_config(backend="dask", client=client):
        yield
