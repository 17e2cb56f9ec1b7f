"""Subjects of JAX: pytrees and functions as calls on arrays, their derivatives, and a process that
stays what it was.
"""

# Nothing is known of JAX where types are checked.
# mypy: disable-error-code="untyped-decorator"

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax", reason="what is JAX's is checked where JAX is installed")
jnp = jax.numpy

from flowref import backends  # noqa: E402
from flowref.backends.jax import programs, trees  # noqa: E402
from flowref.model import Condition, Dialect, Facts, Subject, TargetError, Unsupported  # noqa: E402

RNG = np.random.default_rng(0)
X = RNG.standard_normal((5, 3))


def forward(obj: Any, x: Any, context: Any) -> Any:
    """A bent affine map of each row."""
    z = x * jnp.exp(obj["log_scale"]) + obj["shift"]
    return jnp.arcsinh(z), (obj["log_scale"] - 0.5 * jnp.log1p(z * z)).sum(-1)


def inverse(obj: Any, y: Any, context: Any) -> Any:
    """The way back."""
    z = jnp.sinh(y)
    x = (z - obj["shift"]) * jnp.exp(-obj["log_scale"])
    return x, (0.5 * jnp.log1p(z * z) - obj["log_scale"]).sum(-1)


def sample(obj: Any, n: int, context: Any, key: Any) -> Any:
    """Standard normal numbers taken back."""
    return inverse(obj, jax.random.normal(key, (n, 3)), context)[0]


def standardized(obj: Any, x: Any, context: Any) -> Any:
    """A map whose rows depend on each other."""
    return (x - x.mean(0)) / x.std(0), None


DIALECT = Dialect(forward=forward, inverse=inverse, sample=sample)


def build() -> Any:
    """The parameters as a dictionary."""
    return {"log_scale": jnp.array([-0.3, 0.1, 0.2]), "shift": jnp.array([0.5, -0.5, 0.1])}


def subject(
    made: Callable[[], Any] = build, dialect: Dialect = DIALECT, **condition: Any
) -> Subject:
    """A subject in a condition."""
    facts = Facts((3,), built_here=True)
    made_of = backends.Blueprint("map", made, dialect, facts)
    return backends.find("jax").subject(made_of, Condition(**condition))


def test_the_process_keeps_its_precision() -> None:
    """Calls are made in float64, and the caller's 64-bit setting is what it was, in between too."""
    before = jax.config.jax_enable_x64
    made = subject()
    assert made.forward is not None
    assert made.forward(X, None).value.dtype == np.float64
    assert jax.config.jax_enable_x64 == before
    assert jnp.zeros(1).dtype == (jnp.float64 if before else jnp.float32)


def test_calls_give_what_the_functions_give() -> None:
    """A batch of any size gives row by row what the function gives."""
    made = subject()
    assert made.forward is not None and made.inverse is not None
    for rows in (0, 1, 5, 49, 500):
        x = np.random.default_rng(rows).standard_normal((rows, 3))
        y, ladj = made.forward(x, None)
        with jax.enable_x64(True):
            expected = forward(build(), jnp.asarray(x), None)
        assert np.allclose(y, expected[0], rtol=1e-6)
        assert np.allclose(np.asarray(ladj), expected[1], rtol=1e-6)
        assert np.allclose(made.inverse(y, None).value, x, atol=1e-12)


def test_derivatives_are_those_of_the_map() -> None:
    """Jacobians, gradients and second derivatives are those of differences."""
    made = subject()
    assert made.forward is not None and made.jacobian is not None
    assert made.vjp is not None
    matrices = made.jacobian("forward", X, None)
    step = 1e-6
    for entry in range(3):
        moved = X + step * np.eye(3)[entry]
        column = (made.forward(moved, None).value - made.forward(X, None).value) / step
        assert np.allclose(matrices[:, :, entry], column, atol=1e-5)
    weights, ones = RNG.standard_normal(X.shape), np.ones(len(X))
    expected = np.einsum("boi,bo->bi", matrices, weights)
    assert np.allclose(made.vjp("forward", X, None, weights, None), expected)
    bend = made.vjp("forward", X, None, weights, ones, "x", weights)
    near = made.vjp("forward", X + step * weights, None, weights, ones)
    slope = (near - made.vjp("forward", X, None, weights, ones)) / step
    assert np.allclose(bend, slope, atol=1e-4)


def test_parameters_move_through_the_tree() -> None:
    """The slope that autodiff gives along a direction is that of moved parameters, in batches that
    are filled up and in large ones.
    """
    made = subject()
    assert made.along is not None and made.slope is not None and made.trainable
    for rows in (5, 500):
        x = np.random.default_rng(rows).standard_normal((rows, 3))
        weights = np.random.default_rng(1).standard_normal(rows)
        there, back = (made.along("forward", x, None, 7, t).ladj for t in (1e-5, -1e-5))
        difference = (weights * (np.asarray(there) - np.asarray(back))).sum() / 2e-5
        assert made.slope("forward", x, None, 7, weights) == pytest.approx(difference, rel=1e-6)


def test_training_lowers_the_loss() -> None:
    """Some steps of the object's own gradients bring its latents nearer to a standard normal, and leave
    what is frozen where it was.
    """
    before, after = subject(), subject(history="trained")
    assert before.forward is not None and after.forward is not None
    x = np.random.default_rng(1).standard_normal((64, 3)) * 0.8 - 1.0

    def loss(flow: Subject) -> float:
        assert flow.forward is not None
        z, ladj = flow.forward(x, None)
        return float(0.5 * (z**2).sum(1).mean() - np.asarray(ladj).mean())

    assert loss(after) < loss(before)
    with pytest.raises(Unsupported, match="no parameters"):
        subject(lambda: {"log_scale": np.zeros(3), "shift": np.ones(3)}, history="trained")


def test_conditions_share_programs() -> None:
    """Objects that differ by their arrays alone share what was compiled; a scale moves them."""
    programs._KEPT.clear()
    first, other = subject(), subject(scale=0.5, seed=2)
    assert len(programs._KEPT) == 1
    assert first.forward is not None and other.forward is not None
    assert not np.array_equal(first.forward(X, None).value, other.forward(X, None).value)


def test_noise_moves_calls_and_ends_with_them() -> None:
    """Under noise a call moves by rounding, alike for the same seed; after it, it is as before."""
    made = subject()
    assert made.forward is not None and made.noise is not None
    clean = made.forward(X, None).value
    with made.noise(1, 2.0**-43):
        assert made.rounding()
        first = made.forward(X, None).value
    with made.noise(2, 2.0**-43):
        other = made.forward(X, None).value
    with made.noise(1, 2.0**-43):
        again = made.forward(X, None).value
    assert np.array_equal(first, again) and not np.array_equal(first, other)
    assert 0 < np.abs(first - clean).max() < 1e-10
    assert np.array_equal(made.forward(X, None).value, clean) and not made.rounding()


def test_the_same_key_gives_the_same_samples() -> None:
    """A seed decides the samples; another gives others."""
    made = subject()
    assert made.sample is not None
    first, again, other = (made.sample(4, seed, None) for seed in (1, 1, 2))
    assert first.shape == (4, 3)
    assert np.array_equal(first, again) and not np.array_equal(first, other)


def test_rows_that_meet_are_not_filled_up() -> None:
    """A map whose rows depend on each other is called on the rows that are asked for, and no others."""
    made = subject(dialect=Dialect(forward=standardized))
    assert made.forward is not None
    assert np.allclose(made.forward(X, None).value, (X - X.mean(0)) / X.std(0))


def test_there_are_no_modes() -> None:
    """What JAX has no word for is refused, and does not wait for anything."""
    made = subject()
    assert made.play is None and made.forward is not None
    with pytest.raises(Unsupported, match="no train"):
        made.forward.under(X, None, how="train")
    with pytest.raises(Unsupported, match="transposed layout"):
        made.forward.under(X, None, layout="transposed")


def test_op_by_op_is_another_manner() -> None:
    """Compiled and op by op, mapped over rows and rematerialized, a call gives the same."""
    made = subject()
    assert made.forward is not None
    plain = made.forward.under(X, None)
    for how in ("compile", "vmap", "checkpoint"):
        other = made.forward.under(X, None, how=how)
        assert np.allclose(other.value, plain.value, rtol=1e-13)
        assert np.allclose(np.asarray(other.ladj), np.asarray(plain.ladj), rtol=1e-12)


def test_op_by_op_is_not_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is run op by op meets numbers, and gives what compiled code gives, without a compiler."""
    from jax._src import compiler

    from flowref.backends.jax.eager_operations import uncompiled

    def bent(x: Any) -> Any:
        return jnp.where(x > 0, jax.nn.softplus(x), jnp.arcsinh(x) * x[:, :1]).sum()

    with jax.enable_x64(True):
        x = jax.device_put(RNG.standard_normal((11, 3)))
        expected = jax.jit(jax.grad(bent))(x)
        total = float(np.asarray(x).sum())
        monkeypatch.setattr(compiler, "backend_compile_and_load", None)
        with uncompiled():
            found = jax.grad(bent)(x)
            assert float(x.sum()) == pytest.approx(total)
    assert isinstance(found, jax.Array)
    assert np.allclose(found, expected, rtol=1e-12)


class Plain:
    """An object that is no pytree."""

    def __init__(self) -> None:
        self.scale, self.steps = jnp.array([2.0, 3.0]), [1, "a"]


def test_arrays_whose_gradients_are_stopped_are_constants() -> None:
    """What every call keeps gradients from is not moved, as masks and means that are leaves; what one
    direction alone keeps them from is a parameter.
    """

    def there(obj: Any, x: Any, context: Any) -> Any:
        shift = jax.lax.stop_gradient(obj["shift"])
        return x * jnp.exp(obj["log_scale"]) + shift, obj["log_scale"].sum(-1)

    def back(obj: Any, y: Any, context: Any) -> Any:
        shift, scale = jax.lax.stop_gradient((obj["shift"], obj["log_scale"]))
        return (y - shift) * jnp.exp(-scale), -obj["log_scale"].sum(-1)

    made = subject(dialect=Dialect(forward=there, inverse=back))
    still = subject(dialect=Dialect(forward=there, inverse=back), scale=0.5)
    assert made.forward is not None and still.forward is not None
    zero = np.zeros((1, 3))
    assert np.array_equal(made.forward(zero, None).value, still.forward(zero, None).value)
    one = np.ones((1, 3))
    assert not np.allclose(made.forward(one, None).value, still.forward(one, None).value)


def test_derivatives_start_from_one_trace() -> None:
    """The code of a call runs once, however much is derived from it at points of one shape."""
    runs = []

    def counted(obj: Any, x: Any, context: Any) -> Any:
        runs.append(x.shape)
        return forward(obj, x, context)

    made = subject(dialect=Dialect(forward=counted))
    assert made.forward is not None and made.jacobian is not None and made.vjp is not None
    runs.clear()
    made.forward(X, None)
    made.jacobian("forward", X, None)
    made.vjp("forward", X, None, np.ones((5, 3)), np.ones(5))
    assert len(runs) <= 1


def test_a_call_is_watched_once_for_points_of_one_shape() -> None:
    """What a call does besides returning is read off a trace, in which there are no values."""
    runs = []

    def counted(obj: Any, x: Any, context: Any) -> Any:
        runs.append(x.shape)
        return forward(obj, x, context)

    made = subject(dialect=Dialect(forward=counted))
    assert made.forward is not None
    made.forward.observe(X, None)
    runs.clear()
    made.forward.observe(2 * X, None)
    assert not runs


def test_objects_are_taken_apart_and_put_together() -> None:
    """What is taken apart is put together again; of an ordinary object, a new one."""
    obj = Plain()
    leaves, tree = trees.leaves_and_tree(obj)
    made = tree.filled([2 * leaves[0]])
    assert isinstance(made, Plain) and made is not obj and made.steps == [1, "a"]
    assert np.array_equal(made.scale, [4.0, 6.0]) and np.array_equal(obj.scale, [2.0, 3.0])
    backend = backends.find("jax")
    assert backend.fingerprint(obj) == backend.fingerprint(backend.duplicate(obj))
    assert backend.fingerprint(obj) != backend.fingerprint(made)


def test_masks_are_not_moved() -> None:
    """Arrays of zeros and ones, of numpy and of ordinary objects are not trained."""
    obj = {"mask": jnp.array([0.0, 1.0]), "start": jnp.zeros(2), "table": np.array([0.5, 0.3])}
    assert trees.moving(obj) == [False, True, False]
    assert trees.moving(Plain()) == [False]  # nothing tells whether that is a parameter


def test_functions_of_equal_code_and_closure_are_one() -> None:
    """A factory's functions are known again when it makes them anew, and told from others."""

    def make(factor: float) -> Any:
        scale = jnp.full(2, factor)
        return SimpleNamespace(forward=lambda x: partial(jnp.multiply, scale)(x))

    def named(weight: float) -> Any:
        space = {"__name__": "space", "weight": jnp.full(2, weight)}
        exec("def forward(x):\n    return weight * x", space)
        return space["forward"]

    assert (
        trees.hashable_key(named(2.0))
        == trees.hashable_key(named(2.0))
        != trees.hashable_key(named(3.0))
    )
    one, again, other = (trees.leaves_and_tree(make(factor))[1].key for factor in (2.0, 2.0, 3.0))
    assert one == again and one != other


def test_an_object_of_traced_arrays_is_one_sentence() -> None:
    """What was built inside of jit and carried out of it is refused in one sentence."""
    kept = []

    @jax.jit
    def leak(x: Any) -> Any:
        kept.append({"scale": x})
        return x

    leak(jnp.ones(2))
    with pytest.raises(TargetError, match="holds a traced array"):
        backends.find("jax").cast(kept[0], "float64")


def test_what_cannot_be_traced_is_called_op_by_op() -> None:
    """A map that asks for numbers is called all the same; it is not rounded, and says so by lacking
    the ability.
    """

    def asking(obj: Any, x: Any, context: Any) -> Any:
        return (x * 2 if float(x.sum()) > 1e9 else x * 3), None

    made = subject(dialect=Dialect(forward=asking))
    assert made.forward is not None and made.noise is None and made.jacobian is None
    assert np.allclose(made.forward(X, None).value, 3 * X)


def test_log_dets_come_as_they_are_returned() -> None:
    """A log-det that is one number stays one, for few rows and for many."""
    dialect = Dialect(forward=lambda obj, x, context: (2 * x, 3 * jnp.log(2.0)))
    made = subject(dialect=dialect)
    assert made.forward is not None
    for rows in (2, 500):
        assert np.ndim(np.asarray(made.forward(np.zeros((rows, 3)), None).ladj)) == 0


def test_functions_of_their_parameters_are_owned() -> None:
    """A pair of partial functions that holds its parameters is of JAX, and one of numpy is not."""

    def forward(params: Any, x: Any) -> Any:
        return x * params["scale"]

    backend = backends.find("jax")
    assert backend.owns((partial(forward, {"scale": jnp.ones(2)}), partial(forward, {})))
    assert not backend.owns((partial(forward, {"scale": np.ones(2)}), partial(forward, {})))


def test_what_is_derived_of_parameters_is_not_moved() -> None:
    """Objects of libraries that keep a scale beside its inverse keep both, also within a user's."""

    def module(package: str) -> Any:
        kind: Any = type("Scale", (), {"__module__": f"{package}.bijectors"})
        jax.tree_util.register_pytree_node(
            kind,
            lambda one: (tuple(vars(one).values()), None),
            lambda _, leaves: made(kind, *leaves),
        )
        return made(kind, jnp.array([2.0, 3.0]), jnp.array([0.5, 1 / 3]))

    def made(kind: Any, *leaves: Any) -> Any:
        one = kind()
        one.scale, one.inverse_scale = leaves
        return one

    flow = {"scale": module("distrax"), "shift": jnp.array([1.0, -2.0])}
    assert trees.moving(flow) == [False, False, True]
    assert trees.moving({**flow, "scale": module("mine")}) == [True, True, True]
