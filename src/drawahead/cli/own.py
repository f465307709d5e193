"""A user's own model on the command line: an import path, a file of Python, or a folder that holds a model."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import json
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from drawahead import adapters
from drawahead.chains import Chain
from drawahead.cli.registry import HINT
from drawahead.errors import DrawaheadError, InputError
from drawahead.oracles.denoisers import DenoisingTarget
from drawahead.oracles.tokens import TokenOracle
from drawahead.sample import as_chain


def own(name: str, *, prompt: str | None = None, steps: int | None = None) -> Chain:
    """The chain that `name` stands for. `prompt` is for folders with a language model, `steps` for diffusion ones."""
    if ":" not in name and name.endswith(".py"):
        raise InputError(f"{name} is a file: name the model in it, as in {name}:model")
    if ":" not in name:
        return _from_folder(Path(name), prompt, steps)
    if prompt is not None or steps is not None:
        raise InputError("--prompt and --steps apply to model folders only: set them in your own function")
    return as_own_chain(name, found(name))


def found(name: str) -> Any:
    """What an import path names."""
    home, _, attribute = name.rpartition(":")
    thing: Any = _module(home)
    for part in attribute.split("."):
        if not hasattr(thing, part):
            raise InputError(f"{home} has no {attribute!r}; {HINT}")
        thing = getattr(thing, part)
    return thing


def as_own_chain(name: str, thing: Any) -> Chain:
    """The chain of what an import path named: itself, that of an oracle, or what a function makes."""
    if callable(thing) and not isinstance(thing, Chain | TokenOracle | DenoisingTarget):
        if _is_pythons(thing):
            raise InputError(f"{name} is a part of Python, which makes no model; {HINT}")
        with _failures(f"{name}() failed"):
            thing = thing()
    if not isinstance(thing, Chain | TokenOracle | DenoisingTarget):
        raise InputError(
            f"{name} is of type {type(thing).__name__}, not an oracle, a denoising target or a chain; {HINT}"
        )
    return as_chain(thing)


def _is_pythons(thing: Any) -> bool:
    """Whether something is of Python's own library, such as breakpoint, exit or os.abort."""
    maker = thing.func if isinstance(thing, functools.partial) else thing
    home = sys.modules.get(str(getattr(maker, "__module__", None)))
    file = getattr(home, "__file__", None)  # a user's own module may have the same name
    listed = home is not None and home.__name__ in sys.stdlib_module_names
    return listed and (file is None or Path(file).is_relative_to(sysconfig.get_path("stdlib")))


@contextmanager
def _failures(what: str, hint: str = "") -> Iterator[None]:
    """Whatever a user's own code or files raise, in one line; `exit()` too."""
    try:
        yield
    except DrawaheadError:
        raise
    except (Exception, SystemExit) as error:
        raise InputError(f"{what}: {type(error).__name__}: {error}{hint}") from error


def _module(home: str) -> ModuleType:
    with _failures(f"{home} cannot be imported", f"; {HINT}"):
        if not home.endswith(".py"):
            if "" not in sys.path:  # as `python -m` does: modules of the current folder
                sys.path.insert(0, "")
            return importlib.import_module(home)
        path = Path(home)
        if not path.is_file():
            raise InputError(f"there is no file {home}; {HINT}")
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[path.stem] = module  # dataclasses and pickles look their module up
        spec.loader.exec_module(module)
        return module


def _from_folder(folder: Path, prompt: str | None, steps: int | None) -> Chain:
    """A model whose folder may come from anywhere: nothing in it is executed, and weights are safetensors."""
    code = next(folder.rglob("*.py"), None)
    if code is not None:  # not every version of the libraries asks before it runs such a file
        raise InputError(
            f"{folder} holds code, {code.relative_to(folder)}, which is not run from a folder: read it, load the model "
            "in a file of your own, and give file.py:name"
        )
    if (folder / "model_index.json").is_file():
        if prompt is not None:
            raise InputError("--prompt does not apply to a diffusion model")
        with _failures(f"{folder} cannot be loaded"):
            return _diffusion(folder, steps)
    if not (folder / "config.json").is_file():
        raise InputError(f"{folder} holds neither config.json (transformers) nor model_index.json (diffusers)")
    if steps is not None:
        raise InputError("--steps does not apply to a language model")
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{folder / 'config.json'} cannot be read: {error}") from None
    permutation = isinstance(config, dict) and config.get("model_type") == "xlnet"
    with _failures(f"{folder} cannot be loaded"):
        return _language_model(folder, permutation, prompt)


def _diffusion(folder: Path, steps: int | None) -> Chain:
    pipeline = adapters.DrawaheadPipeline.from_pretrained(
        str(folder), local_files_only=True, use_safetensors=True, trust_remote_code=False
    )
    chain: Chain = adapters.from_diffusers(pipeline.unet, pipeline.scheduler, num_inference_steps=steps)
    return chain


def _language_model(folder: Path, permutation: bool, prompt: str | None) -> Chain:
    try:
        import transformers
    except ImportError:
        raise InputError(
            "a folder with a language model needs transformers: pip install 'drawahead[transformers]'"
        ) from None
    kind = transformers.AutoModelForCausalLM if permutation else transformers.AutoModelForMaskedLM
    here = {"local_files_only": True, "trust_remote_code": False}
    tokenizer = transformers.AutoTokenizer.from_pretrained(str(folder), **here)
    model = kind.from_pretrained(str(folder), use_safetensors=True, **here)
    language_model = (adapters.PermutationLM if permutation else adapters.MaskedLM)(model, tokenizer)
    chain: Chain = language_model.chain(prompt or " ".join([tokenizer.mask_token] * 12))
    return chain
