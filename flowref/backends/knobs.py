"""Settings of solvers, recognized by attribute name: numbers of steps, step sizes, tolerances."""

from __future__ import annotations

from typing import Any

# Names, or last words of names: numbers of steps, step sizes, and tolerances.
COUNTS = ("steps", "nsteps", "timesteps", "nt")
LENGTHS = ("step_size", "stepsize", "dt")
TOLERANCES = ("rtol", "atol", "tol", "tolerance")
# Larger numbers of steps and larger tolerances are not those of a solver.
MOST, LARGEST, SMALLEST = 4096, 0.5, 1e-13


def finer(name: str, value: Any, times: int) -> Any:
    """Returns a finer value of a solver setting: ``times`` as many steps, steps that are ``times``
    shorter, or the tolerance divided by ``times**4`` (what a fourth-order method then meets).
    None if the name or value is no such setting.
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
