/** Builds the page: images A and B, how they are shown, and the regions on both. */

import { announce, complain, counted, make, save } from "./dom.js";
import { Elements } from "./elements.js";
import { groundOf } from "./ground.js";
import { keep, restore } from "./kept.js";
import { Painter, moved } from "./map.js";
import { Maps } from "./maps.js";
import { Overview } from "./overview.js";
import { Panel } from "./panel.js";
import { isRegionFile, readRegions } from "./region_file.js";
import { Regions } from "./regions.js";
import { Failure, given, readFacts } from "./server.js";
import { drawSheet } from "./share.js";
import { Strip } from "./strip.js";
import { Table, changesOf, overall, toCsv, toJson, unseenIn, verdict } from "./table.js";
import { Unseen } from "./unseen.js";

const find = (selector) => document.querySelector(selector);
/** A new region has this part of the sides of the image. */
const NEW_PART = 1 / 5;
/** More images than these are shown as a strip. */
const COMPARED = 2;

class Page {
  #facts;
  #regions = new Regions();
  #unseen;
  #panels;
  #painter;
  #table;
  #strip;
  #overview;
  #elements;
  #comparing = false;
  /** A file of regions that waits for image A. */
  #regionFile = null;

  constructor(facts) {
    this.#facts = facts;
    this.#painter = new Painter(facts);
    this.#table = new Table(find("#results table"), this.#regions, facts.meanings, facts.region_colors);
    this.#unseen = new Unseen(facts.clear);
    const maps = new Maps(facts);
    this.#strip = new Strip(find("#strip"), maps);
    this.#overview = new Overview(find("#all table"), this.#regions);
    const shared = { facts, maps, painter: this.#painter, regions: this.#regions, unseen: this.#unseen };
    this.#panels = ["A", "B"].map((slot) => new Panel(slot, shared));
    find("#images").append(...this.#panels.map((panel) => panel.element));
    this.#elements = new Elements(find("#elements"), this.#panels[0].element.querySelector(".stage"), this.#regions);
    this.#describe(facts);
    this.#listen();
    restore(this.#regions);
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
    for (const [name, colors] of Object.entries(this.#painter.legends)) {
      const stops = colors.filter((_, index) => index % 15 === 0);
      document.documentElement.style.setProperty(`--${name}`, `linear-gradient(90deg, ${stops.join(", ")})`);
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
    find("#undo").addEventListener("click", () => this.#step("undo"));
    find("#redo").addEventListener("click", () => this.#step("redo"));
    find("#load").addEventListener("click", () => find("#load + input").click());
    find("#load + input").addEventListener("change", ({ target }) => {
      for (const file of target.files) this.#load(file);
      target.value = "";
    });
    find("#csv").addEventListener("click", () => save(toCsv(this.#images()), a.file.name, "regions.csv"));
    find("#json").addEventListener("click", () => save(toJson(this.#images()), a.file.name, "regions.json"));
    find("#share").addEventListener("click", () => this.#share());
    find("#print").addEventListener("click", () => window.print());
    window.addEventListener("beforeprint", () => (find("#meanings").open = true));
    a.addEventListener("map", () => {
      this.#regions.resize(a.size);
      this.#update();
      this.#look();
      b.reload();
    });
    b.addEventListener("map", () => this.#update());
    a.addEventListener("rest", () => this.#regionFile && this.#load(this.#regionFile));
    for (const panel of this.#panels) {
      panel.addEventListener("map", () => {
        if (panel.isNew) {
          find("#wide").checked = panel.isWholePage;
          this.#regions.follow(panel.slot, panel.size, panel.file.elements ?? []);
        }
        this.#look();
      });
    }
    for (const panel of this.#panels) {
      panel.addEventListener("open", () => this.#update());
      panel.addEventListener("files", (event) => this.#take(event, event.detail, panel));
    }
    this.#strip.addEventListener("choose", ({ detail }) => this.#chosen.load(detail));
    this.#strip.addEventListener("first", ({ detail }) => a.isOpen || a.load(detail));
    this.#strip.addEventListener("change", () => this.#overlook());
    this.#overview.addEventListener("change", () => this.#mark());
    find("#all-csv").addEventListener("click", () => save(toCsv(this.#overview.images), "all", "regions.csv"));
    this.#unseen.addEventListener("change", () => this.#measure());
    this.#unseen.addEventListener("rest", () => find("#work").classList.remove("is-measuring"));
    for (const kind of ["change", "select"]) {
      this.#regions.addEventListener(kind, () => {
        this.#measure();
        this.#overlook();
      });
    }
    this.#regions.addEventListener("change", () => keep(this.#regions));
    document.addEventListener("keydown", (event) => {
      const way = wayOf(event);
      if (!way || event.target.matches("input[type=text]")) return; // a text field has its own undo
      event.preventDefault();
      this.#step(way);
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

  /**
   * Load files that were chosen, dropped or pasted: one image into `panel`, or else into the first empty panel. Two are
   * compared, and more are shown as a strip, to which later ones are added.
   */
  #take(event, files, panel = null) {
    if (!files.length) return;
    event.preventDefault();
    const images = [...files].filter((file) => !isRegionFile(file));
    const [a, b] = this.#panels;
    const isMany = images.length > COMPARED || this.#strip.entries.length > 0;
    const shown = this.#strip.entries.length ? [] : this.#shown.map(({ file }) => file);
    if (isMany) this.#strip.add([...shown, ...images]);
    if (images.length === 1) {
      (panel ?? (this.#comparing && a.map && !b.map ? b : a)).load(images[0]);
    } else if (images.length === COMPARED && !isMany) {
      this.#compare(true);
      a.load(images[0]).then(() => b.load(images[1]));
    }
    for (const file of [...files].filter(isRegionFile)) this.#load(file);
  }

  /** Show an image as A. */
  show(file) {
    this.#panels[0].load(file);
  }

  /** Put the regions of a file in the place of all, or wait for the map of image A. */
  async #load(file) {
    const [a] = this.#panels;
    this.#regionFile = a.isBusy || !a.map ? file : null;
    this.#measure();
    if (this.#regionFile) return;
    try {
      const regions = await readRegions(file, a.size);
      this.#regions.replace(regions);
      for (const panel of this.#shown) this.#regions.follow(panel.slot, panel.size, panel.file.elements ?? []);
      announce(`${counted(regions.length, "region")} of ${file.name} loaded`);
    } catch (error) {
      if (!(error instanceof Failure)) throw error;
      complain(error.message);
    }
  }

  /** The panel for the image that is chosen on the strip. */
  get #chosen() {
    const [a, b] = this.#panels;
    return this.#comparing && find("#strip [value=B]").checked ? b : a;
  }

  /** Measure all images of the strip, and show the result. */
  #overlook() {
    find("#all").hidden = !this.#strip.entries.length;
    find("#all .hint").hidden = this.#regions.list.length > 0;
    find("#all-csv").hidden = !this.#regions.list.length;
    this.#mark();
    if (this.#strip.entries.length) this.#overview.want(this.#strip.entries);
  }

  #mark() {
    const [a, b] = this.#panels;
    const shown = this.#comparing ? { A: a.file, B: b.file } : { A: a.file };
    this.#strip.mark(shown, (index) => this.#overview.shareOn(index) || "ready");
    find("#strip .of-b").hidden = !this.#comparing;
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
    const [across, down] = [side(width), side(Math.min(height, width))]; // a long page is many times as high as wide
    const { x, y } = a.map.findPlace(across, down, a.regions);
    a.boxes.focus(this.#regions.add(x, y, across, down));
  }

  /** Go a step back or forth: `undo` or `redo`. */
  #step(way) {
    if (find(`#${way}`).disabled) return;
    this.#regions[way]();
    announce({ undo: "Undone", redo: "Done again" }[way]);
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
    find("#work").classList.toggle("is-actual", find("#actual").checked);
    filter("#grey", groundOf(this.#facts, this.#facts.opacity));
    filter("#fading", groundOf(this.#facts, opacity));
    const [a, b] = this.#panels;
    const screen = find("#screen").value;
    const asked = { screen, kind: { "": "", whole: "picture" }[screen] ?? "page", page: "" };
    this.#strip.ask(asked);
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
    for (const button of ["#add", "#print", "#share"]) find(button).disabled = !a.map;
    find("#work").classList.toggle("is-started", a.isOpen);
    const names = this.#shown.map(({ file }) => file.name);
    if (names.length) document.title = `Predicted attention: ${names.join(", ")}`; // names a printed PDF
    for (const panel of this.#panels) panel.boxes.draw();
    this.#mark();
    find("#difference").hidden = !(this.#comparing && a.map && b.map);
    this.#drawDifference();
    this.#measure();
    this.#frame();
    this.#elements.show(a.file?.elements);
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
      if (scrolls || find("#actual").checked) panel.element.querySelector(".frame").tabIndex = 0;
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
    find("#redo").disabled = !this.#regions.canRedo;
    this.#tellKept();
    for (const button of ["#csv", "#json"]) find(button).hidden = !count;
    const [ofA, ofB] = [a.measures(), this.#comparing ? b.measures() : null];
    if (!ofA) return;
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

  /** Say which regions wait for an image. */
  #tellKept() {
    const [a] = this.#panels;
    const { list } = this.#regions;
    const file = this.#regionFile?.name;
    const kept = file ? `The regions of ${file}` : `${counted(list.length, "region")} from before (${list.map(({ name }) => name).join(", ")})`;
    find("#kept").hidden = !(file || (list.length && !a.map));
    find("#kept").textContent = `${kept} will be on the next image.`;
  }

  /** Save one picture of what is shown. */
  async #share() {
    const parts = this.#shown.map(({ element }) => (selector) => element.querySelector(selector));
    const images = this.#images().map((image, index) => {
      const [part, { size }] = [parts[index], this.#shown[index]];
      const caption = `${this.#comparing ? `${image.slot}: ` : ""}${image.name}, ${part(".size").textContent}`;
      const isHeat = find("#work").dataset.view === "heat";
      const ground = isHeat ? groundOf(this.#facts, find("#opacity").value / 100) : null;
      return { ...image, caption, size, stage: part(".stage"), ground };
    });
    const said = [find("#verdict"), find("#unseen"), ...parts.flatMap((part) => [part(".hollow"), part(".trust")])];
    const told = said.filter(({ hidden }) => !hidden).map(({ textContent }) => textContent);
    const texts = [...told, this.#facts.notice, find("#model").textContent, this.#facts.caution];
    const [low, , high] = find(".of-heat").children;
    const sheet = await drawSheet({
      title: find("h1").textContent,
      images,
      rows: this.#table.texts,
      legend: find(".of-heat").hidden ? null : { colors: this.#painter.legends[find("#work").dataset.view], low: low.textContent, high: high.textContent },
      colors: this.#facts.region_colors,
      texts: [...new Set(texts.filter(Boolean))],
    });
    save(sheet, images[0].name, "share.png");
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

/** Whether keys undo or redo: Ctrl or Command with Z, with Shift + Z, or with Y. */
function wayOf({ ctrlKey, metaKey, altKey, shiftKey, key }) {
  if (!(ctrlKey || metaKey) || altKey) return "";
  const letter = key.toLowerCase();
  if (letter === "z") return shiftKey ? "redo" : "undo";
  return letter === "y" && !shiftKey ? "redo" : "";
}

/** What to ask for, so that another image is seen as the one of a map: on the same screens, and as much as a page. */
function asSeen({ asked, windows: [[top, bottom], next], imageWidth, page, seenAs }) {
  const screen = bottom - top > imageWidth ? "phone" : "desktop";
  return { screen: asked.screen || (next ? screen : ""), kind: "", page: seenAs ? page : "" };
}

/** Let a filter of the page make an image the ground of a heat. */
function filter(name, { sum, own, level }) {
  const rows = [0, 1, 2].map((row) => [0, 1, 2].map((other) => sum + (other === row ? own : 0)));
  const matrix = [...rows.flatMap((row) => [...row, 0, level / 255]), 0, 0, 0, 1, 0];
  find(`${name} feColorMatrix`).setAttribute("values", matrix.join(" "));
}

try {
  const page = new Page(await readFacts());
  const file = await given();
  if (file) page.show(file);
} catch (error) {
  complain(error.message, () => location.reload());
}
