"""Hugging Face's Trainer with a finder as its optimizer."""

from __future__ import annotations

import contextlib
import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from strongticket.search.extra import need
from strongticket.search.settings import process_count

if TYPE_CHECKING:
    from strongticket.search.settings import SearchSettings
    from strongticket.search.tokenizing import BlockDataset

COMPLETE = "complete"
"""An empty file that is written when everything else of a checkpoint is on disk."""


def learning_rate(step: int, *, steps: int, warmup: int, end: float) -> float:
    """The factor on the learning rate: linear warm-up, then half a cosine from 1 to ``end`` (§B.2).

    >>> [round(learning_rate(step, steps=10, warmup=2, end=0.1), 2) for step in (0, 1, 2, 6, 10)]
    [0.5, 1.0, 1.0, 0.55, 0.1]
    """
    if step < warmup:
        return (step + 1) / warmup
    progress = min(1.0, (step - warmup) / max(1, steps - warmup))
    return end + (1.0 - end) * 0.5 * (1.0 + math.cos(math.pi * progress))


def make_trainer(
    model: Any,
    optimizer: Any,
    settings: SearchSettings,
    out: Path,
    train: BlockDataset,
    held_out: BlockDataset,
    lr: float,
) -> Any:
    """A Trainer that keeps checkpoints in ``out/checkpoints`` and TensorBoard's logs in ``out/tensorboard``."""
    transformers = need("transformers")
    need("accelerate")
    processes = process_count()
    steps, warmup, every = int(settings.steps or 1), int(settings.warmup or 0), int(settings.every or 1)
    per_device = settings.per_device(processes)
    cuda = torch.cuda.is_available()
    arguments = transformers.TrainingArguments(
        output_dir=str(out / "checkpoints"),
        max_steps=steps,
        per_device_train_batch_size=per_device,
        per_device_eval_batch_size=per_device,
        gradient_accumulation_steps=settings.accumulation(processes),
        learning_rate=lr,
        max_grad_norm=0.0,
        seed=settings.seed,
        data_seed=settings.seed,
        bf16=settings.bf16,
        torch_compile=settings.compile,
        eval_strategy="steps",
        eval_steps=every,
        save_strategy="steps",
        save_steps=every,
        save_total_limit=2,
        logging_steps=max(1, every // 10),
        report_to=[],
        use_cpu=not cuda,
        ddp_backend=None if cuda or processes == 1 else "gloo",
        dataloader_pin_memory=cuda,
        dataloader_drop_last=True,
        prediction_loss_only=True,
    )
    end = float(settings.lr_end or 0.0) / float(settings.lr) if settings.lr else 0.0
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: learning_rate(step, steps=steps, warmup=warmup, end=end)
    )
    return transformers.Trainer(
        model=model,
        args=arguments,
        train_dataset=train,
        eval_dataset=held_out,
        optimizers=(optimizer, schedule),
        callbacks=[_checkpoint_marker(), *_tensorboard(out)],
    )


def _checkpoint_marker() -> Any:
    callback: Any = need("transformers").TrainerCallback

    class Marker(callback):
        """Marks checkpoints as whole, because a kill may leave half of one."""

        def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            if state.is_world_process_zero:
                (Path(args.output_dir) / f"checkpoint-{state.global_step}" / COMPLETE).touch()

    return Marker()


def _tensorboard(out: Path) -> list[Any]:
    try:
        from transformers.integrations import TensorBoardCallback

        callback = TensorBoardCallback()
    except (ImportError, RuntimeError):
        return []
    callback.logging_dir = str(out / "tensorboard")
    return [callback]


def last_checkpoint(out: Path) -> str | None:
    """The newest checkpoint that was written to its end."""
    found = [path.parent for path in (out / "checkpoints").glob(f"checkpoint-*/{COMPLETE}")]
    newest = max(found, key=lambda path: int(path.name.rpartition("-")[2]), default=None)
    return None if newest is None else str(newest)


@contextlib.contextmanager
def output_to_stderr() -> Any:
    """Send what Trainer prints to standard error, so that standard output holds the result alone."""
    with contextlib.redirect_stdout(sys.stderr):
        yield
