"""Code that answers depend on: what a function may look up, and which code is taken to stay as it is."""

from __future__ import annotations

import functools
import sysconfig
from pathlib import Path
from types import CodeType, ModuleType

INSTALLED = (*map(sysconfig.get_path, ("stdlib", "platstdlib", "purelib", "platlib")), str(Path(__file__).parents[1]))
"""Where the code of Python, of installed packages and of drawahead lies."""


def is_installed(module: ModuleType | None) -> bool:
    """Whether a module is Python's or an installed package's: by where its file is, not by its name."""
    return (getattr(module, "__file__", None) or INSTALLED[0]).startswith(INSTALLED)


@functools.lru_cache(4096)
def names_in(code: CodeType) -> tuple[str, ...]:
    """What a function, and those inside it, may look up: names, and texts that may be names."""
    inner = [name for constant in code.co_consts if isinstance(constant, CodeType) for name in names_in(constant)]
    texts = [constant for constant in code.co_consts if isinstance(constant, str) and constant.isidentifier()]
    return tuple(dict.fromkeys([*code.co_names, *inner, *texts]))
