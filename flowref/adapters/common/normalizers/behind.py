"""Norms in one layer with others: what stands behind them, as activations do, and what holds them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from flowref.adapters.common.normalizers.recognition import infer_shape, plausible
from flowref.adapters.common.normalizers.spellings import classes, excluded, is_normalizer
from flowref.adapters.common.normalizers.torch_probe import value_alone
from flowref.model import Dialect, Facts

# Points that an activation is called with, as dropout of channels takes them, and methods of what is more than a layer.
POINTS, MORE = (3, 4, 2, 2), ("inverse", "log_prob", "sample")


def behind(obj: Any, copied: Callable[[], Any], kind: str | None) -> tuple[str, ...]:
    """The names of the activations that a module of torch holds, where a copy is a norm without them; none of all else."""
    import torch

    if excluded(obj, kind) or not plausible(obj) or any(hasattr(obj, name) for name in MORE):
        return ()
    names = tuple(name for name, part in obj.named_children() if _acts(part))
    if not names:
        return ()
    bare, dialect = without(copied, names), Dialect(forward=value_alone)
    shape = infer_shape(bare, dialect, torch.get_default_dtype(), kind)
    return () if shape is None else names


def without(build: Callable[[], Any], names: tuple[str, ...]) -> Any:
    """What is built, with its activations as identities."""
    import torch

    obj = build()
    for name in names:
        setattr(obj, name, torch.nn.Identity())
    return obj


def words(obj: Any, names: tuple[str, ...]) -> str:
    """What is said of an object that is judged without some of its parts."""
    named = " and ".join(f"{name} ({classes(getattr(obj, name))[0]})" for name in names)
    return f"judged before {named}"


def held(obj: Any, dialect: Dialect, facts: Facts) -> tuple[str, ...]:
    """What to say of the batch norms that an object holds, which is a map without a way back and no norm itself."""
    if facts.normalizer is not None or dialect.inverse is not None or dialect.log_prob is not None:
        return ()
    children: Iterable[tuple[str, Any]] = getattr(obj, "named_children", tuple)()
    names = [name for name, part in children if is_normalizer(part)]
    return tuple(f"it holds a batch norm: ?part={name} has that judged" for name in names[:1])


def _acts(part: Any) -> bool:
    """Whether a part holds nothing and maps each entry by itself, in eval mode."""
    import torch

    if isinstance(part, torch.nn.Identity) or any(True for _ in part.children()):
        return False
    if [*part.parameters(), *part.buffers()]:
        return False
    x = torch.linspace(-2.0, 3.0, 48, dtype=torch.float64).reshape(POINTS)
    order = torch.randperm(x.numel(), generator=torch.Generator().manual_seed(0))
    training = part.training
    try:
        part.eval()
        with torch.no_grad():
            y, other = part(x.clone()), part(x.reshape(-1)[order].reshape(x.shape).clone())
        return y.shape == x.shape and torch.equal(y.reshape(-1)[order], other.reshape(-1))
    except Exception:  # it takes something else
        return False
    finally:
        part.train(training)
