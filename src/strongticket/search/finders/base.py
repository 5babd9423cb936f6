"""What every finder shares: a torch optimizer whose parameters are the effective weights w ⊙ m."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
import torch
from torch.optim import Optimizer

from strongticket.search.layers import find_layers
from strongticket.search.regions import assemble, parse_region
from strongticket.source import Source, Uniform

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from torch import Tensor, nn

Role = Literal["masked", "frozen", "trained"]
SCORE_INITS = ("kaiming", "weight")


class Finder(Optimizer):
    """Learns which weights of a random model to keep; the model's parameter *is* the effective weight w ⊙ m.

    A subclass defines ``_start`` (the state of a masked parameter), ``_update`` (gradients to new scores) and
    ``_apply`` (scores to effective weights). The model is left as it is apart from its values and from
    ``requires_grad``, which is switched off for frozen parameters.

    Args:
        model: any torch module.
        sources: what ``randomize`` returned for it; they are regenerated, whatever the model holds.
        density: the fraction of weights to keep, in (0, 1].
        lr, betas, eps, weight_decay: AdamW on the scores.
        score_init: ``"kaiming"``, U[-1/√fan_in, 1/√fan_in] as in the original, or ``"weight"``, |w|.
        seed: of the initial scores.
        masked: patterns of parameter names to mask; by default every parameter with a source.
        trained: patterns of parameter names to train with ordinary AdamW; by default none. Whatever is neither
            masked nor trained is frozen: by default norms and biases.
    """

    name: ClassVar[str]

    def __init__(
        self,
        model: nn.Module,
        sources: Mapping[str, Source],
        *,
        density: float = 0.3,
        lr: float = 1e-2,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        score_init: str = "kaiming",
        seed: int = 0,
        masked: Iterable[str] | None = None,
        trained: Iterable[str] = (),
        **extra: Any,
    ) -> None:
        check_density(density)
        if score_init not in SCORE_INITS:
            raise ValueError(f"score_init must be one of {', '.join(SCORE_INITS)}, got {score_init!r}")
        if not (lr >= 0 and eps >= 0 and weight_decay >= 0 and all(0 <= beta < 1 for beta in betas)):
            raise ValueError(
                f"AdamW needs lr, eps, weight_decay >= 0 and betas in [0, 1), "
                f"got {lr=}, {eps=}, {weight_decay=}, {betas=}"
            )
        named = dict(model.named_parameters())
        self.sources = dict(sources)
        self.roles = find_roles(named, sources, masked, trained)
        self.names = [name for name, role in self.roles.items() if role == "masked"]
        if not self.names:
            raise ValueError("no parameter is masked: pass the sources that randomize returned for this model")
        self.weights: dict[str, Tensor] = {}
        groups: list[dict[str, Any]] = [{"params": [named[name] for name in self.names], "role": "masked"}]
        taught = [named[name] for name, role in self.roles.items() if role == "trained"]
        if taught:
            groups.append({"params": taught, "role": "trained"})
        for name, role in self.roles.items():
            named[name].requires_grad_(role != "frozen")
        super().__init__(
            groups, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "density": density, **extra}
        )
        fan_in = {layer.name: layer.fan_in for layer in find_layers(model)}
        with torch.no_grad():
            for name, parameter in self.masked():
                weight = torch.from_numpy(assemble(sources, name, tuple(parameter.shape)))
                self.weights[name] = weight.to(parameter)
                score = initial_scores(score_init, name, weight, fan_in.get(name, weight[0].numel()), seed)
                self.state[parameter] = self._start(score.to(parameter))
            for name in {parse_region(key)[0] for key in sources} & set(self.roles):
                if self.roles[name] == "frozen":
                    named[name].copy_(torch.from_numpy(assemble(sources, name, tuple(named[name].shape))))
            self._apply()

    def _start(self, score: Tensor) -> dict[str, Any]:
        zeros = torch.zeros_like(score, memory_format=torch.contiguous_format)
        return {"step": torch.tensor(0.0), "score": score.contiguous(), "exp_avg": zeros, "exp_avg_sq": zeros.clone()}

    def _update(self, group: dict[str, Any]) -> None:
        raise NotImplementedError

    def _apply(self) -> None:
        raise NotImplementedError

    def masked(self) -> list[tuple[str, nn.Parameter]]:
        """The masked parameters with their names."""
        return list(zip(self.names, self.param_groups[0]["params"], strict=True))

    def masks(self) -> dict[str, Tensor]:
        """The masks as booleans; no source holds a zero, so a weight is kept where the parameter is not 0."""
        return {name: parameter.detach() != 0 for name, parameter in self.masked()}

    def densities(self) -> dict[str, float]:
        """The fraction kept of every masked parameter and, under ``"all"``, in total."""
        counts = {name: (int(mask.sum()), mask.numel()) for name, mask in self.masks().items()}
        kept, total = (sum(numbers) for numbers in zip(*counts.values(), strict=True))
        return {name: some / all_ for name, (some, all_) in counts.items()} | {"all": kept / total}

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One step: gradients of the effective weights to scores, scores to masks, masks to effective weights."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        self._follow_devices()
        for group in self.param_groups:
            if group["role"] == "trained":
                _adamw(self, group)
        self._update(self.param_groups[0])
        return loss

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load scores and moments, and write the effective weights they give."""
        super().load_state_dict(state_dict)
        with torch.no_grad():
            self._follow_devices()
            self._apply()

    def _follow_devices(self) -> None:
        """Move weights and state to where the parameters are; a trainer may move the model after this was made."""
        for name, parameter in self.masked():
            if self.weights[name].device != parameter.device:
                self.weights[name] = self.weights[name].to(parameter.device)
                state = self.state[parameter]
                state.update({key: value.to(parameter.device) for key, value in state.items() if key != "step"})


def check_density(density: float) -> None:
    """Refuse a density outside (0, 1]."""
    if not 0 < density <= 1:
        raise ValueError(f"density is the fraction of weights kept and must lie in (0, 1], got {density}")


def find_roles(
    named: Mapping[str, Any], sources: Mapping[str, Source], masked: Iterable[str] | None, trained: Iterable[str]
) -> dict[str, Role]:
    """What happens to each parameter: trained if a pattern says so, else masked if it may be, else frozen."""
    drawn = {parse_region(key)[0] for key in sources}
    unknown = drawn - set(named)
    if unknown:
        raise ValueError(f"the model has no parameter {sorted(unknown)[0]!r}; draw the sources for this model")
    trained, masked = tuple(trained), None if masked is None else tuple(masked)
    for patterns, names, what in ((trained, named, "parameter"), (masked or (), drawn, "parameter with a source")):
        for pattern in patterns:
            if not any(fnmatchcase(name, pattern) for name in names):
                raise ValueError(f"the pattern {pattern!r} matches no {what}; they are {', '.join(sorted(names))}")
    roles: dict[str, Role] = {}
    for name in named:
        if any(fnmatchcase(name, pattern) for pattern in trained):
            roles[name] = "trained"
        elif name in drawn and (masked is None or any(fnmatchcase(name, pattern) for pattern in masked)):
            roles[name] = "masked"
        else:
            roles[name] = "frozen"
    return roles


def initial_scores(score_init: str, name: str, weight: Tensor, fan_in: int, seed: int) -> Tensor:
    """The scores a search starts from, as float32."""
    if score_init == "weight":
        return weight.abs()
    source = Source(seed, f"{name}/score", tuple(weight.shape), Uniform(1.0 / np.sqrt(fan_in)))
    return torch.from_numpy(source.weights())


def adamw_numbers(group: dict[str, Any], step: float) -> tuple[float, float, float, float, float, float]:
    """β₁, β₂, step size, √(1 - β₂ᵗ), ε and 1 - lr λ for step t, counted from 1."""
    beta1, beta2 = group["betas"]
    lr = float(group["lr"])
    step_size = lr / (1.0 - beta1**step)
    return beta1, beta2, step_size, (1.0 - beta2**step) ** 0.5, group["eps"], 1.0 - lr * group["weight_decay"]


def adamw_step(value: Tensor, gradient: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
    """Ordinary AdamW on one tensor in place."""
    state["step"] += 1
    beta1, beta2, step_size, root, eps, keep = adamw_numbers(group, float(state["step"]))
    state["exp_avg"].lerp_(gradient, 1.0 - beta1)
    state["exp_avg_sq"].mul_(beta2).addcmul_(gradient, gradient, value=1.0 - beta2)
    value.mul_(keep).addcdiv_(state["exp_avg"], (state["exp_avg_sq"].sqrt() / root).add_(eps), value=-step_size)


def _adamw(finder: Finder, group: dict[str, Any]) -> None:
    for parameter in group["params"]:
        if parameter.grad is None:
            continue
        if not finder.state[parameter]:
            zeros = torch.zeros_like(parameter)
            finder.state[parameter] = {"step": torch.tensor(0.0), "exp_avg": zeros, "exp_avg_sq": zeros.clone()}
        adamw_step(parameter, parameter.grad, finder.state[parameter], group)
