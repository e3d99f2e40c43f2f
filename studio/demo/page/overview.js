/** The table of all images: a row for each, and a column for the share of each region. */

import { make, percent } from "./dom.js";
import { Measurable, measureAll, shareText } from "./map.js";

const REST_MS = 150;

/** Dispatches `change` when the table shows new figures. Maps are measured anew each time, which saves their sums' memory. */
export class Overview extends EventTarget {
  /** The images of the table, {slot, name, kind, regions, measures, error}, the last four only where they are known. */
  images = [];
  #element;
  #regions;
  #timer = 0;
  #count = 0;

  constructor(element, regions) {
    super();
    this.#element = element;
    this.#regions = regions;
  }

  /** Measure the regions on the images of a strip as soon as the page rests. */
  want(entries) {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#measure([...entries]), REST_MS);
  }

  /** The text for the share of the selected region, or of the first one, on the image of a number; empty before. */
  shareOn(index) {
    const measures = this.images[index]?.measures ?? [];
    const selected = Math.max(0, this.#regions.list.indexOf(this.#regions.selected));
    return measures[selected] ? shareText(measures[selected]) : "";
  }

  async #measure(entries) {
    this.#count += 1;
    const current = this.#count;
    const images = [];
    for (const [index, { file, map, state, text }] of entries.entries()) {
      const image = { slot: index + 1, name: file.name };
      if (map) Object.assign(image, this.#measured(map));
      if (state === "failed") image.error = text;
      images.push(image);
      await new Promise((resolve) => setTimeout(resolve)); // so that the page stays usable
      if (current !== this.#count) return;
    }
    this.images = images;
    this.#draw();
    this.dispatchEvent(new Event("change"));
  }

  #measured(map) {
    const regions = this.#regions.on("all", { width: map.imageWidth, height: map.imageHeight });
    const [kind] = (map.seenAs ?? "").split(",");
    return { kind, regions, measures: regions.length ? measureAll(new Measurable(map), regions) : [] };
  }

  #draw() {
    const { list } = this.#regions;
    const head = (text) => make("th", { scope: "col" }, text);
    this.#element.tHead.rows[0].replaceChildren(head("Image"), ...list.map(({ name }) => head(name)));
    const rows = this.images.map(({ name, kind, measures, error }) => {
      const cells = error
        ? [make("td", { class: "reason", colSpan: Math.max(1, list.length) }, error)]
        : list.map((region, index) => make("td", { "data-label": region.name }, ...figures(measures?.[index])));
      return make("tr", {}, make("th", { scope: "row" }, name, ...(kind ? [make("small", {}, kind)] : [])), ...cells);
    });
    this.#element.tBodies[0].replaceChildren(...rows);
    this.#element.hidden = !list.length;
  }
}

/** Share and peak of a region, or that they are not known yet. */
function figures(measure) {
  if (!measure) return ["…"];
  return [shareText(measure), make("small", {}, `peak ${percent(measure.peak, 0)}`)];
}
