"""A random model from a seed: every linear layer and embedding drawn from its own source."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal, get_args

import torch
from torch import nn

from strongticket.search.layers import Layer, Sizes, find_layers, find_sizes
from strongticket.search.regions import assemble, region_key
from strongticket.source import Law, Normal, Signed, Source, Uniform

if TYPE_CHECKING:
    from collections.abc import Mapping

Init = Literal["gpt2", "gpt2-matched", "signed", "uniform"]
INITS: tuple[str, ...] = get_args(Init)

_GPT2_DEVIATION, _GPT2_WIDTH = 0.02, 768


def randomize(
    model: nn.Module, *, seed: int, init: Init = "gpt2", qk_scale: float | Literal["theory"] = 1.0
) -> dict[str, Source]:
    """Fill the model's weights from sources, set its biases to 0 and its norms to 1, and return the sources.

    ``init="gpt2"`` (§B.2): N(0, 0.02²), residual projections times (2b)^{-1/2} with b blocks.
    ``init="gpt2-matched"``: the same gain at another width d, so linear layers 0.02 √(768/d), embeddings
    0.02 · 768/d. ``init="signed"`` and ``"uniform"``: ±σ and U[-√3 σ, √3 σ] with the deviations σ of
    ``gpt2-matched``. ``qk_scale`` multiplies exactly the query and key weights; ``"theory"`` (§4.3) is
    n_K^{1/4}, where n_K is the head size.

    The keys are parameter names, or parts of them such as ``c_attn.weight[:, 0:128]`` where query, key and
    value share one tensor; a tied tensor has one.

    >>> layer = nn.MultiheadAttention(16, 4, bias=False)
    >>> sources = randomize(layer, seed=0, init="gpt2", qk_scale="theory")
    >>> [(key, round(source.law.s, 4)) for key, source in sources.items()]
    [('in_proj_weight[0:16]', 0.0283), ('in_proj_weight[16:32]', 0.0283), ('in_proj_weight[32:48]', 0.02), \
('out_proj.weight', 0.0141)]
    """
    if init not in INITS:
        raise ValueError(f"init must be one of {', '.join(INITS)}, got {init!r}")
    layers = find_layers(model)
    if not layers:
        raise ValueError(f"{type(model).__name__} has no linear layer and no embedding, so there is nothing to draw")
    sizes = find_sizes(model, layers)
    scale = resolve_qk_scale(qk_scale, layers, sizes)
    sources = {key: source for layer in layers for key, source in _sources(layer, sizes, seed, init, scale).items()}
    _write(model, layers, sources)
    return sources


def resolve_qk_scale(qk_scale: float | str, layers: list[Layer], sizes: Sizes) -> float:
    """The number that query and key weights are multiplied by."""
    if qk_scale == "theory":
        if sizes.head is None:
            raise ValueError('qk_scale="theory" needs the head size, which this model does not tell; pass a number')
        scale = float(sizes.head) ** 0.25
    else:
        try:
            scale = float(qk_scale)
        except ValueError:
            raise ValueError(f'qk_scale must be a number or "theory", got {qk_scale!r}') from None
    if not (math.isfinite(scale) and scale > 0):
        raise ValueError(f"qk_scale must be positive and finite, got {qk_scale!r}")
    if scale != 1.0:
        unknown = [layer.name for layer in layers if layer.unknown_layout]
        if unknown:
            raise ValueError(
                f"{unknown[0]!r} holds query, key and value in an order that is not known here; use qk_scale=1"
            )
        if not any(part.role != "value" for layer in layers for part in layer.parts):
            raise ValueError(f"qk_scale={qk_scale!r} needs query and key weights, and none were found; use qk_scale=1")
    return scale


def _sources(layer: Layer, sizes: Sizes, seed: int, init: str, qk_scale: float) -> dict[str, Source]:
    deviation = _deviation(layer, sizes, init)
    if len(layer.parts) < 2:
        factor = qk_scale if layer.parts else 1.0
        return {layer.name: Source(seed, layer.name, layer.shape, _law(init, deviation * factor))}
    sources = {}
    for part in layer.parts:
        shape = tuple(part.stop - part.start if axis == part.axis else n for axis, n in enumerate(layer.shape))
        factor = 1.0 if part.role == "value" else qk_scale
        key = region_key(layer.name, part.axis, part.start, part.stop)
        sources[key] = Source(seed, f"{layer.name}/{part.role}", shape, _law(init, deviation * factor))
    return sources


def _deviation(layer: Layer, sizes: Sizes, init: str) -> float:
    ratio = 1.0 if init == "gpt2" else _GPT2_WIDTH / (sizes.width or layer.fan_in)
    if layer.embedding:
        return _GPT2_DEVIATION * ratio
    return _GPT2_DEVIATION * math.sqrt(ratio) / (math.sqrt(2 * sizes.blocks) if layer.residual else 1.0)


def _law(init: str, deviation: float) -> Law:
    if init == "signed":
        return Signed(deviation)
    return Uniform(math.sqrt(3.0) * deviation) if init == "uniform" else Normal(deviation)


def _write(model: nn.Module, layers: list[Layer], sources: Mapping[str, Source]) -> None:
    parameters = dict(model.named_parameters())
    drawn = {layer.name for layer in layers}
    with torch.no_grad():
        for layer in layers:
            parameters[layer.name].copy_(torch.from_numpy(assemble(sources, layer.name, layer.shape)))
        for path, module in model.named_modules():
            norm = "norm" in type(module).__name__.lower()
            for name, parameter in module.named_parameters(prefix=path, recurse=False):
                if name not in drawn and (norm or "bias" in name):
                    parameter.fill_(1.0 if norm and name.endswith("weight") else 0.0)
