"""Small tickets of every architecture and law, and models to compare them with."""

from __future__ import annotations

from functools import cache

import numpy as np
import torch
import transformers

from strongticket import Normal, Signed, Source, Uniform
from strongticket.construct import AttentionTarget, BlockTarget, attention, linear, network, relu, transformer
from strongticket.construct.tickets import attention_ticket, network_ticket, pair_ticket, transformer_ticket
from strongticket.ticket import Entry, Part, Ticket

LAWS = {"uniform": Uniform(0.1), "normal": Normal(0.05), "signed": Signed(0.03)}
CONSTRUCTED = ("linear", "relu", "network", "attention", "attention-bias", "transformer")
MODELS = (
    "GPT2Model",
    "GPT2LMHeadModel",
    "GPT2ForSequenceClassification",
    "BertModel",
    "BertForMaskedLM",
    "BertForSequenceClassification",
    "BertForTokenClassification",
    "BertForQuestionAnswering",
)
LABELS = {0: "bad", 1: "so so", 2: "good"}


def uniform(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-0.5, 0.5, shape)


def block(seed: int) -> BlockTarget:
    q, k, v, o = uniform(seed, 4, 2, 3, 3)
    return BlockTarget(AttentionTarget.from_matrices(q, k, v, o), [uniform(seed + 1, 5, 3), uniform(seed + 2, 3, 5)])


@cache
def constructed(kind: str):
    """What was constructed, its ticket, and inputs for its module."""
    if kind == "linear":
        found = linear(uniform(0, 12, 10), items=4, seed=1)
        return found, pair_ticket(found), torch.randn(4, 10)
    if kind == "relu":
        found = relu(uniform(1, 4, 12), items=4, seed=2)
        return found, pair_ticket(found), torch.randn(4, 12)
    if kind == "network":
        found = network([uniform(2, 6, 4), uniform(3, 2, 6)], items=4, seed=3)
        return found, network_ticket(found), torch.randn(3, 4)
    if kind == "attention":
        q, k, v, o = uniform(4, 4, 2, 4, 4)
        found = attention(AttentionTarget.from_matrices(q, k, v, o), items=5, seed=4)
        return found, attention_ticket(found), torch.randn(2, 5, 4)
    if kind == "attention-bias":
        torch.manual_seed(0)
        found = attention(torch.nn.MultiheadAttention(4, 2, batch_first=False), items=4, seed=5)
        return found, attention_ticket(found), torch.randn(5, 2, 4)
    found = transformer([block(10), block(20)], items=4, seed=6)
    return found, transformer_ticket(found), torch.randn(2, 5, 3)


def small_model(name: str) -> torch.nn.Module:
    torch.manual_seed(0)
    if name.startswith("GPT2"):
        config = transformers.GPT2Config(
            n_embd=24,
            n_layer=2,
            n_head=2,
            vocab_size=61,
            n_positions=16,
            bos_token_id=0,
            eos_token_id=0,
            pad_token_id=1,
        )
    else:
        config = transformers.BertConfig(
            hidden_size=24,
            num_hidden_layers=2,
            num_attention_heads=2,
            intermediate_size=40,
            vocab_size=61,
            max_position_embeddings=16,
        )
    if name.endswith("Classification"):
        config.id2label, config.label2id = LABELS, {label: place for place, label in LABELS.items()}
    return getattr(transformers, name)(config).eval()


def randomized(name: str, law: str = "normal", density: float = 0.3):
    """A model with masked random weights, and the entries of its ticket; GPT-2's c_attn has three sources."""
    model, rng = small_model(name), np.random.default_rng(7)
    entries: dict[str, Entry] = {}

    def masked(entry: str, shape: tuple[int, ...], part: Part | None = None) -> torch.Tensor:
        source = Source(11, entry, shape, LAWS[law])
        entries[entry] = Entry.of(source, rng.random(shape) < density, part)
        return torch.from_numpy(np.where(entries[entry].mask, source.weights(), np.float32(0)))

    with torch.no_grad():
        for key, parameter in model.named_parameters():
            if parameter.dim() < 2:
                parameter.add_(torch.randn(parameter.shape))
            elif "c_attn" in key:
                rows, size = parameter.shape[0], parameter.shape[1] // 3
                for place, piece in enumerate(("query", "key", "value")):
                    columns = slice(place * size, (place + 1) * size)
                    parameter[:, columns] = masked(f"{key}/{piece}", (rows, size), Part(key, 1, place * size))
            else:
                parameter.copy_(masked(key, tuple(parameter.shape)))
    return model, entries


@cache
def found(name: str, law: str = "normal"):
    """A masked model, its ticket, and inputs."""
    model, entries = randomized(name, law)
    ticket = Ticket.from_model(model, entries, finder={"name": "test", "density": 0.3})
    return model, ticket, torch.arange(10)[None] * 5


def output(module: torch.nn.Module, x: torch.Tensor) -> torch.Tensor:
    with torch.inference_mode():
        out = module(x)
    return out if isinstance(out, torch.Tensor) else out[0]
