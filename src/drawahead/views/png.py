"""Small pictures inside a page: PNG as data URIs, without an imaging library."""

from __future__ import annotations

import base64
import struct
import zlib

import numpy as np
from numpy.typing import NDArray

Pixels = NDArray[np.uint8]
"""(height, width) greys or (height, width, 3) colours."""


def data_uri(pixels: Pixels) -> str:
    """The picture as an address that holds all of it."""
    return "data:image/png;base64," + base64.b64encode(encoded(pixels)).decode("ascii")


def encoded(pixels: Pixels) -> bytes:
    """The picture as a PNG file: 8 bits a channel, no filters."""
    height, width = pixels.shape[:2]
    colour = 2 if pixels.ndim == 3 else 0
    lines = np.ascontiguousarray(pixels).reshape(height, -1)
    data = np.concatenate([np.zeros((height, 1), np.uint8), lines], axis=1).tobytes()  # each line: no filter
    header = struct.pack(">IIBBBBB", width, height, 8, colour, 0, 0, 0)
    chunks = (_chunk(b"IHDR", header), _chunk(b"IDAT", zlib.compress(data, 9)), _chunk(b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def _chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
