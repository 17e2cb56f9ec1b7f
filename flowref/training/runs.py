"""A run on disk: recipe, weights, state to resume from, and metrics. Each file is complete or
absent.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from flowref.model import one_line
from flowref.training.bounds import AnyFlow
from flowref.training.extras import RunError, package
from flowref.training.models import build
from flowref.training.recipes import Recipe

CONFIG, WEIGHTS, STATE, METRICS, SUMMARY, AUDIT = (
    "config.json",
    "checkpoint.safetensors",
    "state.safetensors",
    "metrics.jsonl",
    "summary.json",
    "audit.json",
)
Tensors = Mapping[str, Tensor]


def new_folder(parent: Path, dataset: str) -> Path:
    """Creates a new folder for a run: the first free one of moons-1, moons-2, ..."""
    try:
        parent.mkdir(parents=True, exist_ok=True)
        taken = [
            int(path.name.rpartition("-")[2])
            for path in parent.glob(f"{dataset}-*")
            if path.name.rpartition("-")[2].isdigit()
        ]
        number = max(taken, default=0) + 1
        while True:
            folder = parent / f"{dataset}-{number}"
            with contextlib.suppress(FileExistsError):
                folder.mkdir()
                return folder
            number += 1
    except OSError as error:
        raise RunError(
            f"{parent} cannot be written: {error.strerror}; choose another folder with --runs"
        ) from None


def is_run(path: Path) -> bool:
    """Whether a path is the folder of a run."""
    return (path / CONFIG).is_file()


def unfinished(parent: Path, dataset: str) -> Path | None:
    """The latest unfinished run of a data set, or None."""
    folders = [
        path
        for path in parent.glob(f"{dataset}-*")
        if is_run(path) and not (path / SUMMARY).is_file()
    ]
    return max(folders, key=lambda path: (path / CONFIG).stat().st_mtime, default=None)


def replace_file(path: Path, data: bytes) -> None:
    """Writes a file atomically: after a crash it has the old content or the new one, complete."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise RunError(
            f"{path} cannot be written: {error.strerror}; free some space, then resume the run"
        ) from None


def write_tensors(path: Path, tensors: Tensors, about: Any) -> None:
    """Writes tensors with metadata, as JSON, in safetensors format."""
    save = package("safetensors.torch").save
    kept = {name: tensor.detach().contiguous().clone() for name, tensor in tensors.items()}
    replace_file(path, save(kept, {"flowref": json.dumps(about)}))


def read_tensors(path: Path) -> tuple[dict[str, Tensor], Any]:
    """Returns tensors and metadata; raises `RunError` for a missing, truncated or foreign file."""
    opened = package("safetensors").safe_open
    if not path.is_file():
        raise RunError(
            f"{path} is missing; the run has no weights yet: `flowref fit {path.parent}` goes on "
            "with it"
        )
    try:
        with opened(str(path), framework="pt") as file:
            about = json.loads(file.metadata()["flowref"])
            return {name: file.get_tensor(name).clone() for name in file.keys()}, about  # noqa: SIM118  # no mapping
    except (
        OSError,
        ValueError,
        KeyError,
        TypeError,
        package("safetensors").SafetensorError,
    ) as error:
        raise RunError(
            f"{path} cannot be read ({one_line(error, 200)}); it was cut off or changed: start another run"
        ) from None


def recipe_of(folder: Path) -> Recipe:
    """The recipe of a run; raises `RunError` if there is none."""
    try:
        text = (folder / CONFIG).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        raise RunError(
            f"{folder} is no run: it has no {CONFIG} that can be read; `flowref fit` makes runs"
        ) from None
    return Recipe.from_json(text, str(folder / CONFIG))


def load(path: str) -> AnyFlow:
    """Returns the trained flow of a run's folder, in eval mode; its `levels` is the number of
    pixel values, or None.

    Raises `RunError` for a folder without a run, or with damaged files.
    """
    folder = Path(path)
    recipe = recipe_of(folder)
    tensors, about = read_tensors(folder / WEIGHTS)
    try:
        flow = build(recipe, tuple(about["event_shape"]), about["levels"])
        flow.load_state_dict(tensors)
    except (RuntimeError, KeyError, TypeError, ValueError) as error:
        raise RunError(
            f"{folder / WEIGHTS} does not fit {folder / CONFIG} ({one_line(error, 200)}); start another run"
        ) from None
    return flow.eval()


def levels_of(folder: Path) -> int | None:
    """The number of pixel values of a run's images, or None for points."""
    levels: int | None = read_tensors(folder / WEIGHTS)[1]["levels"]
    return levels


def add_metrics(folder: Path, row: Mapping[str, Any]) -> None:
    """Append the metrics of one epoch."""
    with (folder / METRICS).open("a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")


def metrics(folder: Path) -> list[dict[str, Any]]:
    """The metrics of each epoch so far; a truncated last line is dropped."""
    rows = []
    with contextlib.suppress(OSError):
        for line in (folder / METRICS).read_text(encoding="utf-8", errors="replace").splitlines():
            with contextlib.suppress(ValueError):
                rows.append(json.loads(line))
    return [row for row in rows if isinstance(row, dict) and "epoch" in row]


def keep_metrics(folder: Path, epochs: int) -> None:
    """Drop the metrics of epochs after the state that a run resumes from."""
    kept = [row for row in metrics(folder) if row["epoch"] <= epochs]
    replace_file(folder / METRICS, "".join(json.dumps(row) + "\n" for row in kept).encode())


def seeded(*words: Any) -> torch.Generator:
    """A generator for one purpose, seeded by words and numbers."""
    digest = hashlib.sha256(repr(words).encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:8], "big") >> 1)
