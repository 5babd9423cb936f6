"""Tickets of kind "model" made by hand: random masks that keep one weight per hidden unit on one side of each pair."""

from __future__ import annotations

import numpy as np
import torch
import transformers

from strongticket import Normal, Source, Uniform
from strongticket.families import family_of
from strongticket.ticket import Ticket
from strongticket.ticket.huggingface import describe_constructed

CLASSES = ("BertModel", "BertForMaskedLM", "GPT2Model", "GPT2LMHeadModel")
D, INNER, HEADS, BLOCKS = 16, 24, 2, 2


def original(name: str) -> torch.nn.Module:
    torch.manual_seed(0)
    if name.startswith("GPT2"):
        config = transformers.GPT2Config(
            n_embd=D,
            n_inner=INNER,
            n_layer=BLOCKS,
            n_head=HEADS,
            vocab_size=61,
            n_positions=16,
            bos_token_id=0,
            eos_token_id=0,
        )
    else:
        config = transformers.BertConfig(
            hidden_size=D,
            num_hidden_layers=BLOCKS,
            num_attention_heads=HEADS,
            intermediate_size=INNER,
            vocab_size=61,
            max_position_embeddings=16,
        )
    model = getattr(transformers, name)(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.add_(0.1 * torch.randn(parameter.shape))
    return model


def pair(name: str, place: int, inputs: int, outputs: int, rng: np.random.Generator):
    """Two sources and masks; the single side alternates, and so does the number of hidden units."""
    n = 3 * max(inputs, outputs) + 5 * (place % 3)
    first, second = (
        Source(5, f"{name} {side}", shape, law)
        for side, shape, law in (("1", (n, inputs), Uniform(0.3)), ("2", (outputs, n), Normal(0.1)))
    )
    served = rng.integers(0, inputs + 2 if place % 2 else outputs + 2, n)
    if place % 2:
        masks = np.arange(inputs) == served[:, None], rng.random((outputs, n)) < 0.5
    else:
        masks = rng.random((n, inputs)) < 0.5, np.arange(outputs)[:, None] == served
    return list(zip((first, second), masks, strict=True))


def parts(name: str, layers: str = "all"):
    """The entries, kept parameters and architecture of a ticket."""
    architecture, kept = describe_constructed(original(name), layers)
    family, rng = family_of(name), np.random.default_rng(1)
    entries = {}
    for place, path in enumerate(family.attentions(name, BLOCKS)):
        for head in range(HEADS):
            at = f"{path}.heads.{head}."
            entries[f"{at}key"], entries[f"{at}query"] = pair(f"{at}qk", place + head, D, D + 1, rng)
            entries[f"{at}value"], entries[f"{at}output"] = pair(f"{at}vo", place + head + 1, D + 1, D, rng)
    if layers == "all":
        for place, path in enumerate(family.linears(name, BLOCKS)):
            inputs, outputs = ((D, INNER), (INNER, D))[place % 2]
            made = pair(path, place // 2, inputs + 1, outputs, rng)
            entries[f"{path}.first"], entries[f"{path}.second"] = made
    return entries, kept, architecture


def ticket(name: str, layers: str = "all") -> Ticket:
    return Ticket(*parts(name, layers), {"name": "by hand"})


def pinned() -> Ticket:
    """The ticket in fixtures/version-1.1, which that version wrote: a GPT-2 of one block, every number by formula."""
    shapes = {"wte.weight": (7, 4), "wpe.weight": (5, 4)}
    shapes |= {f"{layer}.{part}": (4,) for layer in ("h.0.ln_1", "h.0.ln_2", "ln_f") for part in ("weight", "bias")}
    kept = {
        name: (np.arange(np.prod(shape)).reshape(shape) * 37 % 64 / 64 - 0.25).astype(np.float32)
        for name, shape in shapes.items()
    }
    sizes = {
        f"h.0.attn.heads.{head}.{pair}": size for head in (0, 1) for pair, size in (("qk", (4, 5)), ("vo", (5, 4)))
    }
    sizes |= {"h.0.mlp.c_fc": (5, 6), "h.0.mlp.c_proj": (7, 4)}
    entries = {}
    for place, (name, (inputs, outputs)) in enumerate(sizes.items()):
        n = 20 + place
        names = {"qk": ("key", "query"), "vo": ("value", "output")}.get(name[-2:])
        at = name[:-2] if names else f"{name}."
        first, second = (f"{at}{part}" for part in names or ("first", "second"))
        units = np.arange(n)
        served, dense = (np.arange(inputs) == units[:, None] * 3 % (inputs + 1)), np.arange(outputs * n) % 3 != 0
        if place % 2:
            served, dense = np.arange(n * inputs) % 3 != 0, np.arange(outputs)[:, None] == units * 3 % (outputs + 1)
        entries[first] = Source(place, first, (n, inputs), Uniform(1.0)), served.reshape(n, inputs)
        entries[second] = Source(place, second, (outputs, n), Normal(0.5)), dense.reshape(outputs, n)
    config = {"n_embd": 4, "n_inner": 6, "n_head": 2, "n_layer": 1, "vocab_size": 7, "n_positions": 5}
    config |= {"bos_token_id": 0, "eos_token_id": 0}
    architecture = {"kind": "model", "class": "GPT2Model", "config": config, "tied": {}, "layers": "all"}
    return Ticket(entries, kept, architecture, {"name": "by hand"})


def weight(source: Source, mask: np.ndarray) -> np.ndarray:
    return np.where(mask, source.weights(), np.float32(0)).astype(np.float64)


def products(entries) -> dict[str, np.ndarray]:
    """What every pair stands for, by a dense computation in float64."""
    out = {}
    for name in entries:
        path, _, part = name.rpartition(".")
        if part == "key":
            key, query = weight(*entries[name]), weight(*entries[f"{path}.query"])
            out[f"{path}.qk"] = query @ key / np.sqrt(len(key))
        elif part == "value":
            out[f"{path}.vo"] = weight(*entries[f"{path}.output"]) @ weight(*entries[name])
        elif part == "first":
            out[path] = weight(*entries[f"{path}.second"]) @ weight(*entries[name])
    return out


def reference(name: str, layers: str, x: torch.Tensor) -> torch.Tensor:
    """The output before any head, block by block in float64, with dense products."""
    entries, _, _ = parts(name, layers)
    dense = {key: torch.from_numpy(value) for key, value in products(entries).items()}
    model, family = original(name).double(), family_of(name)
    body = model.get_submodule(family.classes[name].rstrip(".")) if family.classes[name] else model
    attentions, linears = family.attentions(name, BLOCKS), family.linears(name, BLOCKS)
    is_bert = family.name == "bert"

    def one(h):
        return torch.cat([h, torch.ones_like(h[..., :1])], dim=-1)

    def attend(path, h):
        total = 0.0
        for head in range(HEADS):
            logits = one(h) @ dense[f"{path}.heads.{head}.qk"] @ h.transpose(1, 2)
            if not is_bert:
                logits = logits + torch.full(logits.shape[-2:], -torch.inf, dtype=h.dtype).triu(1)
            total = total + one(logits.softmax(-1) @ h) @ dense[f"{path}.heads.{head}.vo"].T
        return total

    def linear(path, h):
        return one(h) @ dense[path].T if layers == "all" else model.get_submodule(path)(h)

    def feed(block, h):
        act = torch.nn.functional.gelu(linear(linears[2 * block], h), approximate="none" if is_bert else "tanh")
        return linear(linears[2 * block + 1], act)

    with torch.inference_mode():
        if is_bert:
            h = body.embeddings(x)
            for block, path in enumerate(attentions):
                layer = body.encoder.layer[block]
                h = layer.attention.output.LayerNorm(attend(path, h) + h)
                h = layer.output.LayerNorm(feed(block, h) + h)
            return h
        h = body.wte(x) + body.wpe(torch.arange(x.shape[1]))
        for block, path in enumerate(attentions):
            layer = body.h[block]
            h = h + attend(path, layer.ln_1(h))
            h = h + feed(block, layer.ln_2(h))
        return body.ln_f(h)


def body_output(name: str, module: torch.nn.Module, x: torch.Tensor) -> torch.Tensor:
    prefix = family_of(name).classes[name].rstrip(".")
    with torch.inference_mode():
        return (module.get_submodule(prefix) if prefix else module)(x)[0]
