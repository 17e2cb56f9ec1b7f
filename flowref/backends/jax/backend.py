"""JAX as a `Backend`: the functions of this folder under the names of the protocol."""

from __future__ import annotations

import importlib.metadata
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, TypeVar

from flowref.backends.protocol import Backend, Blueprint, Counter
from flowref.model import (
    Array,
    Condition,
    Shape,
    Subject,
    TargetError,
    Undecidable,
    Unsupported,
)

T = TypeVar("T")


class Jax(Backend):
    """JAX on the CPU, imported on first use."""

    name = requires = "jax"

    def versions(self) -> Mapping[str, str]:
        """The versions of jax and of jaxlib, which holds the compiler."""
        return {name: importlib.metadata.version(name) for name in ("jax", "jaxlib")}

    def worker_setup(self) -> None:
        """Import jax on the CPU, and restrict it to one thread: the order of sums depends on the
        number of threads.
        """
        os.environ.setdefault("JAX_PLATFORMS", "cpu")
        flags = os.environ.get("XLA_FLAGS", "")
        if "xla_cpu_multi_thread_eigen" not in flags:
            os.environ["XLA_FLAGS"] = f"{flags} --xla_cpu_multi_thread_eigen=false".strip()
        import jax

        jax.numpy.zeros(1)  # the first array chooses the platform

    def owns(self, obj: Any) -> bool:
        """Whether an object is of a class of JAX, holds its arrays, or has functions that
        call it.
        """
        from flowref.backends.jax.jax_objects import owns

        return owns(obj)

    def sandbox(self, seed: int, dtype: str | None = None) -> AbstractContextManager[Any]:
        """See `Backend.sandbox`; 64-bit types are enabled for this thread, inside only."""
        from flowref.backends.jax.sandbox import jax_sandbox

        return jax_sandbox(seed, dtype)

    def importing(self) -> AbstractContextManager[Any]:
        """Enables 64-bit types: without them constants of a module would be float32."""
        from flowref.backends.jax.sandbox import x64_types

        return x64_types(True)

    def building(self) -> AbstractContextManager[Any]:
        """See `Backend.building`: compiling the draws of a coupling flow takes a third of its
        audit.
        """
        from flowref.backends.jax.eager_operations import uncompiled

        return uncompiled()

    def once(self, function: Callable[..., T], *args: Any) -> T:
        """See `Backend.once`: the function is traced, and run step by step with numpy; it is
        compiled if it iterates. Arrays of objects are arguments of the program, and arrays in
        its result are results.
        """
        import jax

        from flowref.backends.jax.interpreter import Stepped, TooLong
        from flowref.backends.jax.trees import leaves_and_tree

        arrays, given = leaves_and_tree(args, every=True)
        forms: list[Any] = []

        def run(*arrays: Any) -> list[Any]:
            out, form = leaves_and_tree(function(*given.filled(arrays)), every=True)
            forms.append(form)
            return out

        try:
            out = Stepped(run, *arrays)(None, *arrays)
        except (TooLong, Undecidable):
            out = jax.jit(run)(*arrays)
        found: T = forms[-1].filled([jax.numpy.asarray(one) for one in out])
        return found

    def duplicate(self, obj: Any) -> Any:
        """The object itself if it is immutable, as pytrees are; other objects with new
        attributes.
        """
        from flowref.backends.jax.trees import independent_object

        return independent_object(obj)

    def fingerprint(self, obj: Any) -> str:
        """See `Backend.fingerprint`."""
        from flowref.backends.jax.trees import fingerprint

        return fingerprint(obj)

    def cast(self, obj: Any, dtype: str) -> Any:
        """See `Backend.cast`; a new object, which shares what does not change."""
        from flowref.backends.jax.trees import cast

        return cast(obj, dtype)

    def load_weights(self, obj: Any, path: Path, key: str) -> None:
        """Raises `TargetError`: a pytree cannot be changed in place."""
        raise TargetError(
            f"{path} is not read: objects of JAX cannot be changed in place; name a factory that "
            "loads them, as with equinox.tree_deserialise_leaves"
        )

    def state_shapes(self, obj: Any) -> Sequence[Shape]:
        """The shapes of the arrays of an object."""
        from flowref.backends.jax.trees import arrays

        return [tuple(array.shape) for array in arrays(obj)]

    def resting(self, obj: Any) -> str:
        """See `Backend.resting`: arrays outside of pytrees."""
        from flowref.backends.jax.trees import TOLD_BY, resting

        return TOLD_BY if resting(obj) else ""

    def tensor(self, array: Array, dtype: str = "") -> Any:
        """See `Backend.tensor`."""
        import jax.numpy as jnp

        return jnp.asarray(array, dtype or None)

    def array(self, value: Any) -> Any:
        """See `Backend.array`."""
        from flowref.backends.jax.evaluation import array

        return array(value)

    def count_operations(self) -> AbstractContextManager[Counter]:
        """Counts the operations in the traces of a subject's calls, since calls themselves are
        compiled.
        """
        from flowref.backends.jax.operation_count import counting_operations

        return counting_operations()

    def moved(self, obj: Any, scale: float) -> Any:
        """See `Backend.moved`; a new object."""
        from flowref.backends.jax.trees import all_moved

        return all_moved(obj, scale)

    def slope(self, obj: Any, calls: Any, by: str, drawn: Any, shape: Any = None) -> Any:
        """See `Backend.slope`."""
        from flowref.backends.jax.slopes import slope

        return slope(obj, calls, by, drawn, shape)

    def traced(self, obj: Any, call: Any, x: Any, context: Any) -> Any:
        """See `Backend.traced`."""
        from flowref.backends.jax.tracing import JaxTracedCall

        return JaxTracedCall(obj, call, x, context)

    def noise(self, seed: int, magnitude: float) -> AbstractContextManager[Any]:
        """Raises `Unsupported`: rounding is compiled into a subject's programs (see
        `Subject.noise`).
        """
        raise Unsupported("code of JAX is rounded at random within subjects only")

    def subject(self, made_of: Blueprint, condition: Condition) -> Subject:
        """See `Backend.subject`."""
        from flowref.backends.jax.present import present

        return present(made_of, condition)


BACKEND: Backend = Jax()
"""JAX: how pytrees and functions become subjects."""
