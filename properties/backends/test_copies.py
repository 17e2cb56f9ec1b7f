"""A copy that is lent again is as good as a fresh one: whatever a call changes is seen."""

from __future__ import annotations

import copyreg
import functools
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.distributions import AffineTransform, ExpTransform, Transform

from flowref.backends.torch import copies
from flowref.backends.torch.copies import LARGE, PATIENCE, Inventory, Shelf
from flowref.backends.torch.state import duplicate, tensors


class Holder(nn.Module):
    """A module that holds something of every kind."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(2, 2)
        self.norm = nn.BatchNorm1d(2)
        self.calls = 0
        self.loose = torch.zeros(3)
        self.noted = {"table": np.zeros(2), "seen": [1, 2], "names": {"a"}}
        self.inner = Plain()


class Plain:
    """No module, but it holds a tensor."""

    def __init__(self) -> None:
        self.tensor = torch.ones(2)


class Other(Plain):
    """The same by another name."""


def count(holder: Any) -> None:
    """It counts its calls."""
    holder.calls += 1


def cache(holder: Any) -> None:
    """It keeps a result."""
    holder.inner.cached = torch.ones(1)


def write_in_place(holder: Any) -> None:
    """It writes to a parameter."""
    with torch.no_grad():
        holder.linear.weight.add_(1.0)


def write_through_data(holder: Any) -> None:
    """It writes where no version counts."""
    holder.linear.weight.data.add_(1.0)


def exchange_data(holder: Any) -> None:
    """A parameter gets another memory."""
    holder.linear.weight.data = holder.linear.weight.data + 1


def train(holder: Any) -> None:
    """Running averages move."""
    holder.train()
    holder.norm(torch.randn(4, 2))


def change_mode(holder: Any) -> None:
    """One layer changes its mode."""
    holder.norm.training = False


def accumulate_gradient(holder: Any) -> None:
    """A gradient stays."""
    holder.linear(torch.ones(1, 2)).sum().backward()


def freeze(holder: Any) -> None:
    """A parameter is frozen."""
    holder.linear.weight.requires_grad_(False)


def hook_a_module(holder: Any) -> None:
    """A module gets a hook."""
    holder.linear.register_forward_hook(lambda *_: None)


def hook_a_tensor(holder: Any) -> None:
    """A parameter gets a hook."""
    holder.linear.weight.register_hook(lambda gradient: gradient)


def write_to_an_array(holder: Any) -> None:
    """An array of numpy is written to."""
    holder.noted["table"][0] = 1.0


def extend_a_list(holder: Any) -> None:
    """A list grows."""
    holder.noted["seen"].append(3)


def write_to_a_set(holder: Any) -> None:
    """A set grows."""
    holder.noted["names"].add("b")


def forget_an_entry(holder: Any) -> None:
    """An entry of a dictionary goes."""
    del holder.noted["seen"]


def exchange_a_tensor(holder: Any) -> None:
    """A tensor is replaced by an equal one."""
    holder.loose = torch.zeros(3)


def write_to_a_loose_tensor(holder: Any) -> None:
    """A tensor that is no buffer is written to."""
    holder.loose[1] = 1.0


def write_deep_inside(holder: Any) -> None:
    """An object within is written to."""
    holder.inner.tensor.mul_(2.0)


def cast(holder: Any) -> None:
    """Everything gets another dtype."""
    holder.double()


def mark_a_tensor(holder: Any) -> None:
    """A parameter gets an attribute."""
    holder.linear.weight.note = 1


def exchange_the_dictionary(holder: Any) -> None:
    """All attributes live elsewhere."""
    holder.inner.__dict__ = dict(holder.inner.__dict__)


def exchange_the_class(holder: Any) -> None:
    """An object becomes one of another kind."""
    holder.inner.__class__ = Other


CHANGES = [
    mark_a_tensor,
    exchange_the_dictionary,
    exchange_the_class,
    count,
    cache,
    write_in_place,
    write_through_data,
    exchange_data,
    train,
    change_mode,
    accumulate_gradient,
    freeze,
    hook_a_module,
    hook_a_tensor,
    write_to_an_array,
    extend_a_list,
    write_to_a_set,
    forget_an_entry,
    exchange_a_tensor,
    write_to_a_loose_tensor,
    write_deep_inside,
    cast,
]


def shelf_of(obj: Any) -> Shelf:
    """A shelf of copies of an object."""
    return Shelf(lambda: duplicate(obj))


def lent(shelf: Shelf, act: Callable[[Any], Any] = lambda _: None) -> Any:
    """A copy after something was done to it."""
    with shelf.lend() as obj:
        act(obj)
        return obj


def test_an_unchanged_copy_is_lent_again() -> None:
    """A call that changes nothing costs no second copy."""
    shelf = shelf_of(Holder())
    first = lent(shelf, lambda holder: holder.linear(torch.ones(1, 2)))
    assert lent(shelf) is first


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_a_changed_copy_is_not_lent_again(change: Callable[[Any], None]) -> None:
    """Whatever a call changes, the next one gets another copy."""
    shelf = shelf_of(Holder())
    changed = lent(shelf, change)
    assert lent(shelf) is not changed


@pytest.mark.parametrize("change", [count, cache, write_in_place])
def test_a_large_copy_is_compared_with_the_original(change: Callable[[Any], None]) -> None:
    """What a copy holds is not copied once more where there is an original, and a change is seen."""
    original = Holder()
    shelf = Shelf(lambda: duplicate(original), alone=True, original=original)
    with shelf.lend() as first:
        pass
    assert shelf.spare is not None
    own = shelf.spare[1]
    assert own is not None
    memory = {one.untyped_storage().data_ptr() for one in tensors(original)}
    assert all(value.untyped_storage().data_ptr() in memory for _, value, _ in own.tensors)
    with shelf.lend() as second:
        assert second is first
        change(second)
    with shelf.lend() as third:
        assert third is not first


def test_two_borrowers_hold_two_copies() -> None:
    """Nobody shares a copy."""
    shelf = shelf_of(Holder())
    with shelf.lend() as first, shelf.lend() as second:
        assert first is not second


def test_a_copy_whose_call_raised_is_not_lent_again() -> None:
    """What a call that raised has left behind is not used again."""
    shelf, held = shelf_of(Holder()), []

    def refuse(holder: Any) -> None:
        held.append(holder)
        raise ValueError("refused")

    with pytest.raises(ValueError, match="refused"):
        lent(shelf, refuse)
    assert lent(shelf) is not held[0]


def test_what_always_changes_is_no_longer_kept() -> None:
    """Objects with a counter are not checked for ever."""
    shelf = shelf_of(Holder())
    for _ in range(PATIENCE):
        lent(shelf, count)
    first = lent(shelf)
    assert lent(shelf) is not first


class Cached(nn.Module):
    """A method that keeps results where no copy shows them."""

    @functools.lru_cache(maxsize=4)  # noqa: B019  # the very thing that is tested
    def table(self) -> float:
        """A result kept by the class."""
        return 1.0


class CachedProperty(nn.Module):
    """The same, where the cache hides behind a property."""

    @property
    @functools.lru_cache(maxsize=4)  # noqa: B019  # the very thing that is tested
    def table(self) -> float:
        """A result kept by the class."""
        return 1.0


class Slotted:
    """What it holds is not in its ``__dict__``."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = torch.zeros(1)


class Counting(list):  # type: ignore[type-arg]  # entries do not matter here
    """A built-in container with attributes of its own."""


@pytest.mark.parametrize(
    "obj",
    [
        Cached(),
        CachedProperty(),
        Slotted(),
        Counting(),
        random.Random(0),
        [torch.Generator()],
        [np.random.default_rng(0)],
        [iter(())],
        [torch.eye(2).to_sparse()],
        np.array([[]], dtype=object),
        nn.ModuleDict({"a": Cached()}),
    ],
    ids=lambda obj: type(obj[0] if isinstance(obj, list) and obj else obj).__name__,
)
def test_what_cannot_be_checked_is_copied_each_time(obj: Any) -> None:
    """Of some objects it cannot be told whether they changed."""
    shelf = Shelf(lambda: obj if isinstance(obj, list) else duplicate(obj))
    lent(shelf)
    assert shelf.spare is None


@pytest.mark.parametrize("patched", [False, True])
def test_the_inverse_of_a_transform_is_copied_whole(
    patched: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A copy of what holds the inverse of a transform computes what the original does, also where
    the state of a transform includes its inverse, as pyro makes it.
    """
    if patched:
        monkeypatch.setattr(Transform, "__getstate__", lambda self: dict(vars(self)))
    half = AffineTransform(torch.tensor(1.0), torch.tensor(2.0))
    copied = duplicate([half, half.inv])
    assert copied[1] is not half.inv and copied[1](torch.tensor(5.0)) == 2.0
    assert copied[1].inv is copied[0]


def test_copying_the_inverse_of_a_transform_is_left_as_torch_does_it() -> None:
    """What an object's own copies and pickles do is not touched."""
    duplicate(ExpTransform().inv)
    assert type(ExpTransform().inv) not in copyreg.dispatch_table


class Handing(nn.Linear):
    """It copies itself by handing on what it holds."""

    def __deepcopy__(self, memo: Any) -> Any:
        """The same parameters in another object."""
        copied = Handing.__new__(Handing)
        nn.Module.__init__(copied)
        copied.__dict__.update(self.__dict__)
        return copied


@pytest.mark.parametrize("wrap", [lambda one: one, lambda one: nn.Sequential(one, nn.Tanh())])
def test_a_copy_has_parameters_of_its_own(wrap: Callable[[Any], Any]) -> None:
    """Whatever an object's own way of copying does, so that no call reaches another's object."""
    original = wrap(Handing(2, 2))
    copied = duplicate(original)
    kept = [parameter.detach().clone() for parameter in original.parameters()]
    with torch.no_grad():
        for parameter in copied.parameters():
            parameter.add_(1.0)
    assert len(kept) == 2 and all(map(torch.equal, kept, original.parameters()))
    assert type(next(iter(copied.modules()))) is type(original)


@pytest.mark.parametrize(
    "dtype", [torch.float64, torch.float32, torch.bfloat16, torch.int64, torch.bool]
)
@pytest.mark.parametrize("count", [3, 2 * LARGE])
@pytest.mark.parametrize("turned", [False, True])
def test_one_entry_that_is_written_past_autograd_is_seen(
    dtype: torch.dtype, count: int, turned: bool
) -> None:
    """In a tensor of any size, precision and layout; one that nobody wrote to is as it was."""
    held = torch.zeros(count, 2, dtype=dtype)
    obj = {"weight": held.T if turned else held}
    inventory = Inventory(obj)
    assert inventory.unchanged()
    held.data[count - 1, 1] = 1
    assert not inventory.unchanged()


@pytest.mark.parametrize("there", [True, False])
def test_large_tensors_are_compared_byte_by_byte(
    there: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last entry counts, with the C library's comparison or without; a nan equals itself."""
    if not there:
        monkeypatch.setattr(copies, "_memcmp", lambda: None)
    x = torch.full((copies.LARGE + 3,), float("nan"), dtype=torch.float64)
    y = x.clone()
    assert copies.same_values(x, y)
    y[-1] = 0.0
    assert not copies.same_values(x, y)
    assert not copies.same_values(x, x[:-1])


@pytest.mark.parametrize("other", ["same", "row", "turned"])
def test_what_shares_memory_shares_that_of_the_copy(other: str) -> None:
    """A constant and another view of it, whichever of them is copied first."""
    held = torch.arange(6.0).reshape(2, 3)
    view = {"same": held.view(6), "row": held[1], "turned": held.T}[other]
    for order in ((held, view), (view, held)):
        first, second = duplicate(list(order))
        assert torch.equal(first, order[0]) and torch.equal(second, order[1])
        assert first.stride() == order[0].stride()
        memory = {one.untyped_storage().data_ptr() for one in (first, second)}
        assert len(memory) == 1 and held.untyped_storage().data_ptr() not in memory
