"""Lines that build a JAX object in the recorded condition."""

from __future__ import annotations

import jax

from flowref.backends import build_seed
from flowref.backends.jax.trees import floating, leaves_and_tree, moving, opened
from flowref.model import Support, derive
from flowref.scripting.case import ReproductionCase
from flowref.scripting.construction_lines import constructed
from flowref.scripting.inlined_calls import Inliner
from flowref.scripting.layout import unparsed
from flowref.scripting.names import Unwritable
from flowref.scripting.random_points import drawn_from


def seeds(case: ReproductionCase) -> list[str]:
    """The lines that seed the generators of the builder, besides its own keys."""
    seed = build_seed(case.condition.seed)
    lines = {"numpy": f"np.random.seed({seed % 2**32})", "random": f"random.seed({seed})"}
    return [lines[generator] for generator in case.draws]


def construction_lines(case: ReproductionCase, inliner: Inliner) -> tuple[list[str], list[str]]:
    """Return the lines before, which import and define, and those that assign ``flow`` in the
    case's dtype.
    """
    before, lines = constructed(case, inliner)
    leaves, tree = leaves_and_tree(case.as_built)
    if any(str(leaf.dtype) != case.condition.dtype for leaf in leaves):
        if opened(tree):
            raise Unwritable("its arrays are cast, and it is no pytree")
        other = next(str(one.dtype) for one in leaves if str(one.dtype) != case.condition.dtype)
        there = f"leaf.astype(jnp.{case.condition.dtype})"
        lines += [
            "flow = jax.tree.map(  # as it is judged",
            f'    lambda leaf: {there} if getattr(leaf, "dtype", None) == jnp.{other} else leaf,',
            "    flow,",
            ")",
        ]
    defined = [["", *unparsed([one]), ""] for one in inliner.definitions]
    return [*before, *(line for group in defined for line in group)], lines


def moved_array_lines(case: ReproductionCase) -> list[str]:
    """The lines that perturb the arrays as in the case."""
    scale, fixed = case.condition.scale, case.facts.promises.get("fixed")
    flags = moving(case.obj)
    if not scale or fixed or not any(flags):
        return []
    if opened(leaves_and_tree(case.obj)[1]):
        raise Unwritable("its arrays are moved, and it is no pytree")
    leaves, later = jax.tree.leaves(case.obj), iter(flags)
    places = [place for place, leaf in enumerate(leaves) if floating(leaf) and next(later)]
    every = places == list(range(len(leaves)))
    factor = "" if scale == 1 else f"{scale!r} * "
    return [
        f"rng = np.random.default_rng({derive(case.condition.seed, 5) % 2**63})",
        "leaves, tree = jax.tree.flatten(flow)",
        f"for place in {f'range({len(leaves)})' if every else places}:",
        f"    leaves[place] += {factor}rng.standard_normal(leaves[place].shape)",
        "flow = jax.tree.unflatten(tree, leaves)",
    ]


def random_points(support: Support, shape: tuple[int, ...], seed: int = 1) -> str:
    """An expression for random points of a set. Raises: `Unwritable` for sets without a simple one."""
    given = f"(jax.random.key({seed}), {shape})"
    return drawn_from(support, f"jax.random.normal{given}", f"jax.random.uniform{given}")
