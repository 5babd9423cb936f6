"""Small trials for the tests of the runner."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from strongticket.experiments.trial import Trial


@dataclass(frozen=True)
class Square(Trial):
    kind: ClassVar[str] = "square"
    uses_torch: ClassVar[bool] = False
    number: int
    wait: float = 0.0

    @property
    def seeds(self):
        return (self.number,)

    def run(self, needs):
        time.sleep(self.wait)
        if self.number < 0:
            raise ArithmeticError(f"no square of {self.number} today")
        return {"square": self.number**2}


@dataclass(frozen=True)
class SumOfTwo(Trial):
    kind: ClassVar[str] = "sum"
    uses_torch: ClassVar[bool] = False
    left: Square
    right: Square

    @property
    def seeds(self):
        return ()

    def run(self, needs):
        return {"sum": needs[self.left.id]["square"] + needs[self.right.id]["square"]}


@dataclass(frozen=True)
class KillsItsWorker(Trial):
    """Ends its process without a word, as the kernel does when memory runs out, unless ``marker`` exists."""

    kind: ClassVar[str] = "kills its worker"
    uses_torch: ClassVar[bool] = False
    marker: str
    always: bool = False

    @property
    def seeds(self):
        return ()

    def run(self, needs):
        marker = Path(self.marker)
        if self.always or not marker.exists():
            if not self.always:
                marker.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return {"lived": True}


def main():
    """Run many trials into a folder: python sample_trials.py FOLDER COUNT WAIT [CLUSTER]."""
    import sys

    import sample_trials

    from strongticket.experiments.runner import run_trials
    from strongticket.experiments.store import Store

    folder, count, wait, *cluster = sys.argv[1:]
    trials = [sample_trials.Square(number, float(wait)) for number in range(int(count))]
    with Store(Path(folder), create=True) as store:
        run_trials(trials, store, jobs=2, cluster=cluster[0] if cluster else None)


if __name__ == "__main__":
    main()
