"""Left-to-right models of transformers, sampled in parallel rounds: `model.generate(..., custom_generate=FOLDER)`.

FOLDER is the one above this one. All arguments are those of `generate`, and of `drawahead.adapters.generate`. Without a
`sampler` a few passes are timed first; where one over several tokens takes as long as they take one by one, `generate`
goes on with its own loop.
"""

import logging
import time

import torch
import transformers

import drawahead as da

LOG = logging.getLogger("drawahead")
KNOWN = ("5.22",)
"""The versions of transformers that this was tried with."""
LEAST, WINDOW, MOST = 100, 32, 2.0
"""With fewer tokens than LEAST nothing is timed; a pass over 8 tokens may take MOST times as long as one over 1."""
if not transformers.__version__.startswith(tuple(f"{known}." for known in KNOWN)):
    LOG.warning("drawahead: tried with transformers %s, not with %s", ", ".join(KNOWN), transformers.__version__)


def generate(model, **arguments):
    """Have transformers prepare everything as ever, and replace its loop over single tokens."""
    arguments.pop("custom_generate", None)
    config = arguments.get("generation_config") or model.generation_config
    if "sampler" not in arguments and arguments.get("do_sample", config.do_sample):  # else it is refused below
        least, reason = measured(model, arguments.get("max_new_tokens") or LEAST)
        arguments["sampler"] = da.Coupled(WINDOW, least=least)
        if reason:
            LOG.warning("drawahead: nothing is gained, and tokens are drawn one by one: %s", reason)
            if not {"seed", "stream", "on_result"} & set(arguments):  # which its own loop does not know
                ours = ("sampler", "first_guess")
                return model.generate(**{name: value for name, value in arguments.items() if name not in ours})
            arguments["sampler"] = da.Sequential()
    return model.generate(**arguments, custom_generate=da.adapters.generate)


@torch.no_grad()
def measured(model, tokens):
    """How many tokens a round must bring to pay, and why rounds are not worth it; empty if they are."""
    if tokens < LEAST:
        return 0.0, f"there are only {tokens} of them"
    if model.config.is_encoder_decoder:
        return 0.0, ""

    def seconds(number):
        ids = torch.zeros(1, number, dtype=torch.int64, device=model.device)
        began = time.perf_counter()
        model(input_ids=ids, use_cache=False).logits.sum().item()  # which waits for the device
        return time.perf_counter() - began

    one = min(seconds(1), seconds(1))  # the first call may have more to do
    few = seconds(8) / one
    if few > MOST:
        return 0.0, f"8 tokens at once take {few:.1f} times as long as one"
    return round(seconds(WINDOW) / one, 2), ""  # a text that commits fewer goes on by single tokens
