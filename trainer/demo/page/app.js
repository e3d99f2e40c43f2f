/** Builds the page: images A and B, how they are shown, and the regions on both. */

import { Camera } from "./camera.js";
import { complain } from "./dom.js";
import { Painter } from "./paint.js";
import { Panel } from "./panel.js";
import { Regions } from "./regions.js";
import { save, toCsv, toJson } from "./save.js";
import { readFacts } from "./server.js";
import { Table } from "./table.js";

const find = (selector) => document.querySelector(selector);

class Page {
  #regions = new Regions();
  #panels;
  #painter;
  #table = new Table(find("#results table"), this.#regions);
  #comparing = false;

  constructor(facts) {
    this.#painter = new Painter(facts);
    const shared = { facts, painter: this.#painter, regions: this.#regions, camera: new Camera(find("#camera")) };
    this.#panels = ["A", "B"].map((slot) => new Panel(slot, shared));
    find("#images").append(...this.#panels.map((panel) => panel.element));
    find("#model").textContent = `${facts.model}, input ${facts.image_size.join(" × ")}`;
    find("#notice p").textContent = facts.notice;
    find("#notice").hidden = !facts.notice;
    for (const [name, gradient] of Object.entries(this.#painter.gradients)) {
      document.documentElement.style.setProperty(`--${name}`, gradient);
    }
    find("#opacity").value = 100 * facts.opacity;
    const grey = Array(3).fill(facts.dimmed / 3);
    const matrix = [...grey, 0, 0, ...grey, 0, 0, ...grey, 0, 0, 0, 0, 0, 1, 0];
    find("#dimmed feColorMatrix").setAttribute("values", matrix.join(" "));
    find(".of-lines").textContent = `Lines enclose ${facts.levels.join(", ")}% of the attention`;
    this.#listen();
    this.#compare(false);
    this.#look();
  }

  get #shown() {
    return this.#panels.filter((panel) => panel.map);
  }

  #listen() {
    const [a, b] = this.#panels;
    find("#toolbar").addEventListener("input", () => this.#look());
    find("#toolbar").addEventListener("submit", (event) => event.preventDefault());
    find("#compare").addEventListener("click", () => this.#compare(!this.#comparing));
    find("#add").addEventListener("click", () => a.boxes.focus(this.#regions.addAround(a.map.peakAt)));
    find("#csv").addEventListener("click", () => save(toCsv(this.#images()), a.file.name, "regions.csv"));
    find("#json").addEventListener("click", () => save(toJson(this.#images()), a.file.name, "regions.json"));
    a.addEventListener("map", () => {
      this.#regions.resize({ width: a.map.imageWidth, height: a.map.imageHeight });
      this.#update();
    });
    b.addEventListener("map", () => this.#update());
    for (const kind of ["change", "select"]) this.#regions.addEventListener(kind, () => this.#measure());
    document.addEventListener("paste", (event) => this.#receive(event, event.clipboardData.files));
    document.addEventListener("dragover", (event) => this.#hover(event, this.#under(event)));
    document.addEventListener("dragleave", (event) => event.relatedTarget ?? this.#hover(event, null));
    document.addEventListener("drop", (event) => {
      this.#hover(event, null);
      if (!event.dataTransfer.files.length) complain("This is not a file. Save the image, then drop the file.");
      this.#receive(event, event.dataTransfer.files, this.#under(event));
    });
  }

  /** Load dropped or pasted images: one into `panel`, or else into the first empty panel; two are compared. */
  #receive(event, files, panel = null) {
    const images = [...files];
    if (!images.length) return;
    event.preventDefault();
    const [a, b] = this.#panels;
    if (images.length > 1) {
      this.#compare(true);
      a.load(images[0]);
      b.load(images[1]);
    } else {
      (panel ?? (this.#comparing && a.map && !b.map ? b : a)).load(images[0]);
    }
  }

  #under(event) {
    return this.#panels.find((panel) => panel.element.contains(event.target)) ?? null;
  }

  #hover(event, panel) {
    event.preventDefault();
    for (const other of this.#panels) other.element.classList.toggle("is-target", other === panel);
  }

  #compare(on) {
    const [, b] = this.#panels;
    this.#comparing = on;
    b.element.hidden = !on;
    find("#compare").setAttribute("aria-pressed", on);
    find("#work").classList.toggle("comparing", on);
    if (!on) b.clear();
    this.#update();
  }

  #look() {
    const view = new FormData(find("#toolbar")).get("view");
    const opacity = find("#opacity").value / 100;
    find("#opacity").disabled = view !== "overlay";
    find(".of-heat").hidden = view !== "overlay" && view !== "map";
    find(".of-lines").hidden = view !== "contour";
    find(".slider output").value = `${find("#opacity").value}%`;
    find("#work").dataset.view = view;
    for (const panel of this.#panels) panel.show({ view, opacity });
  }

  #update() {
    const [a, b] = this.#panels;
    find("#toolbar").hidden = !(a.map || this.#comparing); // shown while comparing, so that the user can stop it
    find("#results").hidden = !a.map;
    find("#work").classList.toggle("is-started", Boolean(a.map));
    for (const panel of this.#panels) panel.boxes.draw();
    this.#measure();
    find("#difference").hidden = !(a.map && b.map);
    this.#drawDifference();
  }

  #drawDifference() {
    const [a, b] = this.#panels;
    if (!a.map || !b.map) return;
    const stage = find("#difference .stage");
    stage.style.setProperty("--ratio", b.map.imageWidth / b.map.imageHeight);
    stage.querySelector("img").src = b.element.querySelector("img").src;
    stage.querySelector("canvas").setAttribute("aria-label", "Where B gets more attention than A, and where less");
    this.#painter.difference(stage.querySelector("canvas"), a.map, b.map);
    const ratio = ({ map }) => map.imageWidth / map.imageHeight;
    find("#difference .note").hidden = Math.abs(ratio(a) / ratio(b) - 1) < 0.02;
  }

  #measure() {
    const [a, b] = this.#panels;
    if (!a.map) return;
    this.#table.show(a.measures(), b.measures());
    find("#results .downloads").hidden = !this.#regions.list.length;
  }

  #images() {
    return this.#shown.map((panel) => ({
      slot: panel === this.#panels[0] ? "A" : "B",
      name: panel.file.name,
      regions: this.#regions.within(panel.map),
      measures: panel.measures(),
    }));
  }
}

try {
  new Page(await readFacts());
} catch (error) {
  complain(error.message, () => location.reload());
}
