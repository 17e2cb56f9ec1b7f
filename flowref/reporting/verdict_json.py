"""Verdicts as JSON and back, exactly: every float is a hexadecimal string; reports add its decimals
for readers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import Any

from flowref.model import (
    Condition,
    Counterexample,
    Counts,
    Evidence,
    Figure,
    Method,
    Recognized,
    ReportError,
    Size,
    Status,
    Verdict,
    one_line,
)

Json = Any
# Redundant keys of a report for readers, ignored when it is read back.
DECIMAL, ID, SEVERITY = "decimal", "id", "severity"
# The key of `Verdict.blocked` and `NotJudged.blocked`.
BLOCKED = "waits"


class Hex(str):
    """A float in hexadecimal."""

    __slots__ = ()


def hexed(value: float) -> Hex:
    """Return a float as lossless text.

    >>> hexed(0.1), hexed(-0.0), hexed(float("nan"))
    ('0x1.999999999999ap-4', '-0x0.0p+0', 'nan')
    """
    return Hex(float(value).hex())


def unhexed(text: Json) -> float:
    """Return the float that `hexed` wrote; nan is `math.nan`. Raises: `ReportError`."""
    if not isinstance(text, str):
        raise ReportError(
            f"a number was written as {text!r}; expected a hexadecimal float such as '0x1.8p+1'"
        )
    value = float.fromhex(text)
    return math.nan if math.isnan(value) else value


def readable(row: Json) -> Json:
    """Return a JSON object with decimals of its floats under ``decimal``; non-finite ones are the
    texts nan, inf and -inf.

    >>> readable({"seconds": hexed(0.25), "law": "a/b"})
    {'seconds': '0x1.0000000000000p-2', 'law': 'a/b', 'decimal': {'seconds': 0.25}}
    """
    if not isinstance(row, dict):
        return row
    found: dict[str, Json] = {}
    if "observed" in row:  # a counterexample; its arrays get no decimals
        if row["observed"].get("dict"):
            found["observed"] = _decimals(unpacked(row["observed"]))
        row = {**row, "condition": readable(row["condition"])}
    else:
        found = {
            name: _decimals(
                [unhexed(item) for item in value] if type(value) is list else unhexed(value)
            )
            for name, value in row.items()
            if isinstance(value, Hex)
            or (type(value) is list and value and isinstance(value[0], Hex))
        }
        row = {name: readable(value) for name, value in row.items()}
    return {**row, DECIMAL: found} if found else row


def _decimals(value: Any) -> Json:
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, list | tuple):
        return [_decimals(item) for item in value]
    if isinstance(value, dict):
        return {str(key): _decimals(item) for key, item in value.items()}
    return value


def packed(value: Any) -> Json:
    """Return any plain value as JSON: floats, tuples and mappings are tagged, arrays become lists,
    other values their ``repr``.

    >>> packed({"got": (1, 0.5)})
    {'dict': [['got', {'tuple': [1, {'float': '0x1.0000000000000p-1'}]}]]}
    """
    if value is None or isinstance(value, bool | str) or type(value) is int:
        return value
    if isinstance(value, float):
        return {"float": hexed(value)}
    if isinstance(value, int):  # an IntEnum, say
        return int(value)
    if isinstance(value, tuple):
        return {"tuple": [packed(item) for item in value]}
    if isinstance(value, list):
        return [packed(item) for item in value]
    if isinstance(value, Mapping):
        return {"dict": [[packed(key), packed(item)] for key, item in value.items()]}
    if hasattr(value, "tolist"):  # numpy scalars and arrays, without importing numpy here
        return packed(value.tolist())
    return repr(value)


def unpacked(data: Json) -> Any:
    """Return the value that `packed` wrote. Raises: `ReportError` for an unknown tag."""
    if isinstance(data, list):
        return [unpacked(item) for item in data]
    if isinstance(data, dict):
        ((tag, content),) = data.items()
        if tag == "float":
            return unhexed(content)
        if tag == "tuple":
            return tuple(unpacked(item) for item in content)
        if tag == "dict":
            return {unpacked(key): unpacked(item) for key, item in content}
        raise ReportError(f"a value is tagged {tag!r}; expected float, tuple or dict")
    return data


def packed_array(value: Any) -> Json:
    """Return nested lists of numbers with floats as bare hexadecimal strings, shorter than
    `packed`.
    """
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [packed_array(item) for item in value]
    return hexed(value) if isinstance(value, float) else value


def unpacked_array(data: Json) -> Any:
    """Return the nested lists that `packed_array` wrote."""
    if isinstance(data, list):
        return [unpacked_array(item) for item in data]
    return unhexed(data) if isinstance(data, str) else data


def _non_default_fields(record: Any, **special: Json) -> dict[str, Json]:
    """The fields of a dataclass that differ from their defaults, floats in hexadecimal; ``special``
    ones as given.
    """
    row: dict[str, Json] = {}
    for item in fields(record):
        value = getattr(record, item.name)
        default = item.default_factory() if item.default_factory is not MISSING else item.default
        if item.name in special:
            row[item.name] = special[item.name]
        elif (
            default is MISSING
            or type(value) is not type(default)
            or not _equal_with_sign(value, default)
        ):
            row[item.name] = hexed(value) if isinstance(value, float) else value
    return row


def _equal_with_sign(one: Any, other: Any) -> bool:
    """Equality that distinguishes -0.0 from 0.0."""
    return bool(one == other) and not (
        isinstance(one, float) and math.copysign(1, one) != math.copysign(1, other)
    )


def _build(kind: type, row: Json, **special: Any) -> Any:
    """The inverse of `_non_default_fields`. Raises: `ReportError`."""
    if not isinstance(row, dict):
        raise ReportError(f"a {kind.__name__.lower()} was written as {row!r}; expected an object")
    types = {item.name: item for item in fields(kind)}
    if unknown := sorted(set(row) - set(types) - {DECIMAL, ID, SEVERITY}):
        raise ReportError(
            f"a {kind.__name__.lower()} has the unknown field {unknown[0]!r}; is the report from "
            "a newer flowref?"
        )
    values = dict(special)
    for name, value in row.items():
        if name in special or name not in types:
            continue
        expected = str(types[name].type)
        values[name] = unhexed(value) if expected == "float" else value
        if expected in ("int", "str") and type(value) is not {"int": int, "str": str}[expected]:
            raise ReportError(
                f"the {name} of a {kind.__name__.lower()} is {value!r}; expected {expected}"
            )
    try:
        return kind(**values)
    except TypeError as error:
        raise ReportError(f"a {kind.__name__.lower()} is incomplete: {error}") from None


def verdict_to_json(verdict: Verdict) -> dict[str, Json]:
    """Return a verdict as a JSON object without fields at their defaults."""
    row = _non_default_fields(
        verdict,
        status=str(verdict.status),
        counts=None,
        evidence=None,
        counterexample=None,
        figure=None,
        size=None,
    )
    for name in ("counts", "evidence", "counterexample", "figure", "size"):
        del row[name]
    if row.pop("blocked", False):
        row[BLOCKED] = True
    if verdict.repairs:
        row["repairs"] = list(verdict.repairs)
    counts = _non_default_fields(
        verdict.counts, scales=[hexed(scale) for scale in verdict.counts.scales]
    )
    if not counts["scales"]:
        del counts["scales"]
    if counts:
        row["counts"] = counts
    if verdict.evidence is not None:
        row["evidence"] = _non_default_fields(verdict.evidence)
    if verdict.size is not None:
        row["size"] = _non_default_fields(verdict.size)
    if (case := verdict.counterexample) is not None:
        row["counterexample"] = {
            "x": packed_array(case.x),
            "context": packed_array(case.context),
            "seed": case.seed,
            "condition": _non_default_fields(case.condition, part=list(case.condition.part)),
            "observed": packed(case.observed),
        }
    if (shown := verdict.figure) is not None:
        series = {name: " ".join(f"{v:g}" for v in values) for name, values in shown.series.items()}
        row["figure"] = {"kind": shown.kind, "series": series}
        if shown.note:
            row["figure"]["note"] = shown.note
    return row


def verdict_from_json(row: Json) -> Verdict:
    """Return the verdict that `verdict_to_json` wrote.

    Raises: `ReportError` for anything else.
    """
    try:
        row = dict(row)
        special: dict[str, Any] = {
            "status": Status(row["status"]),
            "blocked": row.pop(BLOCKED, False),
        }
        if "repairs" in row:
            special["repairs"] = tuple(map(str, row["repairs"]))
        if "counts" in row:
            scales = tuple(unhexed(scale) for scale in row["counts"].get("scales", ()))
            special["counts"] = _build(Counts, row["counts"], scales=scales)
        if "evidence" in row:
            special["evidence"] = _build(Evidence, row["evidence"])
        if "size" in row:
            special["size"] = _build(Size, row["size"])
        if "counterexample" in row:
            case = row["counterexample"]
            condition = _build(
                Condition, case["condition"], part=tuple(case["condition"].get("part", ()))
            )
            special["counterexample"] = Counterexample(
                x=unpacked_array(case["x"]),
                context=unpacked_array(case["context"]),
                seed=case["seed"],
                condition=condition,
                observed=unpacked(case["observed"]),
            )
        if "figure" in row:
            special["figure"] = _figure(row["figure"])
        verdict = _build(Verdict, row, **special)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ReportError(f"a verdict cannot be read ({one_line(error)})") from None
    assert isinstance(verdict, Verdict)
    return verdict


def _figure(row: Json) -> Figure:
    """The figure that `verdict_to_json` wrote, with six decimal digits."""
    series = {
        str(name): tuple(math.nan if number == "nan" else float(number) for number in text.split())
        for name, text in row["series"].items()
    }
    return Figure(str(row["kind"]), series, str(row.get("note", "")))


def recognized_to_json(recognized: Recognized) -> dict[str, Json]:
    """Return a `Recognized` as a JSON object without fields at their defaults."""
    return {
        name: list(v) if type(v) is tuple else v
        for name, v in _non_default_fields(recognized).items()
    }


def recognized_from_json(row: Json) -> Recognized:
    """Return the `Recognized` that `recognized_to_json` wrote; unknown fields are ignored.

    Raises: `ReportError` for anything else.
    """
    if not isinstance(row, dict) or not isinstance(row.get("kind"), str):
        raise ReportError(f"what a target was recognized as was written as {row!r}")
    known = {item.name for item in fields(Recognized)} & set(row)
    values: dict[str, Any] = {
        name: tuple(row[name]) if type(row[name]) is list else row[name] for name in known
    }
    if "methods" in values:
        values["methods"] = tuple(Method(*row) for row in values["methods"])
    return Recognized(**values)
