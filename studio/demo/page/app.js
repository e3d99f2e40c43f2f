/** Builds the page: images A and B, how they are shown, and the regions on both. */

import { announce, complain, make, save } from "./dom.js";
import { Painter, moved } from "./map.js";
import { Panel } from "./panel.js";
import { Regions } from "./regions.js";
import { given, readFacts } from "./server.js";
import { Table, changesOf, overall, toCsv, toJson, unseenIn, verdict } from "./table.js";
import { Unseen } from "./unseen.js";

const find = (selector) => document.querySelector(selector);
/** A new region has this part of the sides of the image. */
const NEW_PART = 1 / 5;

class Page {
  #facts;
  #regions = new Regions();
  #unseen;
  #panels;
  #painter;
  #table;
  #comparing = false;

  constructor(facts) {
    this.#facts = facts;
    this.#painter = new Painter(facts);
    this.#table = new Table(find("#results table"), this.#regions, facts.meanings, facts.region_colors);
    this.#unseen = new Unseen(facts.clear);
    const shared = { facts, painter: this.#painter, regions: this.#regions, unseen: this.#unseen };
    this.#panels = ["A", "B"].map((slot) => new Panel(slot, shared));
    find("#images").append(...this.#panels.map((panel) => panel.element));
    this.#describe(facts);
    this.#listen();
    this.#compare(false);
    this.#look();
  }

  #describe(facts) {
    find("#model").textContent = `Model: ${facts.model}`;
    const sizes = Object.entries(facts.kinds).map(([kind, { image_size: size }]) => `${kind}s at ${size.join(" × ")}`);
    find("#model").title = `It sees ${sizes.join(" and ")} pixels (height × width).`;
    find("#privacy").textContent = facts.privacy;
    find("#notice p").textContent = facts.notice;
    find("#notice").hidden = !facts.notice;
    for (const [name, gradient] of Object.entries(this.#painter.gradients)) {
      document.documentElement.style.setProperty(`--${name}`, gradient);
    }
    find("#opacity").value = 100 * facts.opacity;
    const words = Object.entries(facts.meanings).map(([name, text]) => [make("dt", {}, name), make("dd", {}, text)]);
    find("#meanings dl").replaceChildren(...words.flat());
    find("#meanings p").textContent = facts.caution;
    for (const [index, sign] of ["−", "+"].entries()) {
      find(`#difference .legend b:nth-of-type(${index + 1})`).textContent = `${sign}${facts.change_limit}`;
    }
    const choices = Object.keys(facts.screens).map((name) => make("option", { value: name }, `a page on a ${name}`));
    find("#screen").append(...choices);
  }

  get #shown() {
    return this.#panels.filter((panel, index) => panel.map && (index === 0 || this.#comparing));
  }

  #listen() {
    const [a, b] = this.#panels;
    find("#toolbar").addEventListener("input", () => this.#look());
    find("#toolbar").addEventListener("submit", (event) => event.preventDefault());
    find("#screen").addEventListener("change", () => this.#reload());
    find("#compare").addEventListener("click", () => this.#compare(!this.#comparing));
    find("#add").addEventListener("click", () => this.#add());
    find("#undo").addEventListener("click", () => this.#undo());
    find("#csv").addEventListener("click", () => save(toCsv(this.#images()), a.file.name, "regions.csv"));
    find("#json").addEventListener("click", () => save(toJson(this.#images()), a.file.name, "regions.json"));
    find("#print").addEventListener("click", () => window.print());
    window.addEventListener("beforeprint", () => (find("#meanings").open = true));
    a.addEventListener("map", () => {
      this.#regions.resize(a.size);
      this.#update();
      this.#look();
      b.reload();
    });
    b.addEventListener("map", () => this.#update());
    for (const panel of this.#panels) {
      panel.addEventListener("map", () => {
        if (panel.isNew) find("#wide").checked = panel.isWholePage;
        this.#look();
      });
    }
    for (const panel of this.#panels) panel.addEventListener("open", () => this.#update());
    this.#unseen.addEventListener("change", () => this.#measure());
    this.#unseen.addEventListener("rest", () => find("#work").classList.remove("is-measuring"));
    for (const kind of ["change", "select"]) this.#regions.addEventListener(kind, () => this.#measure());
    document.addEventListener("keydown", (event) => {
      const isUndo = (event.ctrlKey || event.metaKey) && !event.shiftKey && !event.altKey && event.key === "z";
      if (!isUndo || event.target.matches("input[type=text]")) return; // a text field has its own undo
      event.preventDefault();
      this.#undo();
    });
    document.addEventListener("paste", (event) => this.#take(event, event.clipboardData.files));
    document.addEventListener("dragover", (event) => this.#hover(event, this.#under(event)));
    document.addEventListener("dragleave", (event) => event.relatedTarget ?? this.#hover(event, null));
    document.addEventListener("drop", (event) => {
      this.#hover(event, null);
      if (!event.dataTransfer.files.length) complain("This is not a file. Save the image, then drop the file.");
      this.#take(event, event.dataTransfer.files, this.#under(event));
    });
  }

  /** Load dropped or pasted images: one into `panel`, or else into the first empty panel; two are compared. */
  #take(event, files, panel = null) {
    const images = [...files];
    if (!images.length) return;
    event.preventDefault();
    const [a, b] = this.#panels;
    if (images.length > 1) {
      this.#compare(true);
      a.load(images[0]).then(() => b.load(images[1]));
    } else {
      (panel ?? (this.#comparing && a.map && !b.map ? b : a)).load(images[0]);
    }
  }

  /** Show an image as A. */
  show(file) {
    this.#panels[0].load(file);
  }

  #under(event) {
    return this.#panels.find((panel) => panel.element.contains(event.target)) ?? null;
  }

  #hover(event, panel) {
    event.preventDefault();
    for (const other of this.#panels) other.element.classList.toggle("is-target", other === panel);
  }

  #add() {
    const [a] = this.#panels;
    const { width, height } = this.#regions.size;
    const side = (whole) => Math.max(1, Math.round(whole * NEW_PART));
    const { x, y } = a.map.findPlace(side(width), side(height), a.regions);
    a.boxes.focus(this.#regions.add(x, y, side(width), side(height)));
  }

  #undo() {
    if (!this.#regions.canUndo) return;
    this.#regions.undo();
    announce("Undone");
  }

  /** Show image B, too, or hide it; it stays loaded. */
  #compare(on) {
    const [, b] = this.#panels;
    this.#comparing = on;
    b.element.hidden = !on;
    find("#compare").textContent = on ? "Close comparison" : "Compare";
    find("#work").classList.toggle("comparing", on);
    this.#update();
  }

  #look() {
    const view = new FormData(find("#toolbar")).get("view");
    const opacity = find("#opacity").value / 100;
    find("#opacity").disabled = view !== "heat";
    find(".of-heat").hidden = view === "image";
    find(".of-heat").classList.toggle("of-map", view === "map");
    find(".slider output").value = `${find("#opacity").value}%`;
    find("#work").dataset.view = view;
    find("#work").classList.toggle("is-wide", find("#wide").checked);
    grey("#grey", this.#facts.ground, 1);
    grey("#fading", this.#facts.ground, Math.min(1, opacity / this.#facts.opacity)); // as heat.py has it
    const [a, b] = this.#panels;
    const screen = find("#screen").value;
    const asked = { screen, kind: { "": "", whole: "picture" }[screen] ?? "page", page: "" };
    a.show({ view, opacity, asked });
    b.show({ view, opacity, asked: a.map ? asSeen(a.map) : asked }); // what is compared is seen alike
    this.#frame();
  }

  /** Fetch the maps of other screens; without success, the old ones stay. */
  async #reload() {
    const [a, b] = this.#panels;
    await (a.map ? a : b).reload(); // a new map of A has B follow
    if (a.map) find("#screen").value = a.map.asked.screen;
    this.#look();
  }

  #update() {
    const [a, b] = this.#panels;
    const started = a.isOpen || this.#comparing; // shown while comparing, so that the user can stop it
    find("#toolbar").hidden = !started;
    find("#results").hidden = !a.isOpen;
    for (const button of ["#add", "#print"]) find(button).disabled = !a.map;
    find("#work").classList.toggle("is-started", a.isOpen);
    const names = this.#shown.map(({ file }) => file.name);
    if (names.length) document.title = `Predicted attention: ${names.join(", ")}`; // names a printed PDF
    for (const panel of this.#panels) panel.boxes.draw();
    find("#difference").hidden = !(this.#comparing && a.map && b.map);
    this.#drawDifference();
    this.#measure();
    this.#frame();
  }

  /** Tall images get a choice of screens as wide as they, and scroll at full width; what scrolls can have the focus. */
  #frame() {
    const isNarrow = Math.max(...this.#shown.map(({ map }) => map.imageWidth)) < this.#facts.narrowest_px;
    for (const option of find("#screen").options) {
      option.hidden = option.disabled = !option.selected && isNarrow && option.value in this.#facts.screens;
    }
    find("#highest").textContent = this.#shown.some(({ map }) => map.windows.length > 1) ? "highest of its screen" : "high attention";
    const isTall = this.#shown.some((panel) => panel.isTall);
    find("#toolbar .of-tall").hidden = !isTall;
    find("#toolbar .of-page").hidden = !isTall && !this.#shown.some(({ map }) => map.seenAs);
    for (const panel of this.#panels) {
      const scrolls = panel.isTall && find("#wide").checked;
      panel.element.classList.toggle("scrolls", scrolls);
      if (scrolls) panel.element.querySelector(".frame").tabIndex = 0;
      else panel.element.querySelector(".frame").removeAttribute("tabindex");
    }
  }

  #drawDifference() {
    const [a, b] = this.#panels;
    if (find("#difference").hidden) return;
    for (const part of [".stage", ".legend"]) find(`#difference ${part}`).hidden = !this.#isComparable;
    find("#difference .note").textContent = this.#isComparable
      ? overall(moved(a.map, b.map), this.#facts.clear)
      : "Two designs need the same aspect ratio, and these have different ones: crop or pad one of them.";
    if (!this.#isComparable) return;
    const stage = find("#difference .stage");
    stage.style.setProperty("--ratio", b.map.imageWidth / b.map.imageHeight);
    stage.querySelector("img").src = b.url;
    stage.querySelector("canvas").setAttribute("aria-label", "Where B gets more attention than A, and where less");
    this.#painter.difference(stage.querySelector("canvas"), a.map, b.map);
  }

  /** Whether A and B have the same aspect ratio; rounding can change a side by one pixel. */
  get #isComparable() {
    const [a, b] = this.#panels.map((panel) => panel.size);
    const scale = Math.min(a.height / b.height, a.width / b.width);
    return Math.max(a.height - b.height * scale, a.width - b.width * scale) <= 1;
  }

  #measure() {
    const [a, b] = this.#panels;
    const count = this.#regions.list.length;
    find("#undo").disabled = !this.#regions.canUndo;
    for (const button of ["#csv", "#json"]) find(button).hidden = !count;
    if (!a.map) return;
    const [ofA, ofB] = [a.measures(), this.#comparing ? b.measures() : null];
    const changes = ofB && this.#isComparable ? changesOf(ofA, ofB, this.#facts.clear) : null;
    this.#table.show(ofA, ofB, changes);
    find("#verdict").hidden = !(changes && count);
    if (changes && count) find("#verdict").textContent = verdict(this.#regions.list, changes);
    const unseen = ofB ? "" : unseenIn(this.#regions.list, ofA, this.#facts.clear);
    find("#unseen").hidden = !unseen;
    find("#unseen").textContent = unseen;
    for (const panel of this.#panels) panel.warn();
    // While two images are compared, the table has no floors.
    this.#unseen.want(this.#shown.map(({ file, map, regions }) => ({ file, map, regions: ofB ? [] : regions })));
    find("#work").classList.toggle("is-measuring", this.#unseen.isBusy);
    find("#results .of-b").hidden = !(ofB && count);
    find("#results .hint").hidden = count > 0;
    find("#meanings").hidden = !count;
  }

  #images() {
    return this.#shown.map((panel) => ({
      slot: panel === this.#panels[0] ? "A" : "B",
      name: panel.file.name,
      regions: panel.regions,
      measures: panel.measures(),
    }));
  }
}

/** What to ask for, so that another image is seen as the one of a map: on the same screens, and as much as a page. */
function asSeen({ asked, windows: [[top, bottom], next], imageWidth, page, seenAs }) {
  const screen = bottom - top > imageWidth ? "phone" : "desktop";
  return { screen: asked.screen || (next ? screen : ""), kind: "", page: seenAs ? page : "" };
}

/** Let a filter make an image grey, from the level `black` to the level `white`, to a `degree` of 0..1. */
function grey(filter, [black, white], degree) {
  const part = (degree * (white - black)) / 255 / 3;
  const rows = [0, 1, 2].map((row) => [0, 1, 2].map((other) => part + (other === row ? 1 - degree : 0)));
  const matrix = [...rows.flatMap((row) => [...row, 0, (degree * black) / 255]), 0, 0, 0, 1, 0];
  find(`${filter} feColorMatrix`).setAttribute("values", matrix.join(" "));
}

try {
  const page = new Page(await readFacts());
  const file = await given();
  if (file) page.show(file);
} catch (error) {
  complain(error.message, () => location.reload());
}
