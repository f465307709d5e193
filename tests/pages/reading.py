"""Pages read back: what a browser would find in them, and pixels out of PNG files."""

from __future__ import annotations

import base64
import json
import struct
import zlib
from collections.abc import Sequence
from html.parser import HTMLParser
from typing import Any

import numpy as np
import torch

import drawahead as da


class Read(HTMLParser):
    """A page: its tags, its texts by tag, the contents of scripts and styles."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[str, str]] = []
        self.open: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        while self.open and self.open.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        self.texts.append((self.open[-1] if self.open else "", data))

    def text(self, tag: str) -> list[str]:
        return [text for where, text in self.texts if where == tag]

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]

    @property
    def data(self) -> dict[str, Any]:
        """The JSON inside the page; the script comes after it."""
        return json.loads(self.text("script")[0])


def pixels(uri: str) -> np.ndarray:
    """A PNG without filters, as this project writes it, decoded: (height, width[, 3])."""
    head = "data:image/png;base64,"
    assert uri.startswith(head)
    file, at, data = base64.b64decode(uri.removeprefix(head)), 8, b""
    assert file[:8] == b"\x89PNG\r\n\x1a\n"
    width = height = colour = 0
    while at < len(file):
        (size,), name = struct.unpack(">I", file[at : at + 4]), file[at + 4 : at + 8]
        chunk = file[at + 8 : at + 8 + size]
        (sum_,) = struct.unpack(">I", file[at + 8 + size : at + 12 + size])
        assert sum_ == zlib.crc32(name + chunk)
        if name == b"IHDR":
            width, height, depth, colour = struct.unpack(">IIBB", chunk[:10])
            assert depth == 8
        data += chunk if name == b"IDAT" else b""
        at += 12 + size
    lines = np.frombuffer(zlib.decompress(data), np.uint8).reshape(height, -1)
    assert not lines[:, 0].any()  # no filters
    return lines[:, 1:].reshape((height, width, 3) if colour == 2 else (height, width))


def frame(picture: dict[str, Any], index: int) -> np.ndarray:
    """One frame out of a strip."""
    line, column = divmod(index, picture["columns"])
    height, width = picture["height"], picture["width"]
    strip = pixels(picture["uri"])
    return strip[line * height : (line + 1) * height, column * width : (column + 1) * width]


def pictures_chain(steps: int = 60, side: int = 6, record: Sequence[int] = ()) -> da.GaussianChain:
    """A diffusion on a few small images, with its exact denoiser."""
    y, x = torch.meshgrid(torch.arange(side), torch.arange(side), indexing="ij")
    points = torch.stack([2.0 * ((x + y) % 2) - 1, 2.0 * (x > 2) - 1, 2.0 * (y > 2) - 1, 1 - 2.0 * (x == y)])
    schedule = da.DDPM(timesteps=da.schedules.spaced(steps, of=1000))
    return da.GaussianChain(da.targets.DataSet(points), schedule, record=record)


def uniform_chain(length: int = 24, q: int = 7) -> da.TokenChain:
    """Independent tokens."""
    return da.TokenChain(lambda tokens: torch.zeros(*tokens.shape, q).log_softmax(-1), length=length, vocab_size=q)
