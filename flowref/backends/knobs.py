"""The knobs of a solver, by their names: attributes that say how many steps it takes, how long these
are, or how accurate it is to be.
"""

from __future__ import annotations

from typing import Any

# Names of knobs, or their last words: numbers of steps, lengths of steps, and tolerances.
COUNTS = ("steps", "nsteps", "timesteps", "nt")
LENGTHS = ("step_size", "stepsize", "dt")
TOLERANCES = ("rtol", "atol", "tol", "tolerance")
# More steps than that are no knob; nor is a larger tolerance.
MOST, LARGEST, SMALLEST = 4096, 0.5, 1e-13


def finer(name: str, value: Any, times: int) -> Any:
    """The value of a knob that is turned: so many times the steps, each so much shorter, and a
    tolerance that a method of fourth order then meets; None for what is none.
    """
    name = name.lower().strip("_")
    if _name_ends_with(name, COUNTS) and type(value) is int and 0 < value <= MOST:
        return value * times
    if _name_ends_with(name, LENGTHS) and type(value) is float and value > 0:
        return value / times
    if _name_ends_with(name, TOLERANCES) and type(value) is float and 0 < value <= LARGEST:
        return max(value / times**4, min(value, SMALLEST))
    return None


def _name_ends_with(name: str, words: tuple[str, ...]) -> bool:
    return any(name == word or name.endswith(f"_{word}") for word in words)
