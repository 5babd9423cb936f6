"""What is left of each layer of a model: errors of entries, of norms, and of outputs on sample inputs."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.table import Table

from strongticket.construct.models.compare import evaluating
from strongticket.construct.models.plan import matrices, places
from strongticket.construct.models.sensitivity import last_hidden_state
from strongticket.construct.report import Printable
from strongticket.construct.targets.models import read_model
from strongticket.parallel import resolve_threads
from strongticket.ticket.pairs import units_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray
    from torch import Tensor

    from strongticket.construct.targets.models import ModelTarget
    from strongticket.ticket import Ticket


@dataclass(frozen=True)
class LayerErrors:
    """One attention or linear layer: its ``units`` together, and the largest error of an entry and spectral error.

    ``output_error`` is ‖got - wanted‖ / ‖wanted‖ of the layer's output for the inputs that the original model gives it.
    """

    layer: str
    pairs: int
    units: int
    max_error: float
    spectral_error: float
    output_error: float | None


@dataclass(frozen=True)
class ModelReport(Printable):
    """All layers, and ``output_error``: ‖got - wanted‖ / ‖wanted‖ of the last hidden state, both models run whole."""

    layers: tuple[LayerErrors, ...]
    output_error: float | None

    def __rich__(self) -> Table:
        """One row per layer."""
        table = Table(title="Ticket against model, layer by layer")
        table.add_column("layer", overflow="fold")
        for column in ("units", "entry", "spectral", "output"):
            table.add_column(column, justify="right", no_wrap=True)
        for layer in self.layers:
            table.add_row(
                layer.layer,
                f"{layer.units:,}",
                f"{layer.max_error:.1e}",
                f"{layer.spectral_error:.1e}",
                _shown(layer.output_error),
            )
        table.caption = "largest error of an entry, spectral error, relative error of the layer's output"
        if self.output_error is not None:
            table.caption += f"\nrelative error of the last hidden state: {self.output_error:.2e}"
        return table


def model_report(hf_model: Any, ticket: Ticket, samples: Mapping[str, Any] | None = None) -> ModelReport:
    """Compare a ticket with the model that it was made of, layer by layer, from the real masked weights.

    With ``samples``, tokenised inputs as the model takes them, every layer of the ticket also runs on what the layer of
    the original gets, and the whole ticket on the samples.
    """
    if ticket.architecture.get("kind") != "model" or ticket.architecture["class"] != type(hf_model).__name__:
        raise ValueError(
            f"the ticket must be one of a {type(hf_model).__name__} from construct.model, "
            f"got {ticket.architecture.get('class', ticket.architecture.get('kind'))!r}"
        )
    target = read_model(hf_model, ticket.architecture["layers"])
    errors = _errors(target, ticket)
    outputs, whole = ({}, None) if samples is None else _output_errors(target, ticket, samples)
    layers = []
    for layer in dict.fromkeys(place.layer for place in places(target)):
        mine = [place for place in places(target) if place.layer == layer]
        layers.append(
            LayerErrors(
                layer,
                len(mine),
                sum(ticket.entries[place.entries[0]].source.shape[0] for place in mine),
                max(errors[place.name][0] for place in mine),
                max(errors[place.name][1] for place in mine),
                outputs.get(layer),
            )
        )
    return ModelReport(tuple(layers), whole)


def _errors(target: ModelTarget, ticket: Ticket) -> dict[str, tuple[float, float]]:
    """The largest and the spectral error of every pair."""
    found = {place.name: place for place in ticket.pairs}

    def measure(name: str, matrix: NDArray[np.float64]) -> tuple[float, float]:
        error = matrix - units_of(found[name], ticket.entries).product()
        return float(np.abs(error).max()), _spectral_norm(error)

    errors = {}
    with ThreadPoolExecutor(resolve_threads(None)) as pool:
        waiting = []
        for place, matrix in matrices(target):
            waiting.append((place.name, pool.submit(measure, place.name, matrix)))
            if len(waiting) > 2 * target.heads:
                name, future = waiting.pop(0)
                errors[name] = future.result()
        errors |= {name: future.result() for name, future in waiting}
    return errors


def _output_errors(
    target: ModelTarget, ticket: Ticket, samples: Mapping[str, Any]
) -> tuple[dict[str, float], float | None]:
    import torch

    pruned = ticket.module("merged")
    found: dict[str, float] = {}

    def compare(path: str) -> Any:
        def hook(_: Any, inputs: Any, options: dict[str, Any], output: Any) -> None:
            got = pruned.get_submodule(path)(*inputs, **options)
            found[path] = _relative(_first(got), _first(output))

        return hook

    hooks = [
        target.model.get_submodule(path).register_forward_hook(compare(path), with_kwargs=True)
        for path in (*target.attentions, *target.linears)
    ]
    try:
        with torch.inference_mode(), evaluating(target.model):
            wanted = last_hidden_state(target.model, samples)
    finally:
        for handle in hooks:
            handle.remove()
    with torch.inference_mode():
        return found, _relative(last_hidden_state(pruned, samples), wanted)


def _first(output: Any) -> Tensor:
    return output[0] if isinstance(output, tuple) else output


def _relative(got: Tensor, wanted: Tensor) -> float:
    return float((got - wanted).norm() / wanted.norm())


def _spectral_norm(matrix: NDArray[np.float64]) -> float:
    """‖A‖₂ from the largest eigenvalue of the smaller of A Aᵀ and Aᵀ A."""
    square = matrix @ matrix.T if matrix.shape[0] <= matrix.shape[1] else matrix.T @ matrix
    return math.sqrt(max(0.0, float(np.linalg.eigvalsh(square)[-1])))


def _shown(error: float | None) -> str:
    return "–" if error is None else f"{error:.1e}"
