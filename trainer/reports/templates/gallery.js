"use strict";
// Sorts the images of a page, and enlarges one with a divider between two of its pictures.
document.documentElement.classList.add("js");
const viewer = document.getElementById("viewer");
const [left, right, line, divider] = viewer.querySelector(".split").children;
const [name, scores] = viewer.querySelector(".row").children;
const [close, previous, next] = viewer.querySelectorAll("button");
const sides = viewer.querySelectorAll("select");
let shown;

function describe(gallery, article) {
  const option = gallery.querySelector("select")?.selectedOptions[0];
  if (!option) return;
  const models = JSON.parse(gallery.dataset.models);
  const values = (JSON.parse(article.dataset.scores)[option.value] ?? models.map(() => null)).map((score) => score?.toFixed(3) ?? "–");
  const text = models.length > 1 ? ": " + models.map((model, i) => `${model} ${values[i]}`).join(", ") : " " + values[0];
  article.querySelector(".soft").textContent = option.textContent + text;
}

function sort(gallery) {
  const [metric, order] = gallery.querySelectorAll("select");
  const higher = "higher" in metric.selectedOptions[0].dataset;
  const rank = (article) => {
    const known = (JSON.parse(article.dataset.scores)[metric.value] ?? []).filter((score) => score !== null);
    if (!known.length) return Infinity;
    if (order.value === "difference") return Math.min(...known) - Math.max(...known);
    return higher === (order.value === "best") ? -known[0] : known[0];
  };
  const list = gallery.querySelector(".examples");
  list.append(...[...list.children].sort((a, b) => rank(a) - rank(b)));
  for (const article of list.children) describe(gallery, article);
}

function divide() {
  viewer.style.setProperty("--at", `${divider.value}%`);
  divider.setAttribute("aria-valuetext", `${divider.value}% ${sides[0].value}, ${100 - divider.value}% ${sides[1].value}`);
}

function show(article) {
  shown = article;
  const images = new Map([...article.querySelectorAll("figure")].map((figure) => [figure.textContent, figure.firstChild]));
  const chosen = sides[0].value ? [...sides].map((side) => side.value) : JSON.parse(article.closest(".gallery").dataset.divided);
  sides.forEach((side, i) => {
    side.replaceChildren(...[...images.keys()].map((label) => new Option(label)));
    side.value = images.has(chosen[i]) ? chosen[i] : [...images.keys()][i];
  });
  [left, right].forEach((image, i) => {
    image.src = images.get(sides[i].value).src;
    image.alt = images.get(sides[i].value).alt;
  });
  viewer.style.setProperty("--ratio", article.style.getPropertyValue("--ratio"));
  name.textContent = article.querySelector("code").textContent;
  scores.textContent = article.querySelector(".soft").textContent;
  previous.disabled = !article.previousElementSibling;
  next.disabled = !article.nextElementSibling;
  divide();
}

for (const gallery of document.querySelectorAll(".gallery")) {
  gallery.addEventListener("change", () => sort(gallery));
  gallery.addEventListener("click", ({ target }) => {
    if (!target.matches("button, img")) return;
    for (const side of sides) side.replaceChildren();
    divider.value = 50;
    show(target.closest("article"));
    viewer.showModal();
  });
}
divider.addEventListener("input", divide);
for (const side of sides) side.addEventListener("change", () => show(shown));
close.addEventListener("click", () => viewer.close());
previous.addEventListener("click", () => show(shown.previousElementSibling));
next.addEventListener("click", () => show(shown.nextElementSibling));
