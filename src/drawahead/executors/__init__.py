"""Where the oracle runs. An executor knows the query protocol of `rounds` and nothing else."""

from drawahead.executors.local import Local

__all__ = ["Local"]
