"""What torch is told for all models: settings that change answers, and that no model holds."""

from __future__ import annotations

from typing import Any

import torch
from torch.overrides import _get_current_function_mode_stack
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack


def modes(device: torch.device) -> dict[str, Any]:
    """By name, as they are now."""
    cuda, cudnn, hooks = torch.backends.cuda, torch.backends.cudnn, vars(torch.nn.modules.module)
    half = cuda.matmul.allow_fp16_reduced_precision_reduction, cuda.matmul.allow_bf16_reduced_precision_reduction
    attention = cuda.flash_sdp_enabled(), cuda.mem_efficient_sdp_enabled(), cuda.math_sdp_enabled()
    return {
        "autocast": torch.is_autocast_enabled(device.type) and torch.get_autocast_dtype(device.type),
        "precision": (torch.get_default_dtype(), torch.get_float32_matmul_precision(), cudnn.allow_tf32, half),
        "determinism": (torch.are_deterministic_algorithms_enabled(), cudnn.deterministic, cudnn.benchmark),
        "backends": (cudnn.enabled, attention),
        "global hooks": [part for name, part in hooks.items() if name.startswith("_global_") and part],
        "modes of torch": (_get_current_function_mode_stack(), _get_current_dispatch_mode_stack()),
    }
