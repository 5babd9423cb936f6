"""A bar for long constructions: subset sums done, their rate and the time left."""

from __future__ import annotations

from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    Progress = Callable[[int], Any] | Literal["bar"] | None


def counting(progress: Progress, total: int) -> AbstractContextManager[Callable[[int], Any] | None]:
    """What to call with the subset sums solved: ``progress`` itself, or a bar of ``total`` on standard error.

    >>> with counting(None, 10) as advance:
    ...     print(advance)
    None
    """
    return _bar(total) if progress == "bar" else nullcontext(progress)


@contextmanager
def _bar(total: int) -> Iterator[Callable[[int], None]]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    rate = TextColumn("{task.fields[rate]} per second")
    columns = (TextColumn("subset sums"), BarColumn(), MofNCompleteColumn(), rate, TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("", total=total, rate="–")

        def advance(solved: int) -> None:
            bar.advance(task, solved)
            speed = bar.tasks[0].speed
            if speed:
                bar.update(task, rate=f"{speed:,.0f}")

        yield advance
