// The four charts.

/** An axis of whole numbers below the plot: `at` gives the place of a number. */
function axisBelow(svg, at, high, y, label, right) {
  for (const tick of ticks(high, Math.max(2, (at(high) - at(0)) / 90))) {
    shape(svg, "text", { x: at(tick), y: y + 18, "text-anchor": "middle" }, whole.format(tick));
  }
  shape(svg, "text", { x: right, y: y + 36, "text-anchor": "end" }, label);
}

/** Which step was committed in which round: bars of one sample, thin lines for the others. */
function speculation(host, steps, traced, chosen) {
  const main = traced[chosen];
  const { every, rounds, committed } = main;
  const label = `Sample ${main.number}: ${plural(committed.at(-1), "step")} in ${plural(rounds, "round")}.`;
  chart(host, label, (svg, width) => {
    const left = 40, right = width - 8, top = 24;
    const bars = committed.length - 1;
    const bar = clamp(300 / bars, 1.25, 18);
    const bottom = top + bar * bars;
    const x = (step) => left + ((right - left) * step) / steps;
    const y = (round) => top + ((bottom - top) * round) / rounds;
    for (const tick of ticks(steps, Math.max(2, (right - left) / 90))) {
      shape(svg, "line", { class: "rule", x1: x(tick), x2: x(tick), y1: top, y2: bottom });
    }
    axisBelow(svg, x, steps, bottom, "steps", right);
    for (const tick of ticks(rounds, clamp((bottom - top) / 30, 2, 8)).slice(1)) {
      shape(svg, "text", { x: left - 8, y: y(tick) - bar / 2 / every + 4, "text-anchor": "end" }, whole.format(tick));
    }
    shape(svg, "text", { x: left - 8, y: 12, "text-anchor": "end" }, "round");
    for (const other of traced) {
      if (other === main) continue;
      const points = other.committed.map((step, i) => [x(step), y(Math.min(i * other.every, other.rounds))]);
      const path = points.filter(([, place]) => place <= bottom).map((point) => point.join(" ")).join("L");
      shape(svg, "path", { class: "other", d: `M${path}` });
    }
    const drawn = committed.slice(1).map((step, i) =>
      shape(svg, "rect", {
        class: "main", x: x(committed[i]), y: top + i * bar + (bar > 4 ? 1 : 0),
        width: Math.max(1, x(step) - x(committed[i])), height: bar > 4 ? bar - 2 : bar, rx: bar > 6 ? 2 : 0,
      }));
    const reached = Math.min(rounds, steps);
    shape(svg, "path", { class: "diagonal", d: `M${x(0)} ${y(0)}L${x(reached)} ${y(reached)}` });
    shape(svg, "path", { class: "diagonal", d: `M${left} ${bottom + 32}h26` });
    shape(svg, "text", { x: left + 34, y: bottom + 36 }, `one by one: step ${whole.format(reached)} after ${plural(rounds, "round")}`);
    return {
      height: bottom + 44,
      count: bars,
      place: (i) => [x(committed[i + 1]), top + i * bar],
      find: (px, py) => (py < top || py >= bottom ? -1 : clamp(Math.floor((py - top) / bar), 0, bars - 1)),
      light: (i) => drawn.forEach((rect, j) => rect.setAttribute("opacity", i < 0 || i === j ? 1 : 0.35)),
      tell: (i) => {
        const first = i * every + 1, last = Math.min((i + 1) * every, rounds);
        const count = committed[i + 1] - committed[i];
        const stretch = count ? `${plural(count, "step")}: ${whole.format(committed[i] + 1)} to ${whole.format(committed[i + 1])}` : "nothing yet";
        return `${first === last ? `Round ${first}` : `Rounds ${first} to ${last}`}\n${stretch}`;
      },
    };
  });
}

/** Shares from 0 to 1 as a thin line over the middle of columns `each` wide; broken where there is none (null). */
function shareLine(svg, label, shares, { left, right, top, bottom, each }) {
  const y = (share) => bottom - (bottom - top) * share;
  for (const share of [0, 0.5, 1]) {
    shape(svg, "line", { class: "rule", x1: left, x2: right, y1: y(share), y2: y(share) });
    shape(svg, "text", { x: left - 8, y: y(share) + 4, "text-anchor": "end" }, percent.format(share));
  }
  shape(svg, "text", { x: left, y: top - 9 }, label);
  const there = (i) => (shares[i] ?? null) !== null;
  const points = shares.map((share, i) => `${left + (i + 0.5) * each} ${y(share)}`);
  shape(svg, "path", { class: "share", d: points.map((point, i) => (there(i) ? `${there(i - 1) ? "L" : "M"}${point}` : "")).join("") });
  shares.forEach((share, i) => {
    const alone = !there(i - 1) && !there(i + 1);
    if (there(i) && (each >= 9 || alone)) {
      shape(svg, "circle", { class: "main", cx: left + (i + 0.5) * each, cy: y(share), r: each >= 9 ? 3 : 2 });
    }
  });
}

/**
 * Upright bars: `values` lists of one length, drawn one before the other, each narrower than the one behind. With
 * `shares`, a line of them below, on the same axis.
 */
function upright(host, label, lists, styles, { low, size, xlabel, tell, mean, told, shares, sharesLabel }) {
  const count = lists[0].length;
  chart(host, label, (svg, width) => {
    const left = 44, right = width - 8, top = mean === undefined ? 8 : 26, bottom = 172;
    const base = shares ? bottom + 96 : bottom;
    const high = Math.max(1, ...lists.flat());
    const each = (right - left) / count;
    const y = (value) => bottom - ((bottom - top) * value) / high;
    const lit = shape(svg, "rect", { class: "lit", x: left, y: top, width: each, height: base - top, opacity: 0 });
    for (const tick of ticks(high, 4)) {
      shape(svg, "line", { class: "rule", x1: left, x2: right, y1: y(tick), y2: y(tick) });
      shape(svg, "text", { x: left - 8, y: y(tick) + 4, "text-anchor": "end" }, whole.format(tick));
    }
    const gap = Math.min(each * 0.15, 3), most = 44;
    lists.forEach((values, depth) => {
      const wide = Math.min(each - 2 * gap, most) * (depth ? 0.5 : 1);
      values.forEach((value, i) => {
        const x = left + (i + 0.5) * each - wide / 2;
        shape(svg, "rect", { class: styles[depth], x, y: y(value), width: wide, height: bottom - y(value), rx: Math.min(2, wide / 4) });
      });
    });
    if (shares) shareLine(svg, sharesLabel, shares, { left, right, top: base - 56, bottom: base, each });
    const apart = Math.max(1, ticks(count, Math.max(2, (right - left) / 70))[1] ?? 1);
    for (let i = 0; i < count; i += 1) {
      const value = low + i * size;
      if (size === 1 ? value % apart === 0 || count === 1 : i % apart === 0) {
        shape(svg, "text", { x: left + (i + 0.5) * each, y: base + 18, "text-anchor": "middle" }, whole.format(value));
      }
    }
    if (mean !== undefined) {
      const x = left + ((mean - low) / size + 0.5) * each;
      shape(svg, "line", { class: "mean", x1: x, x2: x, y1: top - 8, y2: bottom });
      shape(svg, "text", { x: clamp(x, left + 30, right - 30), y: top - 13, "text-anchor": "middle", class: "strong" }, `mean ${told}`);
    }
    shape(svg, "text", { x: right, y: base + 36, "text-anchor": "end" }, xlabel);
    return {
      height: base + 44,
      count,
      place: (i) => [left + (i + 0.5) * each, y(lists[0][i])],
      find: (px) => (px < left || px >= right ? -1 : clamp(Math.floor((px - left) / each), 0, count - 1)),
      light: (i) => {
        lit.setAttribute("opacity", i < 0 ? 0 : 1);
        lit.setAttribute("x", left + Math.max(0, i) * each);
      },
      tell,
    };
  });
}

function roundBars(host, { every, count, queries, committed, drafts, kept }) {
  const drafted = drafts.some((number) => number > 0);
  const what = drafted ? "Queries, committed steps and the share of drafts kept" : "Queries and committed steps";
  const shares = drafts.map((number, i) => (number ? kept[i] / number : null));
  upright(host, `${what} in each of ${plural(count, "round")}.`, [queries, committed], ["light", "main"], {
    low: 1, size: every, xlabel: "round", shares: drafted ? shares : null, sharesLabel: "drafts kept",
    tell: (i) => {
      const first = i * every + 1, last = Math.min((i + 1) * every, count);
      const when = first === last ? `Round ${first}` : `Rounds ${first} to ${last}, on average`;
      const told = `${when}\n${tenths.format(queries[i])} queries\n${tenths.format(committed[i])} steps committed`;
      if (!drafted) return told;
      if (!drafts[i]) return `${told}\nno drafts to judge`;
      return `${told}\n${tenths.format(kept[i])} of ${tenths.format(drafts[i])} drafts kept: ${percent.format(shares[i])}`;
    },
  });
}

function spreadBars(host, { low, size, counts, mean, told }) {
  const label = `Samples by the rounds they took: ${low} to ${low + size * counts.length - 1}, mean ${told}.`;
  upright(host, label, [counts], ["main"], {
    low, size, mean, told, xlabel: "rounds",
    tell: (i) => {
      const first = low + i * size, last = first + size - 1;
      return `${first === last ? plural(first, "round") : `${first} to ${last} rounds`}\n${plural(counts[i], "sample")}`;
    },
  });
}

/** Two pairs of level bars: rounds and queries, each pair on its own scale. */
function comparison(host, pairs) {
  const label = pairs.map((pair) => `${pair.name}: one by one ${pair.told[0]}, drawahead ${pair.told[1]}`).join("; ");
  chart(host, label, (svg, width) => {
    const rows = pairs.flatMap((pair) => [["one by one", "grey", pair, 0], ["drawahead", "main", pair, 1]]);
    const room = width - 64;
    const top = (i) => 26 + Math.floor(i / 2) * 92 + (i % 2) * 26;
    const ends = rows.map(([, style, pair, which], i) => {
      const value = which ? pair.drawahead : pair.sequential;
      if (i % 2 === 0) shape(svg, "text", { x: 0, y: top(i) - 9 }, pair.name);
      const wide = Math.max(2, (room * value) / Math.max(pair.sequential, pair.drawahead));
      shape(svg, "rect", { class: style, x: 0, y: top(i), width: wide, height: 20, rx: 2 });
      shape(svg, "text", { class: "strong", x: wide + 8, y: top(i) + 14 }, pair.told[which]);
      return wide;
    });
    return {
      height: top(rows.length - 1) + 28,
      count: rows.length,
      place: (i) => [Math.min(ends[i], width / 2), top(i)],
      find: (px, py) => rows.findIndex((_, i) => py >= top(i) && py < top(i) + 26),
      light: () => {},
      tell: (i) => `${rows[i][0]}\n${rows[i][2].told[rows[i][3]]} ${rows[i][2].name}`,
    };
  });
}
