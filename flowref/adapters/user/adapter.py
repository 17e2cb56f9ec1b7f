"""User code without an adapter: objects that follow a protocol rather than belong to a library.

A bijection is ``forward(x) -> (z, log_det)`` with ``inverse(z) -> (x, log_det)``, or ``forward(x) -> z``,
``inverse(z) -> x`` with ``log_abs_det_jacobian(x, z)``; ``inverse`` may be missing. A density is
``log_prob(x)`` with ``sample(n)`` or ``sample((n,))``. A batch normalizer is a module with ``forward(x) ->
y``, or a bijection that normalizes. An object may be several of these.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from flowref.adapters.common.signatures import parameter_names
from flowref.adapters.user import calls, contributions
from flowref.adapters.user.conventions import return_forms
from flowref.adapters.user.conventions.call_forms import CallForm, Chosen
from flowref.adapters.user.conventions.entries import by_entries
from flowref.adapters.user.conventions.labels import with_labels
from flowref.adapters.user.conventions.names import NEGATIVE, SCORES, USUAL
from flowref.adapters.user.conventions.roles import forward_call_form, inverse_call_forms
from flowref.adapters.user.conventions.samples import sampler
from flowref.adapters.user.conventions.separate_log_dets import usual_log_det
from flowref.adapters.user.conventions.signatures import demand, takes_time_alone
from flowref.adapters.user.conventions.user_choices import normalizing_of
from flowref.adapters.user.facts import describe
from flowref.adapters.user.processes.noise_processes import methods_read, processes_of
from flowref.model import Adapter, Dialect
from flowref.model.call import PROCESS

# Abilities offered by a method of the same name.
OPTIONAL: dict[str, Any] = {
    "rsample": calls.rsample,
    "cdf": calls.cdf,
    "icdf": calls.icdf,
    "loss": calls.loss,
    "dequantize": calls.dequantize,
}


def recognizes(obj: Any) -> Dialect | None:
    """The calling convention of an object that follows a protocol, from its attributes; calls complete it.
    None if it follows none.
    """
    return dialect_of(obj, {})


def part_of(obj: Any, column: bool, classes: int = 0) -> Dialect | None:
    """The calling convention of a part of a composite; ``column``: running log-dets are ``(n, 1)``;
    ``classes``: number of class labels, if contexts stand for labels.
    """
    dialect = dialect_of(obj, {}, column)
    return with_labels(dialect, classes) if dialect is not None and classes else dialect


def dialect_of(obj: Any, chosen: Chosen, column: bool = False) -> Dialect | None:
    """The calling convention of an object, given the user's choices for ambiguous conventions; None if
    there is none.
    """
    if (kernel := contributions.kernel(obj, chosen)) is not None:
        return kernel
    forward = forward_call_form(obj, chosen)
    if forward is not None and chosen.get("returns") == "log_prob":
        return Dialect(log_prob=partial(calls.log_prob_named, method=""))
    backs = inverse_call_forms(obj, forward, chosen)
    invertible = bool(backs)
    dense = _method_name(obj, "log_prob", chosen, USUAL)
    if not dense and all(callable(getattr(obj, name, None)) for name in (SCORES, "sample")):
        dense = SCORES
    single = hasattr(obj, "log_abs_det_jacobian")
    meant = invertible or not dense or single or "forward" in chosen
    mapping = forward is not None and meant
    process = processes_of(obj)
    mapping = mapping and (invertible or single or not process or "forward" in chosen)
    if forward is not None and "forward" not in chosen:
        # f(t) and g(t) of an equation, say, or a schedule that returns the shares of data and noise.
        weak = not invertible or len(forward.method) == 1
        timed = weak and takes_time_alone(obj, forward.method or "forward")
        mapping = mapping and not timed and forward.method not in methods_read(process)
    offered = {name: call for name, call in OPTIONAL.items() if offers(obj, name)} | process
    if offers(obj, "dequantise"):
        offered.setdefault("dequantize", calls.dequantize)
    if not mapping and not dense:
        return Dialect(**offered) if offered.keys() & {"dequantize", "icdf", *PROCESS} else None
    abilities = dict(offered)
    if mapping:
        assert forward is not None
        beside = usual_log_det(obj) if forward.usual else None
        abilities["forward"] = (
            beside.onward(forward.ask, return_forms.first_of)
            if beside
            else unsettled(forward, column)
        )
        if single and forward.usual:
            abilities["log_det_by_method"] = calls.log_det_by_method
        if invertible:
            source = usual_log_det(obj) if backs[0].usual else None
            abilities["inverse"] = (
                source.back(backs[0].ask, return_forms.first_of)
                if source
                else unsettled(backs[0], column)
            )
        if calls.parts(obj):
            abilities["parts"] = calls.parts
    if dense:
        ask: Any = calls.log_prob_negated if dense in NEGATIVE else calls.log_prob_named
        if by_entries(obj, dense, chosen.get("sample", "sample")):
            ask = calls.log_prob_of_entries
        abilities["log_prob"] = partial(ask, method=dense)
        if (draw := sampler(obj, chosen)) is not None:
            abilities["sample"] = draw
        if callable(getattr(obj, "bits_per_dim", None)):
            abilities["bits_per_dim"] = partial(calls.log_prob_named, method="bits_per_dim")
    if dense and mapping:
        abilities |= calls.of_base(obj)
    if callable(getattr(obj, "repair", None)):
        abilities["repair"] = contributions.repair
    return Dialect(**abilities, normalizing=normalizing_of(chosen))


def _method_name(obj: Any, what: str, chosen: Chosen, usual: tuple[str, ...]) -> str:
    """The method named by the user, else the first of the usual names that the object has."""
    if name := chosen.get(what, ""):
        demand(obj, what, name)
    return name or next((one for one in usual if callable(getattr(obj, one, None))), "")


def unsettled(way: CallForm, column: bool) -> Any:
    """The dialect function of a call that was not tried yet: it returns a pair, or a value alone."""
    return way.dialect_function(return_forms.first_of, return_forms.second_of, column=column)


def offers(obj: Any, name: str) -> bool:
    """Whether an object has a method ``name`` with the required arguments: cdf and icdf only together, a
    loss with data and the weight of its penalty.
    """
    method = getattr(obj, name, None)
    if name in ("cdf", "icdf"):
        return all(callable(getattr(obj, one, None)) for one in ("cdf", "icdf"))
    if name != "loss" or not callable(method):
        return callable(method)
    arguments = parameter_names(method)
    return len(arguments) == 2 and "weight" in arguments[1]


ADAPTER = Adapter(
    name="user",
    package="",
    title="user code",
    components=dict,
    recognizes=recognizes,
    describe=describe,
    backend="",
)
