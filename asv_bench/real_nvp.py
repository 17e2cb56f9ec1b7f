"""The reference couplings beside those of four libraries, in ratios: `python asv_bench/real_nvp.py`.

Eight affine couplings of 16 features with conditioners of two hidden layers of 64, a batch of 1024, float32, one thread. All take
turns in one run; times are the processor's for this thread, ratios are of the medians and, in brackets, of the shortest times.
Below them: the compiled log-density over the time of the eight conditioners alone, and the inverse over the forward map.
Figures are for reading; nothing is asserted.
"""

from __future__ import annotations

import statistics
import time
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from flowref import reference as ref

FEATURES, DEPTH, HIDDEN, BATCH = 16, 8, (64, 64), 1024
ROUNDS, UNTIMED, TIMED = 30, 1, 3
Call = Callable[[], Any]


def flowref() -> tuple[nn.Module, Callable[[Tensor], Tensor]]:
    """The reference: halves that take turns."""
    half = FEATURES // 2
    layers = [
        ref.AffineCoupling(ref.channel_mask(FEATURES, index), ref.MLP(half, FEATURES, HIDDEN)) for index in range(DEPTH)
    ]
    flow = ref.Flow(ref.StandardNormal((FEATURES,)), ref.Chain(*layers))
    return flow, flow.log_prob


def normflows() -> tuple[nn.Module, Callable[[Tensor], Tensor]]:
    """Blocks with a swap of the halves between them."""
    import normflows as nf

    flows = []
    for _ in range(DEPTH):
        net = nf.nets.MLP([FEATURES // 2, *HIDDEN, FEATURES], init_zeros=True)
        flows += [nf.flows.AffineCouplingBlock(net), nf.flows.Permute(FEATURES, mode="swap")]
    model = nf.NormalizingFlow(nf.distributions.DiagGaussian(FEATURES, trainable=False), flows)
    return model, model.log_prob


def nflows() -> tuple[nn.Module, Callable[[Tensor], Tensor]]:
    """Masks of halves that take turns."""
    from nflows import distributions, flows, transforms

    class Net(ref.MLP):
        """The same conditioner, with the argument that the library passes."""

        def forward(self, x: Tensor, context: Any = None) -> Tensor:
            """The values."""
            return super().forward(x)

    def coupling(index: int) -> Any:
        mask = ref.channel_mask(FEATURES, index).float()
        return transforms.AffineCouplingTransform(mask, lambda inputs, outputs: Net(inputs, outputs, HIDDEN))

    chain = transforms.CompositeTransform([coupling(index) for index in range(DEPTH)])
    flow = flows.Flow(chain, distributions.StandardNormal((FEATURES,)))
    return flow, flow.log_prob


def zuko() -> tuple[nn.Module, Callable[[Tensor], Tensor]]:
    """The library's own architecture of this name."""
    import zuko

    flow = zuko.flows.RealNVP(FEATURES, transforms=DEPTH, hidden_features=HIDDEN)
    return flow, lambda x: flow().log_prob(x)


def freia() -> tuple[nn.Module, Callable[[Tensor], Tensor]]:
    """Blocks that transform both halves in turn, so half as many."""
    import FrEIA.framework as ff
    import FrEIA.modules as fm

    model = ff.SequenceINN(FEATURES)
    for _ in range(DEPTH // 2):
        model.append(fm.RNVPCouplingBlock, subnet_constructor=lambda i, o: ref.MLP(i, o, HIDDEN))
    base = ref.StandardNormal((FEATURES,))

    def log_prob(x: Tensor) -> Tensor:
        z, ladj = model(x)
        density: Tensor = base.log_prob(z) + ladj
        return density

    return model, log_prob


def seconds(call: Call) -> float:
    """The processor time of one call."""
    began = time.thread_time()
    call()
    return time.thread_time() - began


def in_turns(calls: dict[str, Call]) -> dict[str, list[float]]:
    """The times of all calls, which take turns; the first lap warms up."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for lap in range(1 + ROUNDS):
        for name, call in calls.items():
            taken = [seconds(call) for _ in range(UNTIMED + TIMED)]
            times[name] += taken[UNTIMED:] if lap else []
    return times


def told(title: str, times: dict[str, list[float]], base: str) -> None:
    """Print how many times as long each takes."""
    print(f"{title}; {base} {1e3 * statistics.median(times[base]):.2f} ms")
    for name, taken in times.items():
        if name != base:
            median, best = statistics.median(taken) / statistics.median(times[base]), min(taken) / min(times[base])
            print(f"  {name}: {median:.2f} ({best:.2f}) times as long")


def main() -> None:
    """Print the figures."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    torch.manual_seed(0)
    x = torch.randn(BATCH, FEATURES)
    built = {make.__name__: make() for make in (flowref, normflows, nflows, zuko, freia)}

    def log_prob(density: Callable[[Tensor], Tensor]) -> Call:
        def call() -> None:
            with torch.no_grad():
                density(x)

        return call

    def step(model: nn.Module, density: Callable[[Tensor], Tensor]) -> Call:
        adam = torch.optim.Adam(model.parameters(), lr=1e-4)

        def call() -> None:
            adam.zero_grad()
            (-density(x).mean()).backward()
            adam.step()

        return call

    told("log_prob", in_turns({name: log_prob(density) for name, (_, density) in built.items()}), "flowref")
    told("training step with Adam", in_turns({name: step(*pair) for name, pair in built.items()}), "flowref")
    flow = built["flowref"][0]
    assert isinstance(flow, ref.Flow)
    chain = flow.bijection
    assert isinstance(chain, ref.Chain)
    nets = [layer.conditioner for layer in chain if isinstance(layer, ref.AffineCoupling)]
    halves = x[:, : FEATURES // 2].contiguous()

    def conditioners() -> None:
        with torch.no_grad():
            for net in nets:
                net(halves)

    calls: dict[str, Call] = {
        "conditioners alone": conditioners,
        "log_prob, eager": log_prob(flow.log_prob),
        "forward": log_prob(lambda x: chain(x)[0]),
        "inverse": log_prob(lambda x: chain.inverse(x)[0]),
    }
    try:
        compiled = torch.compile(flow.log_prob, fullgraph=True)
        log_prob(compiled)()
        calls["log_prob, compiled"] = log_prob(compiled)
    except Exception as error:  # no C++ compiler here, say; the eager figures stand alone
        print(f"torch.compile does not run here: {type(error).__name__}: {str(error).splitlines()[0]}")
    times = in_turns(calls)
    told(
        "over the conditioners",
        {name: t for name, t in times.items() if "log_prob" in name or "alone" in name},
        "conditioners alone",
    )
    told("the inverse", {name: times[name] for name in ("forward", "inverse")}, "forward")


if __name__ == "__main__":
    main()
