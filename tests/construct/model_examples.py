"""Small BERT and GPT-2 models, tickets made of them, and dense computations of what they hold."""

from __future__ import annotations

import copy
import math
from functools import cache

import numpy as np
import pytest
import torch

from strongticket import construct
from strongticket.construct.targets import read_model
from strongticket.modules import MergedMap

transformers = pytest.importorskip("transformers")

from strongticket.modules.huggingface import insert  # noqa: E402

BOTH = ["BertModel", "GPT2LMHeadModel"]
BLOCKS, D, HEADS, WORDS = 2, 32, 4, 50
QUICK = {"items": 6, "refine": 2, "layers": "all"}
PAIRS_OF_SMALL = 12


def example(cls, d=D, heads=HEADS, inner=48, seed=0, **options):
    """A model with random weights, biases and LayerNorms of the size that training leaves."""
    sizes = {"vocab_size": WORDS, "hidden_size": d, "num_hidden_layers": BLOCKS, "num_attention_heads": heads}
    if cls.startswith("Bert"):
        config = transformers.BertConfig(**sizes, intermediate_size=inner, max_position_embeddings=40, **options)
    else:
        ends = {"n_inner": inner, "n_positions": 40, "bos_token_id": 49, "eos_token_id": 49, "pad_token_id": 0}
        config = transformers.GPT2Config(**sizes, **ends, **options)
    torch.manual_seed(seed)
    model = getattr(transformers, cls)(config).eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            weight.add_((1.0 if "wte" in name else 0.1) * torch.randn_like(weight))
    return model


def small(seed=0):
    return example("GPT2LMHeadModel", d=8, heads=2, inner=12, seed=seed)


@cache
def made(cls):
    """A model, and the ticket of all its linear maps."""
    model = example(cls)
    return model, construct.model(model, items=20, refine=10, layers="all")


@cache
def quick_digest():
    """Of the ticket that every run of ``small`` with the settings ``QUICK`` must end with."""
    return identity(construct.model(small(), workers=1, **QUICK))


def identity(ticket):
    """Digests of all masks and of all sources."""
    return ticket.digest, ticket.source_digests()


def inputs(cls):
    """Three texts, one with padding: behind it, or before it for GPT-2."""
    ids = torch.randint(1, WORDS - 1, (3, 9), generator=torch.Generator().manual_seed(1))
    mask = torch.ones_like(ids)
    padding = slice(-3, None) if cls.startswith("Bert") else slice(3)
    ids[1, padding], mask[1, padding] = 0, 0
    return {"input_ids": ids, "attention_mask": mask}


def states(model, given):
    """The hidden state after every block and the last one, in float64."""
    model = copy.deepcopy(model).double()
    model.set_attn_implementation("eager")
    found = []
    for block in model.encoder.layer if hasattr(model, "encoder") else model.transformer.h:
        block.register_forward_hook(lambda _, __, out: found.append(out if isinstance(out, torch.Tensor) else out[0]))
    with torch.inference_mode():
        found.append(model.base_model(**given)[0])
    return found


def array(tensor):
    return tensor.detach().double().numpy()


def own_matrices(model):
    """W_QK (d + 1 × d), W_VOᵀ (d × d + 1) and [W, b] by the name of the pair, straight from the parameters."""
    found = {}
    is_bert = type(model).__name__.startswith("Bert")
    for number in range(BLOCKS):
        path = f"encoder.layer.{number}" if is_bert else f"transformer.h.{number}"
        block = model.get_submodule(path)
        if is_bert:
            inside = block.attention.self
            layers = inside.query, inside.key, inside.value, block.attention.output.dense
            (q, k, v, o), (bq, _, bv, bo) = ([array(getattr(x, p)) for x in layers] for p in ("weight", "bias"))
            heads = inside.num_attention_heads
            linears = {"intermediate.dense": block.intermediate.dense, "output.dense": block.output.dense}
            linears = {name: (array(x.weight), array(x.bias)) for name, x in linears.items()}
        else:
            q, k, v = np.split(array(block.attn.c_attn.weight).T, 3)
            bq, _, bv = np.split(array(block.attn.c_attn.bias), 3)
            o, bo, heads = array(block.attn.c_proj.weight).T, array(block.attn.c_proj.bias), block.attn.num_heads
            linears = {"mlp.c_fc": block.mlp.c_fc, "mlp.c_proj": block.mlp.c_proj}
            linears = {name: (array(x.weight).T, array(x.bias)) for name, x in linears.items()}
        size = len(q) // heads
        for head in range(heads):
            mine = slice(head * size, (head + 1) * size)
            at = f"{path}.{'attention' if is_bert else 'attn'}.heads.{head}"
            found[f"{at}.qk"] = np.vstack([q[mine].T, bq[mine]]) @ k[mine] / math.sqrt(size)
            found[f"{at}.vo"] = o[:, mine] @ np.hstack([v[mine], bv[mine, None]])
            found[f"{at}.vo"][:, -1] += bo / heads
        found |= {f"{path}.{name}": np.hstack([w, b[:, None]]) for name, (w, b) in linears.items()}
    return found


def products(ticket):
    """What each pair multiplies to, from its dense masked matrices; logits are divided by √n."""
    dense = {name: array.astype(np.float64) for name, array in ticket.parameters().items()}
    found = {}
    for place in ticket.pairs:
        first, second = dense[place.first], dense[place.second]
        found[place.name] = second @ first / (math.sqrt(len(first)) if place.name.endswith(".qk") else 1.0)
    return found


def dense_model(model, found):
    """A float64 copy of ``model`` that computes with the given matrices."""
    model, target = copy.deepcopy(model).double(), read_model(model, "all")
    heads = {
        path: [
            (MergedMap(found[f"{path}.heads.{head}.qk"].T), MergedMap(found[f"{path}.heads.{head}.vo"]))
            for head in range(target.heads)
        ]
        for path in target.attentions
    }
    insert(model, target.family, heads, {path: MergedMap(found[path]) for path in target.linears})
    return model
