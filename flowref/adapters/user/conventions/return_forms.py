"""Where the value and the log-det are in what a call returned: module-level functions, of which a dialect
makes partial functions, and that proofs write out.
"""

from __future__ import annotations

from typing import Any

# Where the value is.


def whole_return(out: Any) -> Any:
    """All that came back."""
    return out


def entry(out: Any, index: Any) -> Any:
    """One entry of what came back, by its place or its name."""
    return out[index]


def entry_of(out: Any, index: int, name: Any) -> Any:
    """An entry of a mapping that is a part of what came back."""
    return out[index][name]


def column_range(out: Any, first: int, last: int) -> Any:
    """Some columns of the tensor that came back."""
    return out[:, first : last + 1]


def column(out: Any, index: int) -> Any:
    """One column of the tensor that came back."""
    return out[:, index]


def named_field(out: Any, name: str) -> Any:
    """One field of what came back."""
    return getattr(out, name)


def first_of(out: Any) -> Any:
    """The first of what came back, or all of it where it came back alone."""
    return out[0] if isinstance(out, (tuple, list)) else out


def only_of(out: Any) -> Any:
    """The one tensor of the tuple that came back, or that came back first."""
    value = out[0]
    return value[0] if isinstance(value, (tuple, list)) else value


def last_of(out: Any, index: Any) -> Any:
    """The last of a list of states."""
    return out[index][-1]


def last(out: Any) -> Any:
    """The last of a list of states that came back alone."""
    return out[-1]


def joined_of(out: Any, index: Any) -> Any:
    """A list of latents, flattened in the order given."""
    import torch

    return torch.cat([part.reshape(len(part), -1) for part in out[index]], -1)


def flattened_latents(out: Any) -> Any:
    """A list of latents that came back alone, flattened in the order given."""
    import torch

    return torch.cat([part.reshape(len(part), -1) for part in out], -1)


def several(out: Any) -> Any:
    """All but the last of what came back, side by side."""
    import torch

    return torch.cat(list(out[:-1]), -1)


# Where the log-det is.


def none(out: Any) -> Any:
    """No log-det."""
    return None


def second_of(out: Any) -> Any:
    """The second of what came back; no log-det where a value came back alone."""
    return out[1] if isinstance(out, (tuple, list)) and len(out) > 1 else None


def summed(out: Any, index: Any) -> Any:
    """The sum of a list of log-dets."""
    return sum(out[index])


def summed_rows(out: Any, index: Any) -> Any:
    """The sum of a list of log-dets, of which some have a number for each entry."""
    return sum(one.reshape(len(one), -1).sum(1) if one.ndim > 1 else one for one in out[index])


def summed_batch(out: Any, index: Any) -> Any:
    """The sum of all numbers of a list of log-dets."""
    return sum(one.sum() for one in out[index])


def summed_parts(out: Any, parts: Any) -> Any:
    """The sum of log-dets that are at several places."""
    return sum(part(out) for part in parts)
