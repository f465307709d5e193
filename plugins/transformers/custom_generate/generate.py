"""Left-to-right models of transformers, sampled in parallel rounds: `model.generate(..., custom_generate=FOLDER)`.

FOLDER is the one above this one. All arguments are those of `generate`, and of `drawahead.adapters.generate`.
"""

import drawahead as da


def generate(model, **arguments):
    """Have transformers prepare everything as ever, and replace its loop over single tokens."""
    arguments.pop("custom_generate", None)
    return model.generate(**arguments, custom_generate=da.adapters.generate)
