"""Random samplers of ComfyUI in parallel rounds. Whatever cannot be is left to ComfyUI's own function, and said."""

import logging
import math
import time

import comfy.samplers
import torch
from comfy.k_diffusion import sampling
from comfyui_version import __version__

import drawahead as da

LOG = logging.getLogger("drawahead")
KNOWN = ("0.7",)
"""The versions of ComfyUI whose samplers were compared."""
if not __version__.startswith(tuple(f"{known}." for known in KNOWN)):
    LOG.warning("drawahead: compared with the samplers of ComfyUI %s, not %s", ", ".join(KNOWN), __version__)
PLANS = {
    "euler_ancestral": da.EulerAncestral,
    "ddpm": da.EulerAncestral,  # in these coordinates, with eta = 1 and s_noise = 1
    "dpmpp_2m_sde": da.science.DPMPP2MSDE,
    "dpmpp_sde": da.science.DPMPPSDE,
}
LEAST, AHEAD, WORTH = 100, 16, 1.3
"""With fewer steps than LEAST a few timings would be more than a tenth of them; AHEAD of the step, if WORTH it."""
CLOSE = 1e-2


def sample(model, x, sigmas, extra_args=None, callback=None, disable=None, *, name, eta=1.0, s_noise=1.0, window=0):
    """What `KSAMPLER` calls: samples (batch, ...) with the distribution of ComfyUI's sampler of this name."""
    options = {} if name == "ddpm" else {"eta": eta, "s_noise": s_noise}
    extra_args, steps = extra_args or {}, len(sigmas) - 1

    def denoise(states, sigma):
        return model(states.to(x.dtype), sigma.to(x), **extra_args)

    shown, reason = Shown(denoise), why_not(model, sigmas, extra_args, **options)
    if not reason:
        plan = PLANS[name](tuple(sigmas.tolist()), **options)
        start = x.double()
        if name == "dpmpp_sde":  # beside the image, the noise of half a step
            start = torch.stack([start, torch.zeros_like(start)], dim=1)
        chain = da.adapters.from_k_diffusion(shown, plan, x.shape[1:], device=x.device).replace(start=start)
        least = 0.0
        if not window:
            window, (least, reason) = AHEAD, measured(denoise, x, sigmas)
        if not reason and mixes(denoise, x, sigmas):
            reason = "the model answers otherwise about several steps at once"
    if reason:
        LOG.info("drawahead: %s is taken one step at a time: %s", name, reason)
        return getattr(sampling, f"sample_{name}")(model, x, sigmas, extra_args, callback, disable, **options)
    done = 0

    def look(report):
        nonlocal done
        reached = min((taken[-1] for taken in report.progress.values()), default=0)
        if callback is not None and reached > done and shown.prediction is not None:
            done = reached
            preview, level = shown.prediction.expand_as(x), sigmas[reached - 1]
            callback({"x": preview, "i": reached - 1, "sigma": level, "sigma_hat": level, "denoised": preview})

    seed = int(extra_args.get("seed") or 0) % 2**63
    try:
        sampler = da.Coupled(window, least=least)
        result = da.sample(chain, len(x), sampler=sampler, seed=seed, graphs=False, max_live=len(x), on_round=look)
    except da.SamplingError as error:  # such as the user's interruption, which ComfyUI wants to see itself
        raise error.__cause__ or error from None
    LOG.info("drawahead: %s in %.1f rounds instead of %d", name, result.report.mean_rounds, steps)
    return result.samples.to(x)


class Shown:
    """A denoiser that keeps its newest prediction, at the lowest noise it was asked about, for previews."""

    def __init__(self, denoise):
        self.denoise, self.prediction = denoise, None

    def __call__(self, states, sigma):
        answer = self.denoise(states, sigma)
        self.prediction = answer[sigma.argmin()][None]
        return answer


def why_not(model, sigmas, extra_args, eta=1.0, s_noise=1.0):
    """Why these steps cannot be taken ahead, as far as can be told without asking the model; empty if they can."""
    if not (0 < eta <= 1 and s_noise > 0):
        return f"with eta={eta:g} and s_noise={s_noise:g} it has steps without noise"
    if extra_args.get("denoise_mask") is not None:
        return "a mask is put on the latents in every step"
    guider = getattr(model, "inner_model", None)
    kind = getattr(getattr(guider, "inner_model", None), "model_sampling", None)
    flows = kind is not None and float(kind.noise_scaling(torch.tensor(0.5), torch.zeros(1), torch.ones(1))) != 1
    if flows or not bool((sigmas[1:] < sigmas[:-1]).all()):
        return "its noise levels are those of a flow model, or do not fall"
    for one in [one for some in getattr(guider, "conds", {}).values() for one in some or ()]:
        whole = getattr(one.get("control"), "timestep_percent_range", (0.0, 1.0)) == (0.0, 1.0)
        if not whole or {"timestep_start", "timestep_end", "hooks"} & set(one):
            return "a condition begins or ends at a step"
        told = [getattr(each, "cond", None) for each in one.get("model_conds", {}).values()]
        if any(isinstance(each, torch.Tensor) and each.dim() and len(each) > 1 for each in told):
            return "each image has conditions of its own"
    return ""


def measured(denoise, x, sigmas):
    """How many steps a round must bring to pay, and why rounds are not worth it; empty if they are.

    A round asks about AHEAD + 1 steps of each image. How many rounds there will be is what the shipped networks took,
    rounded up; a sample that needs more goes on by single steps.
    """
    steps = len(sigmas) - 1
    if steps < LEAST:
        return 0.0, f"nothing is gained (there are only {steps} steps)"

    def seconds(times):
        states, level = x.repeat(times, *[1] * (x.dim() - 1)), sigmas[:1].to(x).expand(times * len(x))
        began = time.perf_counter()
        denoise(states, level).sum().item()  # which waits for the device
        return time.perf_counter() - began

    one = min(seconds(1), seconds(1))  # the first call of a size may have more to do
    rows, ratio = 4, min(seconds(4), seconds(4)) / one
    if ratio < 1.5:
        rows, ratio = AHEAD + 1, seconds(AHEAD + 1) / one
    needed = ratio * (AHEAD + 1) / rows
    if steps < WORTH * needed * (2 * math.sqrt(steps) + steps / (2 * AHEAD)):
        return 0.0, f"nothing is gained ({rows} steps at once take {ratio:.1f} times as long as one)"
    return needed, ""


def mixes(denoise, x, sigmas):
    """Whether answers about several steps at once differ from those one by one: some patches of models look at a
    batch's first row alone."""
    steps = [0, (len(sigmas) - 1) // 2, len(sigmas) - 2]
    levels = sigmas[steps].to(x)
    states = torch.cat([x[:1] * (level / levels[0]) for level in levels])
    together = denoise(states, levels)[1:]
    alone = torch.cat([denoise(states[i : i + 1], levels[i : i + 1]) for i in (1, 2)])
    return float((together - alone).abs().max()) > CLOSE * (1 + float(alone.abs().max()))


class DrawaheadSampler:
    """The node."""

    @classmethod
    def INPUT_TYPES(cls):
        number = {"min": 0.0, "max": 100.0, "step": 0.01, "round": False, "default": 1.0}
        ahead = {"default": 0, "min": 0, "max": 1000, "tooltip": "Steps ahead; 0 measures and chooses."}
        return {
            "required": {
                "sampler": (list(PLANS),),
                "eta": ("FLOAT", number),
                "s_noise": ("FLOAT", number),
                "window": ("INT", ahead),
            }
        }

    RETURN_TYPES, FUNCTION, CATEGORY = ("SAMPLER",), "make", "sampling/custom_sampling/samplers"

    def make(self, sampler, eta, s_noise, window):
        options = {"name": sampler, "eta": eta, "s_noise": s_noise, "window": window}
        return (comfy.samplers.KSAMPLER(sample, options),)


NODE_CLASS_MAPPINGS = {"DrawaheadSampler": DrawaheadSampler}
NODE_DISPLAY_NAME_MAPPINGS = {"DrawaheadSampler": "drawahead sampler"}
