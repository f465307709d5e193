// What a film shows: each kind is a picture with `show(round)` for one side.

const KINDS = {
  letters(host, picture, times) {
    const text = element(host, "p", picture.tight ? "letters tight" : "letters");
    const parts = picture.letters.map((letter, i) => {
      if (i && !picture.tight) text.append(" ");
      return element(text, "i");
    });
    const missing = picture.letters.map((letter) => "·".repeat(Math.max(1, letter.length)));
    return parted(parts, times, (part, i, state) => {
      part.textContent = state === "missing" ? missing[i] : picture.letters[i];
    });
  },

  tiles(host, picture, times) {
    const svg = shape(host, "svg", { class: "tiles", viewBox: picture.box.join(" "), "aria-hidden": "true" });
    for (const [x, y, width, height] of picture.tiles) shape(svg, "rect", { class: "ground", x, y, width, height });
    const parts = picture.tiles.map(([x, y, width, height, colour]) =>
      shape(svg, "rect", { x, y, width, height, fill: picture.colours[colour] }));
    return parted(parts, times, () => {});
  },

  strokes(host, picture, times) {
    const look = { class: "strokes", "stroke-width": picture.width, "stroke-linecap": "round", "aria-hidden": "true" };
    const svg = shape(host, "svg", { ...look, viewBox: picture.box.join(" ") });
    const line = ([x1, y1, x2, y2], more) => shape(svg, "line", { x1, y1, x2, y2, ...more });
    for (const ends of picture.ground) line(ends, { class: "ground", "stroke-width": picture.faint });
    const parts = picture.lines.map((ends) => line(ends, { stroke: picture.colours[ends[4]] }));
    return parted(parts, times, () => {});
  },

  frames(host, picture, times, reached) {
    const canvas = element(host, "canvas", picture.smooth ? "smooth" : "cells");
    canvas.width = picture.width;
    canvas.height = picture.height;
    const strip = new Image();
    let frame = 0;
    const paint = () => {
      const { width, height, columns } = picture;
      const x = (frame % columns) * width, y = Math.floor(frame / columns) * height;
      canvas.getContext("2d").drawImage(strip, x, y, width, height, 0, 0, width, height);
      canvas.dataset.frame = frame;
    };
    strip.onload = paint;
    strip.src = picture.uri;
    return (round) => {
      const step = reached(round);
      let last = picture.at.length - 1;
      while (last > 0 && picture.at[last] > step) last -= 1;
      if (last === frame) return;
      frame = last;
      if (strip.complete) paint();
    };
  },
};

/** Parts that are known from the start, missing, fresh in this round, or there. */
function parted(parts, times, change) {
  const states = parts.map(() => null);
  return (round) => {
    parts.forEach((part, i) => {
      const time = times[i];
      const state = time === 0 ? "known" : time > round ? "missing" : time === round ? "fresh" : "there";
      if (state === states[i]) return;
      states[i] = state;
      part.setAttribute("class", state);
      change(part, i, state);
    });
  };
}
