// Everything on the page, from its data.

/** Fill a section, or hide it if there is nothing to show. */
function fill(id, there, paint) {
  const section = document.getElementById(id);
  section.hidden = !there;
  if (there) paint(section.querySelector(".chart"), section);
}

const data = JSON.parse(document.getElementById("data").textContent);
if (data.film) playFilm(document.getElementById("film"), data.film);
fill("speculation", data.traced.length, (host, section) => {
  const draw = (i) => speculation(host, data.steps, data.traced, i);
  chooser(section.querySelector("label"), data.traced, draw);
  section.querySelector("p span").hidden = data.traced.length < 2;
  draw(0);
});
fill("rounds", data.rounds.count, (host, section) => {
  section.querySelector(".below").hidden = !data.rounds.drafts.some((number) => number > 0);
  roundBars(host, data.rounds);
});
fill("compared", data.compared.length, (host) => comparison(host, data.compared));
fill("spread", data.spread, (host) => spreadBars(host, data.spread));
