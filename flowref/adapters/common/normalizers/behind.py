"""Norms with further layers in one module: activations after them, and modules that hold them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from flowref.adapters.common.normalizers.recognition import infer_shape, plausible
from flowref.adapters.common.normalizers.spellings import classes, excluded, is_normalizer
from flowref.adapters.common.normalizers.torch_probe import value_alone
from flowref.model import Dialect, Facts

# Points for calling an activation (channels for dropout among them), and methods of what is more
# than a layer.
POINTS, MORE = (3, 4, 2, 2), ("inverse", "log_prob", "sample")


def behind(obj: Any, copied: Callable[[], Any], kind: str | None) -> tuple[str, ...]:
    """The names of the activations in a torch module that is a norm without them, judged by a copy; else
    empty.
    """
    import torch

    if excluded(obj, kind) or not plausible(obj) or any(hasattr(obj, name) for name in MORE):
        return ()
    names = tuple(name for name, part in obj.named_children() if _is_activation(part))
    if not names:
        return ()
    bare, dialect = without(copied, names), Dialect(forward=value_alone)
    shape = infer_shape(bare, dialect, torch.get_default_dtype(), kind)
    return () if shape is None else names


def without(build: Callable[[], Any], names: tuple[str, ...]) -> Any:
    """The built object, with its activations replaced by identities."""
    import torch

    obj = build()
    for name in names:
        setattr(obj, name, torch.nn.Identity())
    return obj


def words(obj: Any, names: tuple[str, ...]) -> str:
    """The remark on an object tested without some of its parts."""
    named = " and ".join(f"{name} ({classes(getattr(obj, name))[0]})" for name in names)
    return f"judged before {named}"


def remark_on_inner_norms(obj: Any, dialect: Dialect, facts: Facts) -> tuple[str, ...]:
    """The remark on batch norms inside an object that is a map without inverse and no norm itself."""
    if facts.normalizer is not None or dialect.inverse is not None or dialect.log_prob is not None:
        return ()
    children: Iterable[tuple[str, Any]] = getattr(obj, "named_children", tuple)()
    names = [name for name, part in children if is_normalizer(part)]
    return tuple(f"it holds a batch norm: ?part={name} tests it" for name in names[:1])


def _is_activation(part: Any) -> bool:
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
