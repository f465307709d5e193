"""Any pipeline of diffusers, sampled in parallel rounds.

For `DiffusionPipeline.from_pretrained(..., custom_pipeline=FOLDER)`, FOLDER being this one. The pipeline that
`model_index.json` names is built from its own components, and its loop is sampled by drawahead. It is called like that
pipeline, and what it returns has a `report` beside.

Where nothing is gained, the pipeline's own loop runs, and `report` is None: with fewer than LEAST steps, and once a
call has shown that this machine takes single steps as fast. A `sampler` that is named is always used.
"""

import inspect
import logging
import threading
from collections import defaultdict

import diffusers
from diffusers import DiffusionPipeline

import drawahead as da

LOG = logging.getLogger("drawahead")
KNOWN = ("0.42",)
"""The versions of diffusers that this was tried with."""
LEAST = 100
"""With fewer steps, reading the loop and timing a few rounds would take more than a tenth of them."""
if not diffusers.__version__.startswith(tuple(f"{known}." for known in KNOWN)):
    LOG.warning("drawahead: tried with diffusers %s, not with %s", ", ".join(KNOWN), diffusers.__version__)

_LOADING = threading.local()  # the class and settings of model_index.json, between reading it and building the pipeline


class DrawaheadCustomPipeline(DiffusionPipeline):
    """What diffusers makes of this folder: it hands over the pipeline's own components, whichever those are."""

    def __new__(cls, **components):
        make = getattr(diffusers, _LOADING.name, None)
        if make is None:
            raise ValueError(
                f"diffusers {diffusers.__version__} has no {_LOADING.name}: update it, or load that by hand"
            )
        parameters = inspect.signature(make.__init__).parameters
        absent = dict.fromkeys(name for name in parameters if name in make._optional_components)
        settings = {name: value for name, value in _LOADING.settings.items() if name in parameters}
        return Door(make(**absent | settings | components))

    def __init__(self):
        """Never called: `__new__` returns another pipeline."""

    @classmethod
    def extract_init_dict(cls, config_dict, **options):
        """Every component that `model_index.json` lists; its settings are for the pipeline's own class."""
        entries = {name: value for name, value in config_dict.items() if not name.startswith("_")}
        components = {name: value for name, value in entries.items() if isinstance(value, list | tuple)}
        _LOADING.name = config_dict["_class_name"]
        _LOADING.settings = {name: value for name, value in entries.items() if name not in components}
        return components, options, {}

    @classmethod
    def _get_signature_types(cls):
        return defaultdict(lambda: (inspect.Signature.empty,))


class Door:
    """A pipeline in rounds, or its own loop where nothing is gained; attributes are the pipeline's."""

    def __init__(self, own):
        vars(self).update(own=own, rounds=da.adapters.DrawaheadPipeline.from_pipe(own), left=set())

    def __getattr__(self, name):
        return getattr(self.rounds, name)

    def __setattr__(self, name, value):
        setattr(self.rounds, name, value)

    def to(self, *arguments, **named):
        self.own.to(*arguments, **named)
        return self

    def __call__(self, *arguments, sampler=None, max_batch_size=None, **named):
        options = {"sampler": sampler, "max_batch_size": max_batch_size}
        asked = inspect.signature(self.own.__call__).bind_partial(*arguments, **named)
        asked.apply_defaults()
        steps = asked.arguments.get("num_inference_steps") or LEAST
        if sampler is None and steps < LEAST and steps not in self.left:
            self._leave(steps, f"there are only {steps} steps")
        if sampler is not None or steps not in self.left:
            output = self.rounds(*arguments, **options, **named)
            report = output[-1] if isinstance(output, tuple) else output.report
            captured = self.own.device.type == "cuda" and "could not be captured" not in report.choice
            if sampler is None and report.mean_rounds >= report.steps and not captured:
                self._leave(steps, report.choice)
            return output
        output = self.own(*arguments, **named)
        if not isinstance(output, tuple):
            output.report = None
        return output

    def _leave(self, steps, reason):
        self.left.add(steps)
        LOG.warning("drawahead: nothing is gained, and the pipeline's own loop is used: %s", reason)
