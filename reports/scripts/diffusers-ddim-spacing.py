"""diffusers 0.42.1: with timesteps spaced by linspace, DDIM steps to other timesteps than it comes to.

The model is perfect: it predicts the noise that was added. Spaced by leading, the data come back.
"""

import sys

import torch
from diffusers import DDIMScheduler

torch.manual_seed(0)
x, noise = torch.randn(4, 3), torch.randn(4, 3)
off = {}
for spacing in ("leading", "linspace"):
    scheduler = DDIMScheduler(timestep_spacing=spacing, clip_sample=False)
    scheduler.set_timesteps(10)
    state = scheduler.add_noise(x, noise, scheduler.timesteps[:1].expand(4))
    for t in scheduler.timesteps:
        # The bug: step takes `prev_timestep = timestep - num_train_timesteps // num_inference_steps`,
        # 100 below, whatever the spacing; the timesteps of linspace are 111 apart.
        state = scheduler.step(noise, t, state).prev_sample
    off[spacing] = (state - x).abs().max().item()
    print(f"{spacing}: timesteps {scheduler.timesteps.tolist()}")
    print(f"  off by {off[spacing]:.6g} after the last step")
wrong = off["linspace"] > 1e-2 > off["leading"]
print("VIOLATED map/inverse" if wrong else "holds")
sys.exit(wrong)
