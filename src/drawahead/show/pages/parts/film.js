// The film: one by one against drawahead on one axis of rounds.

const SIDES = ["sequential", "drawahead"];

/** How many steps of a reel a side has made after so many rounds. */
function reached(reel, side, round) {
  return side === "sequential" ? Math.min(round, reel.steps) : reel.progress[Math.min(round, reel.progress.length - 1)];
}

function playFilm(root, film) {
  const find = (selector) => root.querySelector(selector);
  const [play, back, on, slider, label, speed] = [".play", ".back", ".on", "input", ".round", ".speed"].map(find);
  const together = film.reels.every(({ picture }) => picture.kind === "frames" || (picture.tiles?.length ?? Infinity) <= 100);
  let reels = [], shows = [], rounds = 0, ahead = 0, round = 0, playing = false, before = 0;

  const show = (value) => {
    round = clamp(value, 0, rounds);
    const now = Math.floor(round);
    for (const update of shows) update(now);
    const total = reels.reduce((sum, reel) => sum + reel.steps, 0);
    const told = SIDES.map((side) => {
      const made = reels.reduce((sum, reel) => sum + reached(reel, side, now), 0);
      const done = reels.filter((reel) => reached(reel, side, now) >= reel.steps).length;
      const box = find(`.side.${side}`);
      const status = made >= total ? `finished in ${plural(side === "sequential" ? rounds : ahead, "round")}`
        : done ? `${done} of ${plural(reels.length, "sample")} finished`
        : `${whole.format(Math.floor(made / reels.length))} of ${whole.format(rounds)} steps`;
      box.classList.toggle("done", made >= total);
      box.querySelector(".status").textContent = status;
      box.querySelector(".bar i").style.width = `${total ? (100 * made) / total : 100}%`;
      return status;
    });
    slider.value = now;
    label.textContent = `round ${whole.format(now)} of ${whole.format(rounds)}`;
    slider.setAttribute("aria-valuetext", `${label.textContent}; one by one: ${told[0]}; drawahead: ${told[1]}`);
  };

  const tick = (time) => {
    if (!playing) return;
    // At normal speed drawahead takes about four seconds.
    const pace = clamp(ahead / 4, 2, 30) * Number(speed.value);
    show(round + ((time - before) / 1000) * pace);
    before = time;
    if (round >= rounds) return run(false);
    return requestAnimationFrame(tick);
  };

  const run = (wanted) => {
    playing = wanted;
    root.classList.toggle("playing", playing);
    play.setAttribute("aria-label", playing ? "Pause" : "Play");
    if (!playing) return;
    if (fresh || round >= rounds) show(0);
    fresh = false;
    before = performance.now();
    requestAnimationFrame(tick);
  };

  let fresh = true; // the page opens where drawahead has just finished; playing then begins at the beginning
  const move = (value) => {
    fresh = false;
    run(false);
    show(value);
  };

  const load = (chosen) => {
    reels = chosen;
    rounds = Math.max(...reels.map((reel) => reel.steps));
    ahead = Math.max(...reels.map((reel) => reel.progress.length - 1));
    slider.max = rounds;
    shows = SIDES.flatMap((side) => {
      const host = find(`.side.${side} .pictures`);
      host.replaceChildren();
      host.classList.toggle("many", reels.length > 1);
      return reels.map((reel) =>
        KINDS[reel.picture.kind](host, reel.picture, reel.picture[side], (now) => reached(reel, side, now)));
    });
    fresh = true;
    run(false);
    show(ahead);
  };

  play.addEventListener("click", () => run(!playing));
  back.addEventListener("click", () => move(Math.floor(round) - 1));
  on.addEventListener("click", () => move(Math.floor(round) + 1));
  slider.addEventListener("input", () => move(Number(slider.value)));
  root.addEventListener("keydown", (event) => {
    if (event.key !== " " || ["BUTTON", "SELECT"].includes(event.target.tagName)) return;
    event.preventDefault();
    run(!playing);
  });
  chooser(find("#film-choice"), together ? [] : film.reels, (i) => load([film.reels[i]]));
  find("#film-note").textContent = film.note;
  load(together ? film.reels : [film.reels[0]]);
}
