"""The training loop: Adam on the negative log-likelihood or a matching loss, with early stopping
and a saved state from which a killed process resumes exactly.
"""

from __future__ import annotations

import copy
import hashlib
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from flowref.model import one_line
from flowref.reference import Dequantize
from flowref.training import runs
from flowref.training.bounds import FEW, AnyFlow, log_density, seeded_layers
from flowref.training.data import Dataset
from flowref.training.extras import RunError
from flowref.training.models import build, standardize, tensor
from flowref.training.objective import objective
from flowref.training.recipes import Recipe

# Seconds of work that a kill can lose: within an epoch, and at the end of one.
SAVE_EVERY, SAVE_EPOCHS = 20.0, 2.0
SMALLEST_RATE = 0.01  # relative to the first
EVALUATED = 500  # events per batch of an evaluation


@dataclass
class Progress:
    """The progress of a training run. Sums are over the steps of the current epoch."""

    epoch: int = 0
    position: int = 0
    step: int = 0
    nll: float = 0.0
    penalty: float = 0.0
    best: float = math.inf
    best_epoch: int = 0
    seconds: float = 0.0
    done: bool = False


class TrainingListener:
    """Receives the events of a training run; front ends override the methods they need."""

    def step(self, training: Training) -> None:
        """Called after each step."""

    def epoch(self, training: Training, row: dict[str, Any]) -> None:
        """Called after each epoch, with its metrics."""


class Training:
    """A flow in training: weights, optimizer, random state and progress, which are saved and
    restored together.

    Runs of one recipe compute the same numbers whether or not they are killed and resumed: the
    order of an epoch depends on its number alone, and all other draws come from one generator,
    whose state is saved.
    """

    def __init__(self, recipe: Recipe, dataset: Dataset, folder: Path) -> None:
        self.recipe, self.dataset, self.folder = recipe, dataset, folder
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(
                int(torch.randint(2**62, (), generator=runs.seeded(recipe.seed, "weights")))
            )
            self.flow = build(recipe, dataset.event_shape, dataset.levels)
        standardize(self.flow, dataset)
        self.optimizer = torch.optim.Adam(self.flow.parameters(), recipe.rate, fused=True)
        self.random = runs.seeded(recipe.seed, "noise")
        self.dequantize = None if dataset.levels is None else Dequantize(dataset.levels)
        self.train, self.validation = dataset.train, dataset.validation
        self.progress, self.digest = Progress(), digest(dataset)
        self.best: dict[str, Tensor] = {}
        self.saved = time.monotonic()

    @property
    def steps(self) -> int:
        """Steps per epoch; a last batch of one event is dropped, since batch norm refuses it."""
        number, batch = len(self.train), self.recipe.batch
        return max(number // batch + (number % batch > 1), 1)

    def run(self, listener: TrainingListener, stop: Callable[[], bool] = lambda: False) -> bool:
        """Trains until finished (True), or until ``stop`` returns True (False); the state is saved
        either way.

        Raises `RunError` if the loss is no longer finite.
        """
        while not self.progress.done:
            for events in self._remaining_batches():
                self._step(events)
                listener.step(self)
                if stop():
                    self.save()
                    return False
                if time.monotonic() - self.saved > SAVE_EVERY:
                    self.save()
            listener.epoch(self, self._end_epoch())
        return True

    def _remaining_batches(self) -> Iterator[Tensor]:
        now, recipe = self.progress, self.recipe
        order = torch.randperm(
            len(self.train), generator=runs.seeded(recipe.seed, "order", now.epoch)
        )
        for position in range(now.position, self.steps):
            yield self._prepared(
                self.train[order[position * recipe.batch : (position + 1) * recipe.batch].numpy()]
            )

    def _prepared(self, events: Any) -> Tensor:
        x = tensor(events)
        if self.recipe.flips:
            mirrored = torch.rand(len(x), 1, 1, 1, generator=self.random) < 0.5
            x = torch.where(mirrored, x.flip(-1), x)
        return x if self.dequantize is None else self.dequantize(x, generator=self.random)[0]

    def _step(self, x: Tensor) -> None:
        now, began = self.progress, time.perf_counter()
        for group in self.optimizer.param_groups:
            group["lr"] = self.rate(now.step)
        self.flow.train()
        loss = objective(self.flow, x, self.recipe.penalty, self.random)
        self.optimizer.zero_grad()
        loss.total.backward()
        norm = torch.nn.utils.clip_grad_norm_(self.flow.parameters(), self.recipe.clip)
        if not bool(torch.isfinite(norm) & torch.isfinite(loss.total)):
            raise RunError(
                f"the loss is {loss.total.item():g} in epoch {now.epoch + 1}, and its gradient "
                f"{norm.item():g}; "
                f"start another run with a smaller --rate than {self.recipe.rate:g}"
            )
        self.optimizer.step()
        now.nll += loss.nll.item()
        now.penalty += loss.penalty.item()
        now.step += 1
        now.position += 1
        now.seconds += time.perf_counter() - began

    def rate(self, step: int) -> float:
        """The learning rate of a step: half a cosine, from the first rate to a hundredth of it."""
        fall = 0.5 * (1 + math.cos(math.pi * min(step / (self.recipe.epochs * self.steps), 1.0)))
        return self.recipe.rate * (SMALLEST_RATE + (1 - SMALLEST_RATE) * fall)

    def _end_epoch(self) -> dict[str, Any]:
        """Validates, keeps the best weights, saves metrics and state."""
        now, began = self.progress, time.perf_counter()
        value = mean_nll(
            self.flow,
            self.validation,
            self.dataset.levels,
            runs.seeded(self.recipe.seed, "validation"),
        )
        now.epoch += 1
        if value < now.best:
            now.best, now.best_epoch = value, now.epoch
            self.best = copy.deepcopy(self.flow.state_dict())
        now.done = (
            now.epoch >= self.recipe.epochs or now.epoch - now.best_epoch >= self.recipe.patience
        )
        now.seconds += time.perf_counter() - began
        row = {
            "epoch": now.epoch,
            "step": now.step,
            "train_nll": now.nll / self.steps,
            "penalty": now.penalty / self.steps,
            "validation_nll": value,
            "best_nll": now.best,
            "rate": self.rate(now.step - 1),
            "seconds": round(now.seconds, 3),
        }
        now.position, now.nll, now.penalty = 0, 0.0, 0.0
        runs.add_metrics(self.folder, row)
        if now.done or time.monotonic() - self.saved > SAVE_EPOCHS:
            self.save()
        return row

    def save(self) -> None:
        """Save the best weights, then the state to resume from."""
        if self.best:
            shape, levels, epoch = (
                self.dataset.event_shape,
                self.dataset.levels,
                self.progress.best_epoch,
            )
            note = {"event_shape": list(shape), "levels": levels, "epoch": epoch}
            runs.write_tensors(self.folder / runs.WEIGHTS, self.best, note)
        tensors = {f"flow/{name}": value for name, value in self.flow.state_dict().items()}
        tensors |= {f"best/{name}": value for name, value in self.best.items()}
        for index, state in self.optimizer.state_dict()["state"].items():
            tensors |= {f"adam/{index}/{name}": value for name, value in state.items()}
        tensors["random"] = self.random.get_state()
        about = {"progress": asdict(self.progress), "data": self.digest}
        runs.write_tensors(self.folder / runs.STATE, tensors, about)
        self.saved = time.monotonic()

    def restore(self) -> None:
        """Load the saved state, if there is one.

        Raises `RunError` for a state that cannot be read, or belongs to other data or another
        model.
        """
        path = self.folder / runs.STATE
        if not path.is_file():
            runs.keep_metrics(self.folder, 0)
            return
        tensors, about = runs.read_tensors(path)
        if about.get("data") != self.digest:
            raise RunError(
                f"the data are not those that {self.folder} was begun with; put them back, or "
                "start another run "
                f"with `flowref fit {self.recipe.dataset}`"
            )
        parts: dict[str, dict[str, Tensor]] = {"flow": {}, "best": {}, "adam": {}, "random": {}}
        for name, value in tensors.items():
            part, _, rest = name.partition("/")
            parts.get(part, {})[rest] = value
        adam: dict[int, dict[str, Tensor]] = {}
        try:
            for name, value in parts["adam"].items():
                index, _, kind = name.partition("/")
                adam.setdefault(int(index), {})[kind] = value
            self.flow.load_state_dict(parts["flow"])
            self.optimizer.load_state_dict({**self.optimizer.state_dict(), "state": adam})
            self.random.set_state(parts["random"][""])
            self.progress, self.best = Progress(**about["progress"]), parts["best"]
        except (RuntimeError, KeyError, ValueError, TypeError) as error:
            raise RunError(
                f"{path} does not fit its run ({one_line(error, 200)}); it was changed: start another run"
            ) from None
        runs.keep_metrics(self.folder, self.progress.epoch)


def digest(dataset: Dataset) -> str:
    """A SHA-256 digest of the training and validation data."""
    state = hashlib.sha256()
    for values in (dataset.train, dataset.validation):
        state.update(
            repr((values.shape, values.dtype.str)).encode() + np.ascontiguousarray(values).data
        )
    return state.hexdigest()


@torch.no_grad()
def mean_nll(
    flow: AnyFlow,
    events: Any,
    levels: int | None,
    random: torch.Generator,
    repeats: int = 1,
    draws: int = FEW,
) -> float:
    """The mean negative log-density per event in nats, of ``events`` ``(n, *event)``, in eval
    mode; images are dequantized ``repeats`` times each. ``draws``: of latents for each event,
    if they are drawn.
    """
    flow.eval()
    dequantize = None if levels is None else Dequantize(levels)
    total = 0.0
    for start in range(0, len(events), EVALUATED):
        x = tensor(events[start : start + EVALUATED])
        for _ in range(repeats):
            noisy = x if dequantize is None else dequantize(x, generator=random)[0]
            with seeded_layers(flow, random):
                total -= log_density(flow, noisy, draws).double().sum().item()
    return total / (len(events) * repeats)
