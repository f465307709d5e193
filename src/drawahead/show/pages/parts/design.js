// The page of a design job: its charts are drawn already, the film is played.

const data = JSON.parse(document.getElementById("data").textContent);
if (data.film) playFilm(document.getElementById("film"), data.film);
