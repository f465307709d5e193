"""How much memory a process took at most, for scripts that tests run."""

from __future__ import annotations

PEAK = """
def peak():
    # Not getrusage: on Linux its peak begins with that of the process that started this one.
    try:
        return int(open("/proc/self/status").read().split("VmHWM:")[1].split()[0]) * 1024
    except OSError:
        import resource
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
"""
"""Python that defines `peak()`, in bytes."""
