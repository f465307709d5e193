"""Random samplers of ComfyUI in parallel rounds. Whatever cannot be is left to ComfyUI's own function, and said."""

import logging

import comfy.samplers
import torch
from comfy.k_diffusion import sampling

import drawahead as da

LOG = logging.getLogger("drawahead")
NAMES = ("euler_ancestral", "ddpm", "dpmpp_2m_sde")
"""In these coordinates ddpm is euler_ancestral with eta = 1 and s_noise = 1."""
LEAST = 30
"""Fewer steps are taken one by one: a few rounds saved do not pay for measuring."""
CLOSE = 1e-2


def sample(model, x, sigmas, extra_args=None, callback=None, disable=None, *, name, eta=1.0, s_noise=1.0, window=0):
    """What `KSAMPLER` calls: samples (batch, ...) with the distribution of ComfyUI's sampler of this name."""
    options = {} if name == "ddpm" else {"eta": eta, "s_noise": s_noise}
    extra_args = extra_args or {}

    def denoise(states, sigma):
        return model(states.to(x.dtype), sigma.to(x), **extra_args)

    reason = why_not(denoise, x, sigmas, extra_args)
    if reason:
        LOG.info("drawahead: %s is taken one step at a time: %s", name, reason)
        return getattr(sampling, f"sample_{name}")(model, x, sigmas, extra_args, callback, disable, **options)
    levels = tuple(sigmas.tolist())
    schedule = da.science.DPMPP2MSDE if name == "dpmpp_2m_sde" else da.EulerAncestral
    plan = schedule(levels, **options)
    shown, done = Shown(denoise), 0
    chain = da.adapters.from_k_diffusion(shown, plan, x.shape[1:], device=x.device).replace(start=x.double())

    def look(report):
        nonlocal done
        reached = min((steps[-1] for steps in report.progress.values()), default=0)
        if callback is not None and reached > done and shown.prediction is not None:
            done = reached
            step = min(reached, len(levels) - 1) - 1
            preview = shown.prediction.expand_as(x)
            callback({"x": preview, "i": step, "sigma": sigmas[step], "sigma_hat": sigmas[step], "denoised": preview})

    sampler = da.Coupled(window) if window else None
    seed = int(extra_args.get("seed") or 0) % 2**63
    result = da.sample(chain, len(x), sampler=sampler, seed=seed, graphs=False, max_live=len(x), on_round=look)
    report = result.report
    LOG.info("drawahead: %s in %.1f rounds instead of %d", name, report.mean_rounds, len(levels) - 1)
    return result.samples.to(x)


class Shown:
    """A denoiser that keeps its newest prediction, at the lowest noise it was asked about, for previews."""

    def __init__(self, denoise):
        self.denoise, self.prediction = denoise, None

    def __call__(self, states, sigma):
        answer = self.denoise(states, sigma)
        self.prediction = answer[sigma.argmin()][None]
        return answer


def why_not(denoise, x, sigmas, extra_args):
    """Why these steps are not taken ahead; empty if they are."""
    if len(sigmas) - 1 < LEAST:
        return f"{len(sigmas) - 1} steps are too few to gain from rounds"
    if extra_args.get("denoise_mask") is not None:
        return "a mask is put on the latents in every step"
    falling = bool((sigmas[1:] < sigmas[:-1]).all())
    if not falling or float(sigmas[0]) <= 1.0:
        return "its noise levels are those of a flow model, or do not fall"
    # Conditions that begin or end at a step are chosen by a batch's first row: then rows cannot be of several steps.
    steps = [0, (len(sigmas) - 1) // 2, len(sigmas) - 2]
    states = torch.cat([x[:1] * (sigmas[i] / sigmas[0]) for i in steps])
    levels = sigmas[steps].to(x)
    together = denoise(states, levels)
    alone = torch.cat([denoise(states[i : i + 1], levels[i : i + 1]) for i in range(3)])
    if float((together - alone).abs().max()) > CLOSE * (1 + float(alone.abs().max())):
        return "the model answers otherwise about several steps at once"
    return ""


class DrawaheadSampler:
    """The node."""

    @classmethod
    def INPUT_TYPES(cls):
        number = {"min": 0.0, "max": 100.0, "step": 0.01, "round": False, "default": 1.0}
        return {
            "required": {
                "sampler": (list(NAMES),),
                "eta": ("FLOAT", number),
                "s_noise": ("FLOAT", number),
                "window": (
                    "INT",
                    {"default": 0, "min": 0, "max": 1000, "tooltip": "Steps ahead; 0 measures and chooses."},
                ),
            }
        }

    RETURN_TYPES, FUNCTION, CATEGORY = ("SAMPLER",), "make", "sampling/custom_sampling/samplers"

    def make(self, sampler, eta, s_noise, window):
        options = {"name": sampler, "eta": eta, "s_noise": s_noise, "window": window}
        return (comfy.samplers.KSAMPLER(sample, options),)


NODE_CLASS_MAPPINGS = {"DrawaheadSampler": DrawaheadSampler}
NODE_DISPLAY_NAME_MAPPINGS = {"DrawaheadSampler": "drawahead sampler"}
