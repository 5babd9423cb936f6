"""Say so when a kernel is about to be compiled; a silent half minute looks like a hang."""

from __future__ import annotations

import sys
from pathlib import Path
from threading import Lock
from typing import Any

_lock = Lock()
_announced: set[Any] = set()


def is_cached(kernel: Any) -> bool:
    """Whether numba has this kernel, at least as new as its source file, in its cache on disk."""
    source = Path(kernel.py_func.__code__.co_filename)
    name = f"{source.stem}.{kernel.py_func.__qualname__}-*.nbi"
    newest = max((p.stat().st_mtime for p in Path(kernel.stats.cache_path).glob(name)), default=0.0)
    return newest >= source.stat().st_mtime


def announce(kernel: Any) -> None:
    """Print one line to standard error if calling ``kernel`` will compile it first; once, from any thread."""
    if kernel.signatures:
        return
    with _lock:
        if kernel in _announced or is_cached(kernel):
            return
        _announced.add(kernel)
    print(
        f"strongticket: compiling {kernel.py_func.__name__} (once; later runs load it from the cache)",
        file=sys.stderr,
        flush=True,
    )
