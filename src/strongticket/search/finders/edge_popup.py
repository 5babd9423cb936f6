"""Edge-popup: keep the weights with the largest learned scores."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.autograd.graph import increment_version

from strongticket.search.finders.base import Finder, adamw_numbers, adamw_step
from strongticket.search.finders.selecting import Group, update_and_select
from strongticket.search.finders.selecting import Tensor as Flat

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor, nn

    from strongticket.source import Source

SELECTIONS = ("layer", "global")


class EdgePopup(Finder):
    """Edge-popup as an optimizer (§4.3, §B.2; Ramanujan et al. 2020), exact at every step and without sorting.

    With the gradient g of the effective weight w ⊙ m, the score gradient is g · w · sign(s), because the
    straight-through estimate treats m as |s|. AdamW moves the scores; then m keeps the n - ⌊(1 - density) n⌋
    largest |s|, of each tensor (``selection="layer"``, the paper) or of all together (``"global"``, where |s|
    is divided by its tensor's initial mean so that tensors compare). ``threads`` defaults to torch's.

    >>> from strongticket.search import randomize
    >>> model = torch.nn.Linear(10, 10)
    >>> optimizer = EdgePopup(model, randomize(model, seed=0), density=0.3, lr=0.1)
    >>> model(torch.ones(10)).sum().backward()
    >>> optimizer.step()
    >>> int((model.weight != 0).sum())
    30
    """

    name = "edge-popup"

    def __init__(
        self,
        model: nn.Module,
        sources: Mapping[str, Source],
        *,
        selection: str = "layer",
        threads: int | None = None,
        **options: Any,
    ) -> None:
        if selection not in SELECTIONS:
            raise ValueError(f"selection must be one of {', '.join(SELECTIONS)}, got {selection!r}")
        self.selection = selection
        self.threads = threads
        super().__init__(model, sources, **options)

    def _start(self, score: Tensor) -> dict[str, Any]:
        scale = 1.0 / float(score.abs().double().mean()) if self.selection == "global" else 1.0
        return super()._start(score) | {"scale": torch.tensor(scale, dtype=score.dtype)}

    def _update(self, group: dict[str, Any]) -> None:
        self._select(group, learn=True)

    def _apply(self) -> None:
        self._select(self.param_groups[0], learn=False)

    def _select(self, group: dict[str, Any], learn: bool) -> None:
        parameters = group["params"]
        if all(_is_flat(parameter) for parameter in parameters):
            flats = [self._flat(name, parameter, group, learn) for name, parameter in self.masked()]
            sets = [flats] if self.selection == "global" else [[flat] for flat in flats]
            groups = [Group(some, kept_count(sum(f.score.size for f in some), group["density"])) for some in sets]
            update_and_select(groups, self.threads or torch.get_num_threads())
            increment_version(parameters)
            return
        for parameter in parameters:
            if learn and parameter.grad is not None:
                state = self.state[parameter]
                product = parameter.grad * self.weights[self._name_of(parameter)]
                adamw_step(state["score"], product * state["score"].sign(), state, group)
        names = [self.names] if self.selection == "global" else [[name] for name in self.names]
        by_name = dict(self.masked())
        for some in names:
            _select_with_torch([(by_name[n], self.state[by_name[n]], self.weights[n]) for n in some], group["density"])

    def _name_of(self, parameter: nn.Parameter) -> str:
        return next(name for name, other in self.masked() if other is parameter)

    def _flat(self, name: str, parameter: nn.Parameter, group: dict[str, Any], learn: bool) -> Flat:
        state = self.state[parameter]
        flat = Flat(
            state["score"].view(-1).numpy(),
            self.weights[name].view(-1).numpy(),
            parameter.detach().view(-1).numpy(),
            float(state["scale"]),
        )
        if learn and parameter.grad is not None:
            if parameter.grad.is_sparse:
                raise ValueError(f"{name} has a sparse gradient; use an embedding with sparse=False")
            state["step"] += 1
            flat.moments = state["exp_avg"].view(-1).numpy(), state["exp_avg_sq"].view(-1).numpy()
            flat.gradient = parameter.grad.detach().to(parameter.dtype).reshape(-1).contiguous().numpy()
            flat.adamw = adamw_numbers(group, float(state["step"]))
        return flat


def kept_count(size: int, density: float) -> int:
    """How many of ``size`` weights are kept: all but the ⌊(1 - density) size⌋ least, as in the original.

    >>> kept_count(10, 0.3), kept_count(3, 0.01)
    (3, 1)
    """
    return size - int((1.0 - density) * size)


def _is_flat(parameter: nn.Parameter) -> bool:
    return (
        parameter.device.type == "cpu"
        and parameter.dtype in (torch.float32, torch.float64)
        and parameter.is_contiguous()
    )


def _select_with_torch(tensors: list[tuple[Any, dict[str, Any], Tensor]], density: float) -> None:
    """The same selection by torch's own operations, for other devices and types."""
    keys = torch.cat([(state["score"].abs() * float(state["scale"])).reshape(-1) for _, state, _ in tensors])
    keep = kept_count(keys.numel(), density)
    threshold = keys.kthvalue(keys.numel() - keep + 1).values
    mask = keys > threshold
    equal = keys == threshold
    mask |= equal & (equal.cumsum(0) <= keep - mask.sum())
    for (parameter, _, weight), part in zip(tensors, mask.split([w.numel() for *_, w in tensors]), strict=True):
        parameter.copy_(torch.where(part.view_as(weight), weight, torch.zeros_like(weight)))
