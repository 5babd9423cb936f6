"""One search from settings to ticket."""

from __future__ import annotations

import json
import math
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from strongticket.search.corpora import load_corpus
from strongticket.search.drawing import randomize
from strongticket.search.finders import FINDERS
from strongticket.search.models import build_model
from strongticket.search.settings import SearchSettings, is_first_process, process_count
from strongticket.search.tickets import to_ticket
from strongticket.search.tokenizing import BlockDataset, blocks, load_tokenizer
from strongticket.search.training import last_checkpoint, make_trainer, output_to_stderr

if TYPE_CHECKING:
    from collections.abc import Mapping

RUN, RESULT, TICKET, TOKENIZER = "run.json", "result.json", "ticket", "tokenizer"


@dataclass(frozen=True, slots=True)
class Material:
    """What training reads: the tokenizer and both splits, with the digest of the text."""

    tokenizer: Any
    train: BlockDataset
    held_out: BlockDataset
    digest: str


def run_search(settings: SearchSettings, out: str | Path, *, resume: bool = False) -> dict[str, Any]:
    """Search for a ticket, write it to ``out/ticket``, and return the numbers of ``out/result.json``.

    With ``resume`` the run in ``out`` goes on from its last checkpoint, to the same masks as if it had never
    stopped. Every mistake in the settings is raised before any work.
    """
    settings, out = settings.resolved(), Path(out)
    settings.check(process_count())
    if is_first_process():
        _check_folder(out, settings, resume)
    if resume and (out / RESULT).is_file():
        return json.loads((out / RESULT).read_text())
    material = load_material(settings)
    if is_first_process():
        out.mkdir(parents=True, exist_ok=True)
        _write_json(out / RUN, settings.to_dict())
    start = time.perf_counter()
    with output_to_stderr():
        numbers = _search(settings, out, material, resume)
        if settings.with_dense:
            numbers["loss_dense"] = train_dense(settings, out / "dense", material, resume)
    numbers["perplexity_dense"] = _perplexity(numbers["loss_dense"])
    numbers["seconds"] = time.perf_counter() - start
    if is_first_process():
        _write_json(out / RESULT, numbers)
    return numbers


def load_material(settings: SearchSettings) -> Material:
    """Read the corpus, train or load the tokenizer, and cut both splits into blocks."""
    corpus = load_corpus(settings.corpus, settings.held_out)
    length = int(settings.length or 0)
    tokenizer = load_tokenizer(str(settings.tokenizer), corpus.train)
    train, held_out = (BlockDataset(blocks(text, tokenizer, length)) for text in (corpus.train, corpus.held_out))
    if len(train) < int(settings.batch or 1) or not len(held_out):
        raise ValueError(
            f"{settings.corpus} gives {len(train)} sequences of {length} tokens to learn from and {len(held_out)} held "
            f"out; a batch takes {settings.batch}: use shorter sequences, smaller batches or more text"
        )
    return Material(tokenizer, train, held_out, corpus.digest())


def random_model(settings: SearchSettings, tokenizer: Any) -> tuple[Any, dict[str, Any]]:
    """The random model of a run and its sources."""
    torch.manual_seed(settings.seed)
    model = build_model(settings.config(), len(tokenizer), tokenizer.eos_token_id)
    init: Any = settings.init
    scale: Any = settings.qk_scale if settings.qk_scale == "theory" else float(settings.qk_scale)
    return model, randomize(model, seed=settings.seed, init=init, qk_scale=scale)


def _search(settings: SearchSettings, out: Path, material: Material, resume: bool) -> dict[str, Any]:
    data = material.train, material.held_out
    loss_unpruned = _unpruned(settings, out, material)
    model, sources = random_model(settings, material.tokenizer)
    finder = FINDERS[str(settings.finder)](model, sources, **settings.finder_options())
    trainer = make_trainer(model, finder, settings, out, *data, float(settings.lr or 0.0))
    trainer.train(resume_from_checkpoint=last_checkpoint(out) if resume else None)
    loss = _evaluate(trainer)
    densities = finder.densities()
    numbers: dict[str, Any] = {
        "loss": loss,
        "loss_unpruned": loss_unpruned,
        "loss_dense": None,
        "perplexity": _perplexity(loss),
        "perplexity_unpruned": _perplexity(loss_unpruned),
        "density": densities.pop("all"),
        "density_by_layer": densities,
        "ticket": str(out / TICKET),
        "roles": _roles(model, finder.roles),
        "corpus_digest": material.digest,
        "settings": settings.to_dict(),
    }
    if is_first_process():
        ticket = to_ticket(
            model, finder, {"settings": settings.to_dict(), "corpus_digest": material.digest, "loss": loss}
        )
        ticket.save_pretrained(out / TICKET)
        material.tokenizer.save_pretrained(str(out / TICKET / TOKENIZER))
        size = ticket.size()
        numbers |= {"bytes": size.ticket, "bytes_float32": size.float32}
    return numbers


def train_dense(settings: SearchSettings, out: Path, material: Material, resume: bool = False) -> float:
    """The loss of ordinary training: every parameter, from the same random weights and on the same data."""
    model, _ = random_model(settings, material.tokenizer)
    lr = float(settings.dense_lr or 0.0)
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr, weight_decay=settings.weight_decay)
    trainer = make_trainer(model, optimizer, settings, out, material.train, material.held_out, lr)
    trainer.train(resume_from_checkpoint=last_checkpoint(out) if resume else None)
    return _evaluate(trainer)


def _unpruned(settings: SearchSettings, out: Path, material: Material) -> float:
    """The loss of the random model, on an object of its own: accelerate wraps no model twice, not even for DDP."""
    model, _ = random_model(settings, material.tokenizer)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    return _evaluate(make_trainer(model, optimizer, settings, out, material.train, material.held_out, 0.0))


def _evaluate(trainer: Any) -> float:
    return float(trainer.evaluate()["eval_loss"])


def _perplexity(loss: float | None) -> float | None:
    return None if loss is None else math.exp(min(loss, 700.0))


def _roles(model: Any, roles: Mapping[str, str]) -> dict[str, dict[str, int]]:
    """How many tensors and weights are masked, frozen and trained."""
    sizes = {name: parameter.numel() for name, parameter in model.named_parameters()}
    counted: dict[str, dict[str, int]] = {}
    for name, role in roles.items():
        entry = counted.setdefault(role, {"tensors": 0, "weights": 0})
        entry["tensors"] += 1
        entry["weights"] += sizes[name]
    return counted


def _check_folder(out: Path, settings: SearchSettings, resume: bool) -> None:
    """Refuse a folder that another run, or anything else, is in."""
    run = out / RUN
    if run.is_file():
        if SearchSettings.from_dict(json.loads(run.read_text())) != settings:
            raise ValueError(f"{out} holds another run (see {run}); choose another folder")
        if not resume:
            raise ValueError(f"{out} holds this run already; add --resume to go on with it, or choose another folder")
        return
    if out.exists() and (not out.is_dir() or any(path.name != f"{RUN}.partial" for path in out.iterdir())):
        raise ValueError(f"{out} is not an empty folder, and no run is in it; choose another folder")


def _write_json(path: Path, value: Any) -> None:
    """Write whole or not at all."""
    partial = path.with_name(f"{path.name}.partial")
    partial.write_text(json.dumps(value, indent=2))
    os.replace(partial, path)
