/** The table of regions and their measures on one image or on two, and the same as files. */

import { announce, make, percent, points } from "./dom.js";
import { shareText } from "./map.js";

const times = (ratio) => `${ratio.toFixed(ratio < 9.95 ? 1 : 0)}×`;

/** A floor as text: it may still be predicted, or be unknown. */
const floorText = (floor) => (floor === undefined ? "…" : floor === null ? "–" : percent(floor));

/** Heading and text of each column; `a` and `b` are the measures of a region on images A and B, `change` is their text. */
const COLUMNS = [
  ["Share", ({ a }) => shareText(a).replace(" of", "\nof")],
  ["Floor", ({ a }) => floorText(a.floor)],
  ["Area", ({ a }) => percent(a.area)],
  ["Ratio", ({ a }) => times(a.ratio)],
  ["Peak", ({ a }) => percent(a.peak, 0)],
  ["Rank", ({ a }) => String(a.rank)],
];
const COMPARING_COLUMNS = [
  ["Share A", ({ a }) => shareText(a).replace(" of", "\nof")],
  ["Share B", ({ b }) => shareText(b).replace(" of", "\nof")],
  ["B − A", ({ change }) => change],
];

/**
 * Say how the share of each region changes; `a` and `b` are the measures on both images. A change within what saving,
 * scaling or moving the same image does, as trainer/prediction/regions.py has it, is not clear.
 */
export function changesOf(a, b, clear) {
  return a.map((one, index) => {
    const [before, after] = [one.share, b[index].share];
    const isClear = isClearChange(before, after, clear);
    return { by: after - before, isClear, text: isClear ? `${points(before, after)} pp` : "no clear change" };
  });
}

function isClearChange(before, after, { part, share }) {
  return Math.abs(after - before) > Math.min(part * Math.max(before, after), share);
}

/** A sentence on the regions of which the content gets no clear attention; empty if there is none. */
export function unseenIn(regions, measures, clear) {
  const isUnseen = ({ floor, share }) => floor != null && (share <= floor || !isClearChange(floor, share, clear));
  const names = regions.filter((_, index) => isUnseen(measures[index])).map(({ name }) => name);
  const text = "adds no clear attention: its place has about as much without it";
  return names.length ? `The content of ${names.join(", ")} ${text}.` : "";
}

/** A sentence on which region gains and which one loses most from A to B. */
export function verdict(regions, changes) {
  const clear = changes.map((change, index) => ({ ...change, name: regions[index].name })).filter((each) => each.isClear);
  const most = clear.toSorted((one, other) => other.by - one.by);
  const said = (change, verb) => `${change.name} ${verb} ${change.text.slice(1)}`;
  const parts = [];
  if (most[0]?.by > 0) parts.push(said(most[0], "gains"));
  if (most.at(-1)?.by < 0) parts.push(said(most.at(-1), "loses"));
  return parts.length ? `From A to B, ${parts.join(" and ")} of the attention.` : "No region changes clearly from A to B.";
}

/** A sentence on the share of the attention that is elsewhere on B, and whether that means something. */
export function overall(share, { moved: least }) {
  if (share > least) return `${percent(share)} of the attention is elsewhere on B.`;
  const again = `Saving, scaling or moving one image by 4 pixels already moves up to ${percent(least, 0)}`;
  return `No clear change overall: ${percent(share)} of the attention is elsewhere on B. ${again}.`;
}

/** Fills the <table> `element`, in which names can be edited. A region has the colour of its position. */
export class Table {
  #element;
  #regions;
  #meanings;
  #colors;
  #rows = new Map();
  #columns = [];

  /** `meanings` says what the figure of each column, named by its first word, means. */
  constructor(element, regions, meanings, colors) {
    this.#element = element;
    this.#regions = regions;
    this.#meanings = meanings;
    this.#colors = colors;
  }

  /** Show measures in the order of the regions; those of image B, and the changes, may be null. */
  show(a, b, changes) {
    this.#head(b ? COMPARING_COLUMNS : COLUMNS);
    for (const [region, row] of this.#rows) {
      if (!this.#regions.list.includes(region)) {
        row.remove();
        this.#rows.delete(region);
      }
    }
    this.#regions.list.forEach((region, index) => {
      if (!this.#rows.has(region)) this.#rows.set(region, this.#add(region));
      this.#fill(region, { a: a[index], b: b?.[index], change: changes?.[index].text ?? "" });
      this.#rows.get(region).style.setProperty("--own", this.#colors[index % this.#colors.length]);
    });
    this.#element.hidden = !this.#regions.list.length;
  }

  /** What it shows, row by row, from the headings on. */
  get texts() {
    const text = (cell) => cell.querySelector("input")?.value ?? cell.textContent.replaceAll("\n", " ");
    return [...this.#element.rows].map(({ cells }) => [...cells].slice(0, -1).map(text));
  }

  #head(columns) {
    if (columns === this.#columns) return;
    this.#columns = columns;
    const head = (text) => make("th", { scope: "col", title: this.#meanings[text.split(" ")[0]] ?? "" }, text);
    const last = make("th", { scope: "col" }, make("span", { class: "unseen" }, "Remove"));
    this.#element.tHead.rows[0].replaceChildren(head("Region"), ...columns.map(([text]) => head(text)), last);
    for (const row of this.#rows.values()) row.remove();
    this.#rows.clear();
  }

  #add(region) {
    const name = make("input", { type: "text", value: region.name, maxLength: 60, "aria-label": "Name" });
    name.addEventListener("input", () => this.#regions.rename(region, name.value.trim() || `Region ${region.id}`));
    name.addEventListener("change", () => (name.value = region.name));
    name.addEventListener("focus", () => this.#regions.select(region));
    const remove = make("button", { type: "button", class: "icon" }, closeIcon());
    remove.addEventListener("click", () => {
      const next = this.#regions.remove(region);
      announce(`${region.name} removed`);
      if (next) this.#rows.get(next).querySelector("button").focus();
      else document.querySelector("#add").focus();
    });
    const cells = this.#columns.map(([text]) => make("td", { "data-label": text }));
    const row = make("tr", {}, make("th", { scope: "row" }, name), ...cells, make("td", {}, remove));
    this.#element.tBodies[0].append(row);
    return row;
  }

  #fill(region, measures) {
    const row = this.#rows.get(region);
    row.classList.toggle("selected", region === this.#regions.selected);
    this.#columns.forEach(([, text], index) => (row.cells[index + 1].textContent = text(measures)));
    row.querySelector("button").setAttribute("aria-label", `Remove ${region.name}`);
  }
}

function closeIcon() {
  const space = "http://www.w3.org/2000/svg";
  const icon = document.createElementNS(space, "svg");
  const use = document.createElementNS(space, "use");
  use.setAttribute("href", "#icon-close");
  icon.setAttribute("aria-hidden", "true");
  icon.append(use);
  return icon;
}

// === Files ===

/** One entry for each region of each image {slot, name, regions, measures}, in pixels of that image, or for its `error`. */
function entries(images) {
  return images.flatMap(({ slot, name, regions = [], measures, error }) =>
    error ? [{ picture: slot, file: name, error }] : regions.map((region, index) => {
      const { share, area, ratio, peak, peakAt, rank, screen, floor = null } = measures[index];
      const { x, y, width, height, selector } = region;
      const measured = { share, area, ratio, peak, peak_x: peakAt.x, peak_y: peakAt.y, rank, screen, floor };
      return { picture: slot, file: name, region: region.name, x, y, width, height, ...measured, selector };
    }),
  );
}

/** The entries of all regions as a file of JSON. */
export function toJson(images) {
  return new Blob([`${JSON.stringify(entries(images), null, 2)}\n`], { type: "application/json" });
}

/** The entries of all regions as a file of CSV. */
export function toCsv(images) {
  const rows = entries(images);
  const quote = (value) => (typeof value === "string" ? `"${value.replaceAll('"', '""')}"` : (value ?? ""));
  const names = [...new Set(rows.flatMap((row) => Object.keys(row)))];
  const lines = [names, ...rows.map((row) => names.map((name) => quote(row[name])))];
  return new Blob([lines.map((line) => `${line.join(",")}\n`).join("")], { type: "text/csv" });
}
