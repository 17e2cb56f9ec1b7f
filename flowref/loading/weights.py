"""The weights file of a target: ``?weights=run.pt``, ``&key=`` if a checkpoint holds several, or that of a
training run.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Container
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flowref import registry
from flowref.loading.ownership import framework
from flowref.model import Target, TargetError
from flowref.registry.definitions import nearest_file

# Digits of a digest, and the weights file in the folder of a run.
LETTERS, OF_RUN = 16, "checkpoint.safetensors"
# Endings of weights files.
FILES = (
    ".pt",
    ".pth",
    ".ckpt",
    ".bin",
    ".safetensors",
    ".npz",
    ".npy",
    ".pkl",
    ".pickle",
    ".eqx",
    ".msgpack",
    ".tar",
    ".h5",
)


@dataclass(frozen=True)
class Weights:
    """Weights in a file. ``key``: which of several; ``own``: whether the factory loads them itself."""

    path: Path
    key: str = ""
    own: bool = False

    @property
    def digest(self) -> str:
        """The first `LETTERS` digits of the file's SHA-256."""
        try:
            stat = self.path.stat()
            return _digest(self.path, stat.st_size, stat.st_mtime_ns)
        except OSError:
            return ""

    @property
    def words(self) -> str:
        """A description of the weights."""
        key = f", {self.key}" if self.key else ""
        return f"the weights of {self.path}{key} (sha256 {self.digest})"


@functools.lru_cache(maxsize=64)
def _digest(path: Path, size: int, changed: int) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:LETTERS]


def weights_of(target: Target, taken: Container[str] = ()) -> Weights | None:
    """The weights that a target names, or None. ``taken``: parameters of a user's factory, which take
    precedence over these options.
    """
    named = target.option("weights")
    if named is not None and "weights" not in taken:
        key = target.option("key") if "key" not in taken else None
        return Weights(Path(named).expanduser(), key or "")
    run = registry.run_of(target)
    return None if run is None else Weights(run / OF_RUN, own=True)


def loading(build: Callable[[], Any], weights: Weights) -> Callable[[], Any]:
    """A builder whose objects load the weights of a file. Raises `TargetError` in one sentence if it does
    not exist.
    """
    path = weights.path
    if not path.is_file():
        what = "it is a folder" if path.is_dir() else "there is no such file"
        near = nearest_file(path, FILES)
        raise TargetError(
            f"the weights {path} cannot be read: {what}{'' if path.is_dir() else near}"
        )
    return functools.partial(build_with_weights, build, weights)


def build_with_weights(build: Callable[[], Any], weights: Weights) -> Any:
    """What a builder makes, with the weights of a file."""
    obj = build()
    framework(obj).load_weights(obj, weights.path, weights.key)
    return obj
