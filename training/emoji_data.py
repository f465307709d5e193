"""Read the emoji out of Debian's colour font into one file of small pictures and their names.

apt-get download fonts-noto-color-emoji && dpkg -x fonts-noto-color-emoji_*.deb out/font     # SIL OFL 1.1
pip install --no-deps --target out/fonttools fonttools                                       # pillow is needed, too
PYTHONPATH=src:out/fonttools python training/emoji_data.py --font $(find out/font -name NotoColorEmoji.ttf)
"""

from __future__ import annotations

import argparse
import io
import json
import unicodedata
from pathlib import Path
from typing import Any

import numpy as np
from fontTools.ttLib import TTFont
from PIL import Image

from drawahead.networks.emoji import LENGTH, SIDE, words_of

JOINERS = {0x200D, 0xFE0F, 0xE007F}  # they hold a sequence together and have nothing to show
TONES = {
    0x1F3FB: "light skin",
    0x1F3FC: "medium light skin",
    0x1F3FD: "medium skin",
    0x1F3FE: "medium dark skin",
    0x1F3FF: "dark skin",
}
SAID = TONES | {
    0x2640: "woman",
    0x2642: "man",
    0x20E3: "keycap",
    0x23: "hash",
    0x2A: "asterisk",
    0x2764: "red heart",
    0x1F9D1: "person",
    **{0x1F9B0 + i: f"{hair} hair" for i, hair in enumerate(("red", "curly", "bald", "white"))},
}
"""What code points say, where their names in Unicode do not say it in the words that a prompt would have."""
JOINED = {
    0x2695: "health worker",
    0x2696: "judge",
    0x2708: "pilot",
    0x27A1: "facing right",
    0x2B1B: "black",
    0x1F33E: "farmer",
    0x1F373: "cook",
    0x1F393: "student",
    0x1F3A4: "singer",
    0x1F3A8: "artist",
    0x1F3EB: "teacher",
    0x1F3ED: "factory worker",
    0x1F4BB: "technologist",
    0x1F4BC: "office worker",
    0x1F527: "mechanic",
    0x1F52C: "scientist",
    0x1F680: "astronaut",
    0x1F692: "firefighter",
}
"""What they say beside others."""
ALONE_NOTHING = {*TONES, 0x20E3, *range(0x1F9B0, 0x1F9B4)}
COLOURED = {0x25AA, 0x25AB, *range(0x25FB, 0x25FF), 0x26AA, 0x26AB, 0x2B1B, 0x2B1C}


def sequences(font: TTFont) -> dict[str, tuple[int, ...]]:
    """The code points of every glyph that some stand for."""
    points = {glyph: point for point, glyph in font.getBestCmap().items()}
    found = {glyph: (point,) for glyph, point in points.items()}
    for lookup in font["GSUB"].table.LookupList.Lookup:
        for table in lookup.SubTable:
            for first, ligatures in getattr(getattr(table, "ExtSubTable", table), "ligatures", {}).items():
                for ligature in ligatures:
                    parts = [first, *ligature.Component]
                    if all(part in points for part in parts):
                        found[ligature.LigGlyph] = tuple(points[part] for part in parts)
    return found


def name_of(sequence: tuple[int, ...]) -> str:
    """A name in words; of a flag, its letters. Empty where Unicode has none, and for what is part of others only."""
    if all(0x1F1E6 <= point <= 0x1F1FF for point in sequence):
        letters = "".join(chr(point - 0x1F1E6 + ord("a")) for point in sequence)
        return f"flag {letters}" if len(letters) == 2 else ""  # a single letter is part of a flag
    if len(sequence) == 1 and (sequence[0] < 0x80 or sequence[0] in ALONE_NOTHING):
        return ""
    tags = "".join(chr(point - 0xE0000) for point in sequence if 0xE0020 <= point < 0xE007F)
    if tags:
        return f"flag {tags}"
    said = SAID | JOINED if 0x200D in sequence else SAID
    parts = [said.get(point) or unicode_name(point) for point in sequence if point not in JOINERS]
    return " ".join(parts) if all(parts) else ""


def unicode_name(point: int) -> str:
    """Its name; without black and white where they mean filled and hollow, which the font does not follow."""
    name = unicodedata.name(chr(point), "")
    hollow = point not in COLOURED and (point < 0x2C00 or " POINTING " in name)
    return " ".join(word for word in name.split() if not (hollow and word in ("BLACK", "WHITE")))


def picture(data: bytes) -> np.ndarray[Any, Any]:
    """A bitmap of 136x128 over white, as (3, side, side) bytes."""
    glyph = Image.open(io.BytesIO(data)).convert("RGBA")
    whole = Image.new("RGBA", (max(glyph.size),) * 2, "white")
    whole.alpha_composite(glyph, tuple((max(glyph.size) - side) // 2 for side in glyph.size))
    small = whole.convert("RGB").resize((SIDE, SIDE), Image.Resampling.LANCZOS)
    return np.asarray(small).transpose(2, 0, 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--font", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=Path("carry/training/emoji.npz"))
    options = parser.parse_args()
    font = TTFont(options.font)
    known = sequences(font)
    pictures, texts, kinds = [], [], []
    for glyph, bitmap in font["CBDT"].strikeData[0].items():
        name = name_of(known.get(glyph, ()) or (0,))
        if not name:
            continue
        words = words_of(name)
        if not 0 < len(words) <= LENGTH:
            raise SystemExit(f"{name!r} has {len(words)} words; LENGTH is {LENGTH}")
        pictures.append(picture(bitmap.imageData))
        texts.append(" ".join(words))
        kinds.append(tuple(sorted(set(known[glyph]) - set(TONES))))  # the same emoji in whatever tone
    numbers = {kind: i for i, kind in enumerate(dict.fromkeys(kinds))}
    options.out.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(
        options.out,
        pictures=np.stack(pictures),
        names=np.array(texts),
        kinds=np.array([numbers[kind] for kind in kinds]),
    )
    vocabulary = {word for text in texts for word in text.split()}
    size = options.out.stat().st_size / 1e6
    print(
        json.dumps(
            {"pictures": len(texts), "kinds": len(numbers), "words": len(vocabulary), "megabytes": round(size, 2)}
        )
    )


if __name__ == "__main__":
    main()
