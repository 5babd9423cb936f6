"""Trials of figures 7 and 8: tickets searched in language models, and dense training beside them."""

from __future__ import annotations

import io
import tempfile
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from strongticket.experiments.trial import Trial

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from strongticket.experiments.trial import Result


@dataclass(frozen=True)
class SearchTrial(Trial):
    """One run of a search, or with ``mode`` "dense" ordinary training of the same model on the same data.

    ``model``, ``layers``, ``width`` and ``heads`` name the model, ``preset`` and ``steps`` the length of the run;
    0 stands for what the model or the preset says.
    """

    kind: ClassVar[str] = "search"
    mode: str
    model: str
    layers: int
    width: int
    heads: int
    corpus: str
    preset: str
    recipe: str
    steps: int
    density: float
    qk_scale: float
    seed: int

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seed of the model and of the order of the data."""
        return (self.seed,)

    def run(self, needs: Mapping[str, Result]) -> Result:
        """The held-out loss and how many parameters are not zero."""
        return search_trial(asdict(self))


def search_trial(config: dict[str, Any]) -> Result:
    """Run what the configuration of a ``SearchTrial`` says, in a folder that is removed afterwards."""
    from strongticket.search.run import load_material, random_model, run_search, train_dense
    from strongticket.search.settings import SearchSettings

    named = {key: value for key, value in config.items() if key != "mode"}
    settings = SearchSettings.from_dict({key: value for key, value in named.items() if value != 0 or key == "seed"})
    with tempfile.TemporaryDirectory(prefix="strongticket-") as folder, _silence():
        if config["mode"] == "dense":
            resolved = settings.resolved()
            resolved.check()
            material = load_material(resolved)
            model, _ = random_model(resolved, material.tokenizer)
            count = sum(parameter.numel() for parameter in model.parameters())
            return {
                "loss": train_dense(resolved, Path(folder) / "run", material),
                "nonzero": count,
                "parameters": count,
            }
        numbers = run_search(settings, Path(folder) / "run")
    roles = {role: entry["weights"] for role, entry in numbers["roles"].items()}
    masked = roles.pop("masked")
    return {
        "loss": numbers["loss"],
        "loss_unpruned": numbers["loss_unpruned"],
        "nonzero": round(masked * numbers["density"]) + sum(roles.values()),
        "parameters": masked + sum(roles.values()),
        "density": numbers["density"],
        "corpus_digest": numbers["corpus_digest"],
    }


@contextmanager
def _silence() -> Iterator[None]:
    """Keep the trainer's own progress bars off the terminal, where the runner shows its own."""
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        yield
