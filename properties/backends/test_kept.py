"""Results of calls that laws share: the same whoever asks first, and no more of them than fit."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

from flowref.backends.result_cache import KEPT, ResultCache, call_digest
from flowref.backends.torch.live import Live
from flowref.loading import forget, load
from flowref.model import Mapped, Subject, Target

SPEC = "nflows:AffineCouplingTransform"
X = np.random.default_rng(0).standard_normal((5, 4))


@pytest.fixture
def subject() -> Subject:
    """A coupling of which nothing was called yet."""
    forget()
    return load(_target())


def _target() -> Target:
    from flowref.checking import as_target

    return as_target(SPEC)


def under_noise(subject: Subject, seed: int, *calls: str) -> list[Any]:
    """What calls return in one noisy run, one after the other."""
    assert subject.noise is not None
    assert subject.jacobian is not None
    out: list[Any] = []
    with subject.noise(seed, 2.0**-30):
        for name in calls:
            if name == "jacobian":
                out.append(subject.jacobian("forward", X, None))
            else:
                out.append(subject.calls[name](X, None).value)
    return out


def test_a_noisy_call_is_a_function_of_its_inputs_and_of_the_run(subject: Subject) -> None:
    """Under one seed a call gives the same whatever was called before it, in this object or in
    another one of the same target; under another seed it gives something else.
    """
    (alone,) = under_noise(subject, 1, "forward")
    KEPT.clear()
    _, _, later = under_noise(subject, 1, "inverse", "jacobian", "forward")
    assert np.array_equal(alone, later)
    forget()
    (anew,) = under_noise(load(_target()), 1, "forward")
    assert np.array_equal(alone, anew)
    (other,) = under_noise(subject, 2, "forward")
    assert (alone != other).any()


def test_the_noise_of_a_call_is_that_of_its_points(subject: Subject) -> None:
    """Other points meet other noise in the same run, as do the two directions."""
    assert subject.noise is not None
    with subject.noise(1, 2.0**-30):
        whole = subject.calls["forward"](X, None).value
        some = subject.calls["forward"](X[:4], None).value
    assert not np.array_equal(whole[:4], some)
    assert np.allclose(whole[:4], some, atol=1e-6)


@pytest.mark.parametrize("noisy", [False, True], ids=["clean", "noisy"])
def test_calls_are_made_once(
    subject: Subject, noisy: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same call at the same points is made once, plainly or as a probe makes it, and writing
    into what it returned changes nothing.
    """
    made: list[int] = []
    unasked = Live._unasked

    def counted(live: Live, make: Callable[[int], Any], stream: int) -> Any:
        made.append(1)
        return unasked(live, make, stream)

    monkeypatch.setattr(Live, "_unasked", counted)
    assert subject.noise is not None
    forward = subject.calls["forward"]

    def twice() -> tuple[Any, Any]:
        first = forward(X, None).value
        copy = first.copy()
        first[:] = 0.0
        return copy, forward.under(X, None).value

    if noisy:
        with subject.noise(3, 2.0**-30):
            first, second = twice()
    else:
        first, second = twice()
    assert np.array_equal(first, second)
    assert len(made) == 1


def test_no_more_is_kept_than_fits() -> None:
    """Entries that were not asked for longest go first, and one that is too large is not kept."""
    some = ResultCache(limit=20_000)
    made: list[int] = []

    def result(index: int, size: int = 100) -> Mapped:
        made.append(index)
        return Mapped(np.full(size, float(index)), None)

    for index in range(20):
        some.get((index,), partial(result, index))
        some.get((0,), lambda: result(0))
    assert some.size <= some.limit
    assert made == list(range(20))
    some.get((0,), lambda: result(0))
    some.get((1,), lambda: result(1))
    assert made[20:] == [1]
    for _ in range(2):
        some.get(("large",), lambda: result(99, 2_000))
    assert made[21:] == [99, 99]


def test_what_differs_is_told_apart() -> None:
    """Names, values, shapes, dtypes and plain inputs all count."""
    x = np.arange(4.0)
    told = [
        call_digest("forward", x, None),
        call_digest("inverse", x, None),
        call_digest("forward", x + 1, None),
        call_digest("forward", x.reshape(2, 2), None),
        call_digest("forward", x.astype(np.float32), None),
        call_digest("forward", x, x),
        call_digest("forward", -0.0 * x, None),
        call_digest("forward", 0.0 * x, None),
    ]
    assert len(set(told)) == len(told)
    assert call_digest("forward", x[::1].copy(), None) == told[0]
