"""Loading weights from a file without changes: matched by name and shape, strictly, and bit by
bit.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from flowref.backends.torch.state import cast, duplicate, modules, trainable
from flowref.backends.torch.weight_files import content_of
from flowref.backends.torch.weight_values import (
    refuse_negative,
    refuse_not_finite,
    refuse_other_numbers,
    refuse_rounded,
)
from flowref.model import TargetError, nearest, one_line

# The depth to which checkpoints are searched for state dicts, and the number of names per sentence.
DEEPEST, LISTED = 3, 3
State = Mapping[str, Any]


@dataclass(frozen=True)
class Candidate:
    """A set of tensors in a file that may be the state of an object: under nested ``keys``, with
    ``prefix`` before each name. ``fits``: how many names are those of the object.
    """

    keys: tuple[str, ...]
    prefix: str
    state: State
    fits: int = 0

    @property
    def label(self) -> str:
        """The keys, joined by dots."""
        return ".".join(self.keys)

    @property
    def name(self) -> str:
        """The value of ``key=`` that selects it."""
        return ".".join(filter(None, (self.label, self.prefix.rstrip("."))))

    @property
    def entries(self) -> dict[str, Any]:
        """Tensors by name without the prefix; names without the prefix are dropped."""
        cut = len(self.prefix)
        return {
            name[cut:]: value for name, value in self.state.items() if name[:cut] == self.prefix
        }


def load_weight_file(obj: Any, path: Path, key: str = "") -> None:
    """Loads the weights of a file into an object, in place; ``key`` selects one of several in a
    checkpoint.

    The floating tensors of the object are first cast to the default dtype, so that no saved number
    is rounded. Raises `TargetError`.
    """
    module = _module_of(obj, path)
    cast(obj, torch.get_default_dtype())
    wanted = module.state_dict(keep_vars=True)
    chosen = _select_candidate(wanted, path, key)
    entries = _with_aliases(chosen.entries, wanted)
    fits = entries.keys() == wanted.keys() and not _names_of_other_shapes(entries, wanted)
    if not fits and not _accepted(module, entries):
        raise TargetError(_mismatch_sentence(entries, wanted, path, module))
    trained = {name for name, _ in trainable(module)}
    refuse_not_finite(entries, wanted, path, trained)
    refuse_negative(entries, wanted, path, trained)
    refuse_other_numbers(entries, wanted, path, trained)
    try:
        with torch.no_grad():
            module.load_state_dict(_own_state_dict(chosen, entries), strict=True)
    except Exception as error:
        raise TargetError(
            f"{path} cannot be loaded: {type(module).__name__}.load_state_dict raised "
            f"{one_line(error, 200)}"
        ) from error
    refuse_rounded(entries, module.state_dict(), path)


def weight_candidate(obj: Any, path: Path, key: str = "") -> Candidate:
    """The candidate in a file for the weights of an object; raises `TargetError` if there
    is none.
    """
    return _select_candidate(_module_of(obj, path).state_dict(), path, key)


def _module_of(obj: Any, path: Path) -> nn.Module:
    owners = modules(obj)
    if len(owners) == 1 and owners[0].state_dict():
        return owners[0]
    kind = type(obj).__name__
    why = (
        f"a {kind} with {len(owners)} modules and no state_dict of its own"
        if len(owners) > 1
        else f"a {kind} without parameters and buffers"
    )
    raise TargetError(
        f"{path} cannot be loaded into {why}; name a factory that returns one nn.Module, or that "
        "loads the weights itself"
    )


def _state_candidates(content: Any, wanted: State) -> Iterator[Candidate]:
    """Yields every set of tensors in a file, with each prefix under which names match the object;
    without a prefix if none does.
    """
    for keys, state in _states(content, ()):
        prefixes: Counter[str] = Counter()
        for name in state:
            parts = name.split(".")
            for start in range(len(parts)):
                if ".".join(parts[start:]) in wanted:
                    prefixes[name[: len(name) - len(".".join(parts[start:]))]] += 1
        for prefix, fits in prefixes.items() or [("", 0)]:
            yield Candidate(keys, prefix, state, fits)


def _states(content: Any, at: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], State]]:
    """Yields (keys, mapping) for the mappings from names to tensors in a file."""
    if not isinstance(content, Mapping) or len(at) > DEEPEST:
        return
    named = {name: value for name, value in content.items() if isinstance(name, str)}
    if any(isinstance(value, torch.Tensor) for value in named.values()):
        tensors = OrderedDict(
            (name, value)
            for name, value in named.items()
            if isinstance(value, torch.Tensor) or name.endswith("_extra_state")
        )
        if hasattr(content, "_metadata"):
            tensors._metadata = content._metadata  # type: ignore[attr-defined]  # as torch does
        yield at, tensors
    for name, value in named.items():
        yield from _states(value, (*at, name))


def _select_candidate(wanted: State, path: Path, key: str) -> Candidate:
    """The selected candidate: that of the key, the only one that fits, else the nearest."""
    content = content_of(path)
    candidates = list(_state_candidates(content, wanted))
    if not candidates:
        held = ", ".join(map(str, content)) if isinstance(content, Mapping) else ""
        what = f"only {held[:200]}" if held else f"a {type(content).__name__}"
        raise TargetError(
            f"{path} holds no tensors by name ({what}); expected a state dict, as in "
            "torch.save(model.state_dict(), path)"
        )
    if key:
        asked = [one for one in candidates if key in (one.name, one.label, one.prefix.rstrip("."))]
        if not asked:
            names = sorted({name for one in candidates for name in (one.name, one.label) if name})
            choice = (
                f"it has {', '.join(names)}" if names else "it is one state dict: leave key= out"
            )
            raise TargetError(f"{path} has no {key!r}{nearest(key, names)}; {choice}")
        candidates = asked
    fitting = [
        one
        for one in candidates
        if one.entries.keys() == wanted.keys() and not _names_of_other_shapes(one.entries, wanted)
    ]
    if len(fitting) > 1 and not all(_same_weights(fitting[0], other) for other in fitting[1:]):
        names = [one.name or "the whole" for one in fitting]
        raise TargetError(
            f"{path} holds {len(fitting)} sets of weights that fit, {', '.join(names)}; say which: "
            f"&key={fitting[0].name or fitting[1].name}"
        )
    return fitting[0] if fitting else max(candidates, key=lambda one: (one.fits, len(one.state)))


def _same_weights(one: Candidate, other: Candidate) -> bool:
    first, second = one.entries, other.entries
    return all(torch.equal(first[name], second[name]) for name in first)


def _with_aliases(entries: dict[str, Any], wanted: State) -> dict[str, Any]:
    """Entries plus aliases of shared tensors, of which safetensors keeps one name."""
    held = {
        (value.data_ptr(), tuple(value.shape)): name
        for name, value in wanted.items()
        if name in entries and isinstance(value, torch.Tensor) and value.numel()
    }
    found = dict(entries)
    for name, value in wanted.items():
        if name not in entries and isinstance(value, torch.Tensor) and value.numel():
            twin = held.get((value.data_ptr(), tuple(value.shape)))
            if twin is not None:
                found[name] = entries[twin]
    return found


def _names_of_other_shapes(entries: State, wanted: State) -> list[str]:
    return [
        name
        for name, value in wanted.items()
        if name in entries
        and hasattr(value, "shape")
        and hasattr(entries[name], "shape")
        and value.shape != entries[name].shape
    ]


def _accepted(module: nn.Module, entries: State) -> bool:
    """Whether the object itself accepts such a state dict, as with a hook for older names."""
    try:
        duplicate(module).load_state_dict(OrderedDict(entries), strict=True)
    except Exception:  # the names show which error
        return False
    return True


def _mismatch_sentence(entries: State, wanted: State, path: Path, module: nn.Module) -> str:
    missing = [name for name in wanted if name not in entries]
    others = [name for name in entries if name not in wanted]
    parts = []
    if missing:
        named = [f"{name}{nearest(name, others)}" for name in missing[:LISTED]]
        parts.append(f"it lacks {_listed(named, len(missing))}")
    if others:
        parts.append(f"it has {_listed(others[:LISTED], len(others))}, which the model lacks")
    shapes = _names_of_other_shapes(entries, wanted)
    if shapes:
        named = [
            f"{name} has shape {tuple(entries[name].shape)} and the model's "
            f"{tuple(wanted[name].shape)}"
            for name in shapes[:LISTED]
        ]
        parts.append(_listed(named, len(shapes)))
    return (
        f"{path} does not fit the {type(module).__name__} that is built: {'; '.join(parts)}. Give "
        "the options that it was trained with"
    )


def _listed(named: list[str], count: int) -> str:
    more = count - len(named)
    return f"{', '.join(named)} and {more} more" if more else ", ".join(named)


def _own_state_dict(chosen: Candidate, entries: State) -> OrderedDict[str, Any]:
    """A state dict copied from the file's, with the version metadata of its modules."""
    state = OrderedDict(
        (name, value.clone() if isinstance(value, torch.Tensor) else value)
        for name, value in entries.items()
    )
    metadata, cut = getattr(chosen.state, "_metadata", None), len(chosen.prefix)
    if isinstance(metadata, Mapping):
        prefix = chosen.prefix.rstrip(".")
        own = {
            name[cut:]: value
            for name, value in metadata.items()
            if name == prefix or name.startswith(chosen.prefix)
        }
        state._metadata = OrderedDict(own)  # type: ignore[attr-defined]  # as torch does
    return state
