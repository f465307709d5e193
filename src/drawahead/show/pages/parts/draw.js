"use strict";

// Shapes, scales, and charts that can be asked about with a pointer or the arrow keys.

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const tenths = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });
const percent = new Intl.NumberFormat("en", { style: "percent" });
const plural = (count, noun) => `${whole.format(count)} ${noun}${count === 1 ? "" : "s"}`;
const clamp = (value, low, high) => Math.min(high, Math.max(low, value));

function shape(parent, name, attributes = {}, text = null) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== null) made.textContent = text;
  return parent.appendChild(made);
}

function element(parent, name, className = "", text = null) {
  const made = document.createElement(name);
  if (className) made.className = className;
  if (text !== null) made.textContent = text;
  return parent.appendChild(made);
}

/** Round whole numbers from 0 to `high`, about `count` of them. */
function ticks(high, count) {
  const rough = Math.max(1, high / count);
  const power = 10 ** Math.floor(Math.log10(rough));
  const size = Math.max(1, [1, 2, 5, 10].find((factor) => factor * power >= rough) * power);
  return Array.from({ length: Math.floor(high / size) + 1 }, (_, i) => i * size);
}

const tip = {
  box: document.getElementById("tip"),
  show(x, y, text) {
    this.box.textContent = text;
    this.box.hidden = false;
    const { width, height } = this.box.getBoundingClientRect();
    const left = clamp(x + 14, 8, document.documentElement.clientWidth - width - 8);
    const top = y - height - 12 < 8 ? y + 18 : y - height - 12;
    this.box.style.transform = `translate(${left}px, ${top}px)`;
  },
  hide() {
    this.box.hidden = true;
  },
};

/**
 * A chart in `host`, painted again when its width changes.
 *
 * `paint(svg, width)` draws and returns { height, count, place(i), tell(i), find(x, y), light(i) }: how high it is, how
 * many marks it has, where mark i is, what to say of it, which mark is at a point (-1: none), how to light it up.
 */
function chart(host, label, paint) {
  host.replaceChildren();
  const svg = shape(host, "svg", { role: "img", tabindex: 0, "aria-label": label });
  let width = 0;
  let marks = null;
  let current = -1;
  const draw = () => {
    width = Math.max(240, Math.round(host.clientWidth));
    svg.replaceChildren();
    current = -1;
    marks = paint(svg, width);
    svg.setAttribute("viewBox", `0 0 ${width} ${marks.height}`);
  };
  const choose = (i) => {
    current = i;
    marks.light(i);
    if (i < 0) return tip.hide();
    const box = svg.getBoundingClientRect();
    const scale = box.width / width;
    const [x, y] = marks.place(i);
    return tip.show(box.left + x * scale, box.top + y * scale, marks.tell(i));
  };
  svg.addEventListener("pointermove", (event) => {
    const box = svg.getBoundingClientRect();
    const scale = width / box.width;
    choose(marks.find((event.clientX - box.left) * scale, (event.clientY - box.top) * scale));
  });
  svg.addEventListener("pointerleave", () => choose(-1));
  svg.addEventListener("blur", () => choose(-1));
  svg.addEventListener("keydown", (event) => {
    const move = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1, Home: -Infinity, End: Infinity }[event.key];
    if (event.key === "Escape") choose(-1);
    if (move === undefined || !marks.count) return;
    event.preventDefault();
    choose(clamp(current < 0 && move > 0 && move !== Infinity ? 0 : current + move, 0, marks.count - 1));
  });
  draw();
  new ResizeObserver(() => {
    if (Math.max(240, Math.round(host.clientWidth)) !== width) draw();
  }).observe(host);
}

/** A list to choose one of several samples from; hidden where there is no choice. */
function chooser(label, samples, choose) {
  label.hidden = samples.length < 2;
  const select = label.querySelector("select");
  select.replaceChildren();
  for (const [i, sample] of samples.entries()) element(select, "option", "", sample.number).value = i;
  select.addEventListener("change", () => choose(Number(select.value)));
}
