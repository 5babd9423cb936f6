"""Threads for kernels that release the interpreter lock."""

from __future__ import annotations

import os
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


def resolve_threads(threads: int | None) -> int:
    """The number of threads to use: ``threads``, or every core this process may run on.

    The environment variable ``NUMBA_NUM_THREADS`` lowers the default, so worker processes that a
    scheduler starts with it set share the cores instead of fighting for them.
    """
    if threads is None:
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        return max(1, min(cores, int(os.environ.get("NUMBA_NUM_THREADS", cores))))
    if threads < 1:
        raise ValueError(f"threads must be at least 1, got {threads}; leave it out to use every core")
    return threads


def run_chunks(
    work: Callable[[int, int], Any],
    total: int,
    chunk: int,
    threads: int,
    progress: Callable[[int], Any] | None = None,
) -> None:
    """Call ``work(start, stop)`` on consecutive pieces of ``range(total)``; report each finished length.

    The first exception, or Ctrl-C, cancels the pieces that have not started and is raised.
    """
    pieces: Iterable[tuple[int, int]] = [(s, min(s + chunk, total)) for s in range(0, total, chunk)]
    if threads == 1 or total <= chunk:
        for start, stop in pieces:
            work(start, stop)
            if progress is not None:
                progress(stop - start)
        return
    with ThreadPoolExecutor(threads) as pool:
        pending: dict[Future[Any], int] = {pool.submit(work, s, e): e - s for s, e in pieces}
        try:
            while pending:
                done, _ = wait(pending, return_when=FIRST_EXCEPTION if progress is None else "FIRST_COMPLETED")
                for future in done:
                    future.result()
                    length = pending.pop(future)
                    if progress is not None:
                        progress(length)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
