"""Laws that `flowref script` writes programs of, by framework: lists, since reports load no framework. See
`flowref.scripting`.
"""

TORCH = frozenset({
    "batch-norm/as-built[values]", "batch-norm/conventions[momentum]", "batch-norm/conventions[running-variance]",
    "batch-norm/conventions[variance]", "batch-norm/gradient[bias-before]", "batch-norm/gradient[closed-form]",
    "batch-norm/statistics[buffers]", "batch-norm/statistics[counter]", "batch-norm/train-map[reference]",
    "batch-norm/train-map[scale]", "coupling/closed-form", "coupling/pattern[conditioner]",
    "coupling/pattern[kept-part]", "density/base-constant", "density/base-constant[quadratic-form]",
    "density/change-of-variables", "density/change-of-variables[samples]", "density/mass",
    "density/mass[contribution]", "density/mass[importance]", "density/score", "dtype/accurate",
    "dtype/accurate[autocast]", "dtype/accurate[digits]", "dtype/accurate[sums]", "dtype/follows",
    "dtype/follows[cast]", "dtype/follows[device-after-use]", "dtype/follows[device]",
    "dtype/follows[unmentioned-device]", "effects/graphs", "effects/process[input]", "effects/process[output]",
    "effects/process[settings]", "effects/state[eval]", "effects/state[first-call]", "effects/state[mode]",
    "gradient/finite", "gradient/input[log-det]", "gradient/input[log-prob]", "gradient/input[value]",
    "gradient/parameters[log-det]", "gradient/parameters[value]", "gradient/reaches-parameters", "map/finite",
    "map/finite-far-out[extremes]", "map/finite-far-out[outside]", "map/finite[nan-row]", "map/finite[samples]",
    "map/finite[wide]", "map/inverse", "map/inverse-jacobian", "map/inverse[batch-norm]", "map/inverse[batch-spread]",
    "map/inverse[latents]", "map/log-det", "map/log-det[antisymmetry]", "map/log-det[batch]",
    "map/log-det[differences]", "map/log-det[estimate]", "map/log-det[inverse, estimate]", "map/log-det[inverse]",
    "map/log-det[slopes]", "map/one-to-one", "map/one-to-one[orientation]", "map/promised-jacobian[constant]",
    "map/promised-jacobian[monotone]", "map/promised-jacobian[volume]", "map/singular-jacobian", "mode/protocol",
    "process/conversions", "process/moments", "process/rates", "process/schedule", "process/transitions",
    "random/rows-independent", "random/rows-independent[duplicates]", "random/seeded[construction]",
    "random/seeded[global-streams]", "random/seeded[two-calls]", "same/copied", "same/copied[after-training]",
    "same/copied[folded]", "same/copied[independence]", "same/history[optimizer-step]", "same/history[other-calls]",
    "same/history[repeat]", "same/history[same-tensor]", "same/manner-accepted", "same/manner[functional-call]",
    "same/manner[grad-modes]", "same/manner[strides]", "same/rows", "same/rows-in-train[conditioner]",
    "same/rows[conditioner]", "same/rows[large-batch]", "same/saved[cast]", "same/saved[reload]",
    "same/saved[restore]", "same/saved[resume]", "same/train-mode[density]", "same/train-mode[first-call]",
    "same/train-mode[inverse]", "same/train-mode[log-det]", "sampling/base-through-inverse",
    "sampling/follows-density[clamping]", "sampling/follows-density[ratios]", "shape/any-batch[batch-axes]",
    "shape/any-batch[batch-norm]", "shape/any-batch[one-row]", "shape/one-number-per-point[log-det]",
    "shape/one-number-per-point[log-prob]", "shape/one-number-per-point[one-feature]",
    "shape/one-number-per-point[samples]", "shape/wrong-refused[channels]", "shape/wrong-refused[features]",
    "shape/wrong-refused[ranks]", "state/degenerate-batch", "state/degenerate-batch[single-value]",
    "state/registered",
})  # fmt: skip
JAX = frozenset({
    "density/base-constant", "density/change-of-variables", "density/mass", "density/score", "gradient/finite[inverse]",
    "map/finite", "map/inverse", "map/inverse-jacobian", "map/inverse[latents]", "map/log-det",
    "map/log-det[antisymmetry]", "map/log-det[differences]", "map/log-det[inverse]", "map/one-to-one",
    "map/one-to-one[orientation]", "map/promised-jacobian[constant]", "map/promised-jacobian[monotone]",
    "map/promised-jacobian[volume]", "map/singular-jacobian", "random/rows-independent[duplicates]",
    "sampling/follows-density[ratios]", "shape/one-number-per-point[log-det]", "shape/one-number-per-point[samples]",
})  # fmt: skip
PROGRAMS = {"torch": TORCH, "jax": JAX}
