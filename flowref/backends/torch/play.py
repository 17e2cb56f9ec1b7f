"""Scenarios on one live torch object: the ability behind the laws of mode and state.

A scenario is a list of steps, played in order on one private copy; the outcome of each step is returned as plain values.

=============================  ===============================================================================
step                           outcome
=============================  ===============================================================================
("train",), ("eval",)          {"returned_self": bool, "recursed": bool}: what ``.train()`` / ``.eval()`` did
("call", which, x, context)    `Mapped`, in the current mode; which "forward", "inverse" or "log_prob"
("call", which, x, ctx, how)   the same under "no_grad", "inference_mode" or "checkpoint"
("step", x, context)           one SGD step of size 1e-2 on the loss; {"loss", "gradients": {name: array or None}}
("nudge", seed, scale)         None; trainable parameters moved in place, as an optimiser does
("state",)                     {name: array}: parameters and buffers (or tensor attributes, for what is no module)
("reload",)                    None; the state_dict goes into a newly built object (strict), which plays on
("deepcopy",) ("pickle",)      None; the copy plays on
("torch_save",)                None; saved and loaded through torch, the copy plays on
("graph",)                     {name: True}: the buffers and tensor attributes that hold an autograd graph
("cast", dtype)                None; ``.to(dtype)``
("dtypes",)                    {name: dtype}: of every floating parameter and buffer
("meta",)                      {name: device}: of every tensor the object holds, after ``.to("meta")``
("count",)                     number of tensors alive in the process, after a garbage collection
=============================  ===============================================================================

A step that the object cannot take (no modules, no state_dict) raises `Unsupported`; anything else it raises goes through.
"""
