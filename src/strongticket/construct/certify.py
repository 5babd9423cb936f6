"""How far the hidden states of a ticket for a Hugging Face model can be from the model's, on given inputs.

A new family needs an entry in ``LAYOUTS``, next to those that ``strongticket.construct.targets.models`` names.
"""

from __future__ import annotations

import copy
from collections import defaultdict
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from strongticket.construct.targets.models import read_model
from strongticket.theory import BlockMatrices, LayerNorm, NormalisedBlock, lipschitz_constant, normalised_certificate
from strongticket.ticket.pairs import units_of
from strongticket.ticket.structures import TARGET

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray
    from torch import Tensor, nn

    from strongticket.construct.targets.models import ModelTarget
    from strongticket.theory import Certificate
    from strongticket.ticket import Ticket

    Matrix = NDArray[np.float64]
    Heads = tuple[Sequence[Matrix], Sequence[Matrix]]

INPUTS = ("input_ids", "attention_mask", "token_type_ids", "position_ids", "inputs_embeds")


@dataclass(frozen=True)
class Layout:
    """The LayerNorms of a family: two paths in a block, that of one after the blocks, and where they stand.

    ``settings`` are the names that the configuration gives to the activation and to eps.
    """

    norms: tuple[str, str]
    last: str | None
    pre_norm: bool
    settings: tuple[str, str]


LAYOUTS = {
    "bert": Layout(
        norms=("attention.output.LayerNorm", "output.LayerNorm"),
        last=None,
        pre_norm=False,
        settings=("hidden_act", "layer_norm_eps"),
    ),
    "gpt2": Layout(
        norms=("ln_1", "ln_2"),
        last="ln_f",
        pre_norm=True,
        settings=("activation_function", "layer_norm_epsilon"),
    ),
}


def certify(model: Any, ticket: Ticket, inputs: Mapping[str, Tensor]) -> Certificate:
    """A bound on ‖target - ticket‖ for the hidden state after each block, at every position of the inputs.

    Args:
        model: the target, a Hugging Face model that the ticket was constructed for; it is left as it is.
        ticket: a ticket of kind "model", whose other parameters must be those of the target.
        inputs: what a tokenizer gives, such as ``input_ids`` and ``attention_mask``.
    """
    kind = ticket.architecture["kind"]
    if kind != "model":
        raise ValueError(f'the ticket must be of kind "model", got {kind!r}; strongticket.theory certifies others')
    target = read_model(model, ticket.architecture["layers"])
    _check_shared(target, ticket)
    places = {place.name: place for place in ticket.pairs}

    def product(name: str) -> Matrix:
        return units_of(places[name], ticket.entries).product()

    def attention(path: str) -> Heads:
        names = [f"{path}.heads.{head}" for head in range(target.heads)]
        return [product(f"{name}.qk") for name in names], [product(f"{name}.vo").T for name in names]

    return certify_matrices(target, attention, product, inputs)


def certify_matrices(
    target: ModelTarget,
    attention: Callable[[str], Heads],
    linear: Callable[[str], Matrix],
    inputs: Mapping[str, Tensor],
) -> Certificate:
    """The same, with matrices in place of those of ``target``.

    Args:
        target: the model as matrices.
        attention: gives, for the path of an attention layer, the matrices W_QK and W_VO of all heads.
        linear: gives [W, b] for the path of a linear layer; not asked for where ``target`` has no ``linears``.
        inputs: what a tokenizer gives.
    """
    layout = LAYOUTS[target.family.name]
    activation = getattr(target.model.config, layout.settings[0])
    lipschitz_constant(activation)
    seen = _run(target, layout, _checked(inputs))
    last = None if layout.last is None else seen.norm(_prefix(target) + layout.last)
    blocks = (
        NormalisedBlock(
            _matrices(target, number, attention, linear),
            (seen.norm(f"{path}.{layout.norms[0]}"), seen.norm(f"{path}.{layout.norms[1]}")),
            activation,
            hidden=seen.largest[_linears(target, number)[1]],
            output=seen.largest[path],
            pre_norm=layout.pre_norm,
        )
        for number, path in enumerate(_blocks(target))
    )
    return normalised_certificate(blocks, seen.start, last=last)


class _Seen:
    """Norms in the target, over all positions: the largest output or input of a module, the least of a LayerNorm's."""

    def __init__(self) -> None:
        self.start = 0.0
        self.largest: dict[str, float] = defaultdict(float)
        self.smallest: dict[str, float] = {}
        self.modules: dict[str, Any] = {}

    def norm(self, path: str) -> LayerNorm:
        """The LayerNorm at ``path`` with what it has seen."""
        layer = self.modules[path]
        gamma, beta = (weight.detach().numpy() for weight in (layer.weight, layer.bias))
        return LayerNorm(gamma, beta, layer.eps, self.smallest[path], self.largest[path])

    def watch_norm(self, path: str, layer: nn.Module) -> None:
        """Record √(‖c‖² + d·eps) of the inputs of a LayerNorm, and its outputs."""
        self.modules[path] = layer
        layer.register_forward_hook(partial(self._normalised, path))

    def watch_block(self, path: str, block: nn.Module, *, first: bool) -> None:
        """Record the outputs of a block, and the inputs of the first."""
        if first:
            block.register_forward_pre_hook(self._started)
        block.register_forward_hook(lambda _, __, out: self._output(path, out if hasattr(out, "shape") else out[0]))

    def watch_inputs(self, path: str, layer: nn.Module) -> None:
        """Record the inputs of a linear layer."""
        layer.register_forward_pre_hook(lambda _, args: self._output(path, args[0]))

    def _normalised(self, path: str, layer: Any, args: tuple[Tensor, ...], out: Tensor) -> None:
        centred = args[0] - args[0].mean(dim=-1, keepdim=True)
        least = float((centred.square().sum(dim=-1) + centred.shape[-1] * layer.eps).sqrt().min())
        self.smallest[path] = min(self.smallest.get(path, least), least)
        self._output(path, out)

    def _started(self, _: nn.Module, args: tuple[Tensor, ...]) -> None:
        self.start = _largest_norm(args[0])

    def _output(self, path: str, out: Tensor) -> None:
        self.largest[path] = max(self.largest[path], _largest_norm(out))


def _run(target: ModelTarget, layout: Layout, inputs: dict[str, Tensor]) -> _Seen:
    """Run a float64 copy of the target, in eager attention and nowhere in less than float64."""
    import torch

    model = copy.deepcopy(target.model).to(device="cpu", dtype=torch.float64).eval()
    model.set_attn_implementation("eager")
    seen = _Seen()
    for number, path in enumerate(_blocks(target)):
        block = model.get_submodule(path)
        for name in layout.norms:
            seen.watch_norm(f"{path}.{name}", block.get_submodule(name))
        inner = _linears(target, number)[1]
        seen.watch_inputs(inner, model.get_submodule(inner))
        seen.watch_block(path, block, first=not number)
        attention = model.get_submodule(target.attentions[number])
        if hasattr(attention, "reorder_and_upcast_attn"):
            attention.reorder_and_upcast_attn = False
    if layout.last is not None:
        path = _prefix(target) + layout.last
        seen.watch_norm(path, model.get_submodule(path))
    with torch.no_grad():
        model.base_model(**inputs, use_cache=False)
    return seen


def _matrices(
    target: ModelTarget, number: int, attention: Callable[[str], Heads], linear: Callable[[str], Matrix]
) -> BlockMatrices:
    merged = target.attention(target.attentions[number])
    qk, vo = attention(target.attentions[number])
    paths = _linears(target, number)
    exact = [target.linear(path) for path in paths]
    layers = [linear(path) for path in paths] if target.linears else exact
    return BlockMatrices(merged.qk, qk, merged.vo, vo, exact, layers, bias=True)


def _blocks(target: ModelTarget) -> list[str]:
    return [path.removesuffix(f".{target.family.attention}") for path in target.attentions]


def _linears(target: ModelTarget, number: int) -> list[str]:
    return [f"{_blocks(target)[number]}.{path}" for path in target.family.linear]


def _prefix(target: ModelTarget) -> str:
    return target.family.classes[type(target.model).__name__]


def _largest_norm(x: Tensor) -> float:
    return float(x.norm(dim=-1).max())


def _checked(inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
    import torch

    unknown = sorted(set(inputs) - set(INPUTS))
    if unknown or not inputs:
        raise ValueError(f"inputs must hold some of {', '.join(INPUTS)}, got {', '.join(unknown) or 'nothing'}")
    for name, value in inputs.items():
        if not isinstance(value, torch.Tensor):
            raise ValueError(f"inputs[{name!r}] must be a tensor, got {type(value).__name__}")
        if not value.numel():
            raise ValueError(f"inputs[{name!r}] must have at least one position, got shape {tuple(value.shape)}")
    dtypes = {name: torch.float64 if value.is_floating_point() else value.dtype for name, value in inputs.items()}
    return {name: value.to(device="cpu", dtype=dtypes[name]) for name, value in inputs.items()}


def _check_shared(target: ModelTarget, ticket: Ticket) -> None:
    """Refuse a ticket whose class, activation, eps or other parameters are not those of the target."""
    model, architecture = target.model, ticket.architecture
    settings = type(model.config)(**architecture["config"])
    found = {"class": (architecture["class"], type(model).__name__)}
    for name in (*LAYOUTS[target.family.name].settings, *target.family.settings):
        found[name] = getattr(settings, name), getattr(model.config, name)
    for name, (of_ticket, of_target) in found.items():
        if of_ticket != of_target:
            raise ValueError(f"the ticket's {name} is {of_ticket!r}, the target's {of_target!r}; they must agree")
    parameters = model.state_dict()
    for name, array in ticket.kept.items():
        if name.startswith(TARGET):
            continue
        if name not in parameters or not np.array_equal(parameters[name].detach().cpu().double().numpy(), array):
            raise ValueError(f"the ticket's parameter {name} is not that of the target; was it made for another model?")
