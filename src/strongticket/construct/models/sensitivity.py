"""How much an error in each pair changes the output of a model, measured on sample inputs."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

from strongticket.construct.models.plan import places

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor, nn

    from strongticket.construct.targets.models import ModelTarget

_NOISE = 0.01


def equal_sensitivity(target: ModelTarget) -> dict[str, float]:
    """Without samples: a relative error counts the same in every pair."""
    return {place.name: 1.0 for place in places(target)}


def measured_sensitivity(target: ModelTarget, samples: Mapping[str, Any], seed: int) -> dict[str, float]:
    """s_p for every pair p: a relative error ε of its matrix adds about s_p ε² to the squared output error.

    The merged model runs on ``samples`` once as it is, and once for each layer and kind of pair with noise of 1 % of
    their root mean square on all matrices of that kind in the layer; the mean ‖change of the last hidden state‖², over
    the noise² and the number of those matrices, is s_p.
    """
    import torch

    model, maps = merged_model(target)
    generator = torch.Generator().manual_seed(seed)
    groups = Counter((place.layer, place.kind) for place in places(target))
    found = {}
    with torch.inference_mode():
        wanted = last_hidden_state(model, samples)
        for (layer, kind), count in groups.items():
            saved = {name: map_.matrix.clone() for name, map_ in maps[layer, kind].items()}
            for map_ in maps[layer, kind].values():
                size = _NOISE * float(map_.matrix.square().mean().sqrt())
                map_.matrix += size * torch.randn(map_.matrix.shape, generator=generator)
            change = last_hidden_state(model, samples) - wanted
            found[layer, kind] = float(change.square().sum(dim=-1).mean()) / _NOISE**2 / count
            for name, matrix in saved.items():
                maps[layer, kind][name].matrix.copy_(matrix)
    return {place.name: found[place.layer, place.kind] for place in places(target)}


def merged_model(target: ModelTarget) -> tuple[nn.Module, dict[tuple[str, str], dict[str, Any]]]:
    """A copy of the model that runs its own merged matrices, and the maps that hold them, by layer and kind."""
    import copy

    from strongticket.modules import MergedMap
    from strongticket.modules.huggingface import insert

    model = copy.deepcopy(target.model).eval()
    attentions: dict[str, list[tuple[nn.Module, nn.Module]]] = {}
    maps: dict[tuple[str, str], dict[str, Any]] = {}
    for path in target.attentions:
        layer = target.attention(path)
        heads = [
            (MergedMap(_single(qk.T)), MergedMap(_single(vo.T))) for qk, vo in zip(layer.qk, layer.vo, strict=True)
        ]
        attentions[path] = [*heads]
        for which, kind in enumerate(("qk", "vo")):
            maps[path, kind] = {f"{path}.heads.{head}.{kind}": pair[which] for head, pair in enumerate(heads)}
    linears: dict[str, nn.Module] = {path: MergedMap(_single(target.linear(path))) for path in target.linears}
    for place in places(target):
        if place.kind in ("up", "down"):
            maps[place.layer, place.kind] = {place.name: linears[place.layer]}
    insert(model, target.family, attentions, linears)
    return model, maps


def last_hidden_state(model: nn.Module, samples: Mapping[str, Any]) -> Tensor:
    """The last hidden state at the positions of ``samples`` that are not padding, (positions, d)."""
    base: Any = getattr(model, "base_model", model)
    states = base(**{**samples, "use_cache": False}).last_hidden_state
    mask = samples.get("attention_mask")
    return states.flatten(0, 1) if mask is None else states[mask.bool()]


def _single(matrix: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return np.ascontiguousarray(matrix, dtype=np.float32)
