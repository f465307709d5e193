"""Code that models are made of: whose it is, and what it may look up."""

from __future__ import annotations

import functools
import sysconfig
import types

HOMES = (__file__.rpartition("code.py")[0], *map(sysconfig.get_path, ("stdlib", "platstdlib", "purelib", "platlib")))
"""Where Python, installed packages and drawahead lie."""


@functools.lru_cache(4096)
def names_in(code: types.CodeType) -> tuple[str, ...]:
    """What a function, and those inside it, may look up: names, and texts that may be names."""
    inner = [name for one in code.co_consts if isinstance(one, types.CodeType) for name in names_in(one)]
    texts = [constant for constant in code.co_consts if isinstance(constant, str) and constant.isidentifier()]
    return tuple(dict.fromkeys([*code.co_names, *inner, *texts]))


@functools.lru_cache(4096)
def is_installed(file: str | None) -> bool:
    """Whether a module is Python's, an installed package's or ours: by where its file is, not by its name."""
    return (file or HOMES[0]).startswith(HOMES)
