"""`python -m studies NAME [options]`; without a name, the list of studies. `make bench STUDY=NAME` does the same."""

from __future__ import annotations

import argparse
import importlib
import shlex
import sys
from collections.abc import Sequence
from typing import Any

from studies import STUDIES


def main(words: Sequence[str]) -> None:
    """Run the study that the first word names."""
    if not words or words[0] in ("-h", "--help"):
        print(listed())
        return
    name, *rest = words
    if name not in STUDIES:
        sys.exit(f"there is no study {name!r}; there are {', '.join(STUDIES)}")
    run(name, rest)


def listed() -> str:
    """Every study, a line each."""
    width = max(map(len, STUDIES))
    lines = (f"  {name:{width}}  {about}" for name, (_, about) in STUDIES.items())
    return "\n".join(["python -m studies NAME [--out docs] [options], or make bench STUDY=NAME", "", *lines])


def run(name: str, words: Sequence[str]) -> None:
    """Run one study with these options, and say what was written."""
    from drawahead.errors import DrawaheadError
    from studies.study import Study, shared_options

    module: Any = importlib.import_module(STUDIES[name][0])
    study = getattr(module, "STUDY", module)  # what writes no page is a module with the same two functions
    shared = [shared_options()] if isinstance(study, Study) else []
    parser = argparse.ArgumentParser(prog=f"python -m studies {name}", description=module.__doc__, parents=shared)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    study.options(parser)
    arguments = parser.parse_args(words)
    arguments.words = shlex.join(shared[0].parse_known_args(words)[1]) if shared else ""
    try:
        for path in study.run(arguments):
            print(f"wrote {path}", flush=True)
    except DrawaheadError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main(sys.argv[1:])
