"""The kind of a target in a few words, from its calls and facts."""

from __future__ import annotations

from collections.abc import Iterator

from flowref.model import PARTS, RENORM, SAMPLE, Dialect, Facts, Normalizer
from flowref.model.call import PROCESS

PART_WISE = " of parts of a batch"
# Usual attributes of batch normalizers, with their description.
USUAL = {"running_mean": "running mean", "running_var": "running variance", "eps": "eps"}


def target_kind(dialect: Dialect, facts: Facts) -> str:
    """The kind of a target: "affine coupling with inverse", "density without sampler", ..."""
    if facts.unended:
        return "solver whose calls do not terminate"
    phrases = (_map_text(dialect, facts), _kernel(dialect, facts), _density_text(dialect))
    named = [phrase for phrase in phrases if phrase]
    return " and ".join(named) or _other(dialect)


def _map_text(dialect: Dialect, facts: Facts) -> str:
    if dialect.forward is None:
        return ""
    way_back = "without inverse" if dialect.inverse is None else "with inverse"
    if facts.normalizer is not None:
        return _normalizer_text(facts.normalizer, dialect.inverse is not None)
    return f"{_shape_of_map(facts)} {way_back}"


def _kernel(dialect: Dialect, facts: Facts) -> str:
    if dialect.push is None:
        return ""
    draws = facts.kernel.draws if facts.kernel is not None else (None, None)
    kinds: dict[tuple[bool | None, bool | None], str] = {
        (False, True): "surjection that forgets",
        (True, False): "surjection that adds",
        (True, True): "random layer",
    }
    way_back = "without inverse" if dialect.pull is None else "with inverse"
    return f"{kinds.get(draws, 'kernel')} {way_back}"


def _shape_of_map(facts: Facts) -> str:
    if facts.coupling is not None:
        kind = "" if facts.coupling.kind == "joint" else f"{facts.coupling.kind} "
        return f"{kind}coupling"
    if facts.squeezing is not None:
        return "squeeze"
    if facts.multi_scale is not None:
        return "multi-scale flow"
    if facts.preprocessing is not None and facts.preprocessing.alone:
        return "preprocessing"
    return "map of a set" if facts.promises.get("set") else "bijection"


def _normalizer_text(normalizer: Normalizer, invertible: bool) -> str:
    way_back = " with inverse" if invertible else ""
    if normalizer.statistics in SAMPLE:
        return f"{normalizer.statistics} norm{way_back}"
    if normalizer.statistics == RENORM:
        return f"batch renormalization{way_back}"
    ways = {"running": " by running averages", PARTS: PART_WISE}
    statistics = PART_WISE if normalizer.largest else ways.get(normalizer.statistics, "")
    axes = "" if normalizer.channel == (0,) else f" of axis {_axis_list_text(normalizer.channel)}"
    unknown = " and ".join(word for role, word in USUAL.items() if role not in normalizer.roles)
    unknown_note = f", with unknown {unknown}" if unknown and not normalizer.evidence else ""
    return f"batch norm{statistics}{axes}{way_back}{unknown_note}"


def _axis_list_text(axes: tuple[int, ...]) -> str:
    return " and ".join(str(axis + 1) for axis in axes)


def _density_text(dialect: Dialect) -> str:
    if dialect.log_prob is None:
        return ""
    return "density without sampler" if dialect.sample is None else "density with sampler"


def _other(dialect: Dialect) -> str:
    return " and ".join(_other_abilities(dialect)) or "of no kind that laws test"


def _other_abilities(dialect: Dialect) -> Iterator[str]:
    if dialect.cdf is not None:
        yield "distribution function" + (" with quantiles" if dialect.icdf is not None else "")
    if dialect.dequantize is not None:
        yield "dequantizer"
    if any(getattr(dialect, name) is not None for name in PROCESS):
        yield "process that takes data to noise"
    if dialect.sample is not None:
        yield "sampler without density"
