"""FrEIA models of published size."""

from __future__ import annotations

from typing import Any

from flowref.adapters.common import published_models as sizes
from flowref.adapters.common.published_models import Model
from flowref.adapters.freia.constructions import quiet


def models() -> dict[str, Model]:
    """Name -> model."""
    return {
        "real-nvp-mnist": Model(quiet(_dense), (sizes.MNIST.features,), sizes.MAF),
        "real-nvp-cifar10": Model(quiet(_images), sizes.CIFAR, sizes.REAL_NVP),
        "residual-2d": Model(quiet(_residual), (2,), sizes.RESIDUAL),
    }


def graphs() -> dict[str, Model]:
    """Name -> model whose latents are factored out level by level."""
    return {"glow-cifar10": Model(quiet(_glow), sizes.CIFAR, sizes.GLOW)}


def _dense() -> Any:
    import FrEIA.framework as ff
    import FrEIA.modules as fm
    from torch import nn

    size = sizes.MNIST

    def network(inputs: int, outputs: int) -> Any:
        return nn.Sequential(
            nn.Linear(inputs, size.hidden),
            nn.ReLU(),
            nn.Linear(size.hidden, size.hidden),
            nn.ReLU(),
            nn.Linear(size.hidden, outputs),
        )

    stack = ff.SequenceINN(size.features)
    for index in range(size.steps):
        stack.append(fm.RNVPCouplingBlock, subnet_constructor=network)
        stack.append(fm.PermuteRandom, seed=index)
    return stack


def _images() -> Any:
    """Couplings at two resolutions, with networks of the published number of convolutions; nothing is
    factored out after the first.
    """
    import FrEIA.framework as ff
    import FrEIA.modules as fm
    from torch import nn

    blocks, hidden = sizes.REAL_NVP_SIZE

    def network(inputs: int, outputs: int) -> Any:
        layers: list[Any] = [nn.Conv2d(inputs, hidden, 3, padding=1), nn.ReLU()]
        for _ in range(blocks - 1):
            layers += [nn.Conv2d(hidden, hidden, 3, padding=1), nn.ReLU()]
        return nn.Sequential(*layers, nn.Conv2d(hidden, outputs, 3, padding=1))

    stack = ff.SequenceINN(*sizes.CIFAR)
    for index in range(3):
        stack.append(fm.RNVPCouplingBlock, subnet_constructor=network)
        stack.append(fm.PermuteRandom, seed=index)
    stack.append(fm.IRevNetDownsampling)
    for index in range(3):
        stack.append(fm.RNVPCouplingBlock, subnet_constructor=network)
        stack.append(fm.PermuteRandom, seed=3 + index)
    return stack


def _glow() -> Any:
    """Levels of blocks with a 1x1 convolution each; half of the channels is factored out."""
    import FrEIA.framework as ff
    import FrEIA.modules as fm
    from torch import nn

    levels, steps, hidden = sizes.GLOW_SIZE

    def network(inputs: int, outputs: int) -> Any:
        return nn.Sequential(
            nn.Conv2d(inputs, hidden, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(hidden, hidden, 1),
            nn.ReLU(),
            nn.Conv2d(hidden, outputs, 3, padding=1),
        )

    nodes: list[Any] = [ff.InputNode(*sizes.CIFAR, name="image")]
    leaving = []
    last = nodes[0]
    for level in range(levels):
        last = ff.Node(last, fm.IRevNetDownsampling, {}, name=f"squeeze {level}")
        nodes.append(last)
        for step in range(steps):
            options = {"subnet_constructor": network, "permute_soft": True}
            last = ff.Node(last, fm.AllInOneBlock, options, name=f"step {level}.{step}")
            nodes.append(last)
        if level < levels - 1:
            split = ff.Node(last, fm.Split, {}, name=f"split {level}")
            flat = ff.Node(split.out1, fm.Flatten, {}, name=f"flat {level}")
            leaving.append(flat.out0)
            nodes += [split, flat]
            last = split.out0
    flat = ff.Node(last, fm.Flatten, {}, name=f"flat {levels - 1}")
    whole = ff.Node([*leaving, flat.out0], fm.Concat, {}, name="latents")
    return ff.GraphINN([*nodes, flat, whole, ff.OutputNode(whole, name="output")])


def _residual() -> Any:
    import FrEIA.framework as ff
    import FrEIA.modules as fm

    steps, hidden = sizes.RESIDUAL_SIZE
    stack = ff.SequenceINN(2)
    for _ in range(steps):
        stack.append(fm.ActNorm)
        stack.append(fm.IResNetLayer, internal_size=hidden, n_internal_layers=2)
    for module in stack.module_list:
        if isinstance(module, fm.IResNetLayer):
            # Users must do this after each gradient step.
            for _ in range(20):
                module.lipschitz_correction()
    return stack
