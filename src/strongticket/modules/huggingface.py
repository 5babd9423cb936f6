"""Hidden heads and linear layers in place of those of a Hugging Face model.

A new family needs a subclass of ``Heads`` and of its own attention class, by which transformers finds what to record
for ``output_attentions``, and a function that puts it into the model, registered in ``PLACES``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from transformers.models.bert.modeling_bert import BertSelfAttention
from transformers.models.gpt2.modeling_gpt2 import GPT2Attention

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from transformers import Cache, PreTrainedModel

    from strongticket.families import Family

    Maps = Sequence[tuple[nn.Module, nn.Module]]


def insert(
    model: PreTrainedModel,
    family: Family,
    attentions: Mapping[str, Maps],
    linears: Mapping[str, nn.Module],
) -> None:
    """Put maps in the place of attention heads and linear layers of ``model``.

    Args:
        model: a model of ``family``, changed in place.
        family: where the parts of an attention layer are.
        attentions: the path of an attention layer to one pair of maps per head, as in ``Heads``.
        linears: the path of a linear layer to the map that replaces it, bias and all.
    """
    for path, maps in attentions.items():
        PLACES[family.name](model, path, maps)
    for path, layer in linears.items():
        _swap(model, path, layer)


class Heads(nn.Module):
    """Self-attention Σ_j VO_j(softmax(QK_j(x) Yᵀ) Y) of maps QK_j(x) = W_QKᵀ x̃ and VO_j(p) = W_VOᵀ p̃.

    Attention weights sum to 1, so that the one in Ỹ stays a one in p̃ and W_VO holds the biases. It takes the place of
    ``former``, without its dropout. The cache holds the inputs Y as keys of a single head, and no values.
    """

    def __init__(self, former: Any, maps: Maps) -> None:
        nn.Module.__init__(self)
        self.is_causal, self.layer_idx = former.is_causal, former.layer_idx
        self._is_hf_initialized = True
        self.qk = nn.ModuleList(qk for qk, _ in maps)
        self.vo = nn.ModuleList(vo for _, vo in maps)
        for key, hook in former._forward_hooks.items():
            self.register_forward_hook(hook, with_kwargs=key in former._forward_hooks_with_kwargs)

    def forward(
        self,
        hidden_states: Tensor,
        attention_mask: Tensor | None = None,
        past_key_values: Cache | None = None,
        **kwargs: Any,
    ) -> tuple[Tensor, Tensor]:
        """The output (N, L, d) and the attention weights (N, H, L, S).

        ``attention_mask`` (N, 1 or H, L, S) is added to the logits, or True where a position may be attended to.
        Without it, a causal layer attends to what came before and any other to everything.
        """
        positions = torch.arange(hidden_states.shape[1], device=hidden_states.device)
        inputs = hidden_states
        if past_key_values is not None:
            positions = positions + past_key_values.get_seq_length(self.layer_idx)
            keys = hidden_states[:, None]
            inputs = past_key_values.update(keys, keys[..., :0], self.layer_idx)[0][:, 0]
        if attention_mask is None and self.is_causal:
            attention_mask = (torch.arange(inputs.shape[1], device=inputs.device) <= positions[:, None])[None, None]
        mask = None if attention_mask is None else _additive(attention_mask, hidden_states.dtype)
        output, weights = torch.zeros_like(hidden_states), []
        for head, (qk, vo) in enumerate(zip(self.qk, self.vo, strict=True)):
            logits = qk(hidden_states) @ inputs.transpose(1, 2)
            if mask is not None:
                logits = logits + mask[:, head % mask.shape[1]]
            weights.append(logits.softmax(dim=-1).to(inputs.dtype))
            output = output + vo(weights[-1] @ inputs)
        return output, torch.stack(weights, dim=1)


class BertHeads(Heads, BertSelfAttention):  # type: ignore[misc]
    """The heads of a layer of BERT."""


class GPT2Heads(Heads, GPT2Attention):  # type: ignore[misc]
    """The heads of a layer of GPT-2."""


def _place_bert(model: PreTrainedModel, path: str, maps: Maps) -> None:
    _swap(model, f"{path}.self", BertHeads(model.get_submodule(f"{path}.self"), maps))
    _swap(model, f"{path}.output.dense", nn.Identity())


def _place_gpt2(model: PreTrainedModel, path: str, maps: Maps) -> None:
    _swap(model, path, GPT2Heads(model.get_submodule(path), maps))


PLACES: dict[str, Callable[[PreTrainedModel, str, Maps], None]] = {"bert": _place_bert, "gpt2": _place_gpt2}


def _swap(model: PreTrainedModel, path: str, module: nn.Module) -> None:
    parent, _, name = path.rpartition(".")
    setattr(model.get_submodule(parent), name, module.train(model.get_submodule(path).training))


def _additive(mask: Tensor, dtype: torch.dtype) -> Tensor:
    """0 where ``mask`` is True and the least number where it is False, as transformers' eager attention has it."""
    if mask.dtype != torch.bool:
        return mask
    return torch.zeros_like(mask, dtype=dtype).masked_fill(~mask, torch.finfo(dtype).min)
