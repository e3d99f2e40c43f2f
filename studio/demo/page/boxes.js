/** The regions as boxes over an image, which mouse, touch and keys draw, move and resize. */

import { announce, make, percent } from "./dom.js";
import { shareText } from "./map.js";

const CORNERS = ["nw", "ne", "sw", "se"];
const MIN_DRAG_PX = 6;
/** Of an arrow key, as a share of the longer side. */
const STEP = 0.01;
const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

/** Near the edge of what scrolls, a drag scrolls it. */
const EDGE_PX = 28;

/**
 * The layer `element` of the panel `slot`, A or B; `size()` returns the size {width, height} of its image, and
 * `measures()` its measures in the order of the regions, or null. A region has the colour of its position in `colors`.
 */
export class Boxes {
  #element;
  #slot;
  #regions;
  #size;
  #measures;
  #boxes = new Map();
  #colors;
  #drag = null;

  constructor(element, slot, { regions, size, measures, colors }) {
    this.#element = element;
    this.#slot = slot;
    this.#colors = colors;
    this.#regions = regions;
    this.#size = size;
    this.#measures = measures;
    regions.addEventListener("change", () => this.draw());
    regions.addEventListener("select", () => this.draw());
    element.addEventListener("pointerdown", (event) => this.#press(event));
    element.addEventListener("pointermove", (event) => this.#move(event));
    element.addEventListener("pointerup", () => this.#end());
    element.addEventListener("pointercancel", () => this.#end(true)); // the finger scrolls the page instead
  }

  /** Update the boxes to the current regions. */
  draw() {
    if (!this.#size()) return;
    const measures = this.#measures();
    for (const [region, box] of this.#boxes) {
      if (!this.#regions.list.includes(region)) {
        box.remove();
        this.#boxes.delete(region);
      }
    }
    this.#regions.list.forEach((region, index) => {
      if (!this.#boxes.has(region)) this.#boxes.set(region, this.#add(region));
      this.#place(this.#boxes.get(region), region, measures?.[index]);
      this.#boxes.get(region).style.setProperty("--own", this.#colors[index % this.#colors.length]);
    });
  }

  /** Focus the box of a region. */
  focus(region) {
    this.#boxes.get(region)?.focus();
  }

  #add(region) {
    const box = make(
      "div",
      { class: "box", role: "application", "aria-roledescription": "attention area", tabIndex: 0 },
      make("span", { class: "tag" }),
      ...CORNERS.map((corner) => make("i", { class: `corner ${corner}`, "data-corner": corner })),
    );
    box.setAttribute("aria-describedby", "keys");
    box.addEventListener("keydown", (event) => this.#key(event, region));
    box.addEventListener("focus", () => this.#regions.select(region));
    this.#element.append(box);
    return box;
  }

  #place(box, region, measure) {
    const { width, height } = this.#size();
    const place = this.#at(region);
    const style = {
      left: percent(place.x / width, 4),
      top: percent(place.y / height, 4),
      width: percent(place.width / width, 4),
      height: percent(place.height / height, 4),
    };
    Object.assign(box.style, style);
    box.classList.toggle("selected", region === this.#regions.selected);
    box.classList.toggle("at-top", place.y < 0.08 * height);
    box.classList.toggle("at-right", place.x > 0.65 * width);
    const share = measure ? shareText(measure) : "";
    box.querySelector(".tag").replaceChildren(make("b", {}, region.name), share && ` · ${share}`);
    box.setAttribute("aria-label", `${region.name}${share && `, ${share}${measure.screen ? "" : " of the attention"}`}`);
  }

  #at(region) {
    return this.#regions.at(region, this.#slot, this.#size());
  }

  #press(event) {
    if (event.button !== 0 || !this.#measures()) return;
    const box = event.target.closest(".box");
    const region = [...this.#boxes].find(([, other]) => other === box)?.[0];
    this.#element.setPointerCapture(event.pointerId);
    event.preventDefault();
    this.#regions.hold();
    if (region) {
      this.focus(region);
      this.#drag = event.target.dataset.corner ? this.#resizing(region, event) : this.#moving(region, event);
    } else {
      document.activeElement?.blur();
      this.#drag = this.#drawing(event);
    }
  }

  #move(event) {
    if (!this.#drag) return;
    const frame = this.#element.closest(".frame");
    const { top, bottom, left, right } = frame.getBoundingClientRect();
    if (event.clientY > bottom - EDGE_PX) frame.scrollTop += EDGE_PX / 2;
    if (event.clientY < top + EDGE_PX) frame.scrollTop -= EDGE_PX / 2;
    if (event.clientX > right - EDGE_PX) frame.scrollLeft += EDGE_PX / 2;
    if (event.clientX < left + EDGE_PX) frame.scrollLeft -= EDGE_PX / 2;
    this.#drag(event);
  }

  #end(isCancelled = false) {
    if (!this.#drag) return;
    this.#drag = null;
    if (isCancelled) this.#regions.cancel();
    else this.#regions.release();
  }

  #moving(region, start) {
    const { x, y } = this.#at(region);
    const size = this.#size();
    const from = this.#pixel(start, size);
    return (event) => {
      const to = this.#pixel(event, size);
      this.#regions.move(region, this.#slot, size, x + to.x - from.x, y + to.y - from.y);
    };
  }

  #resizing(region, start) {
    const { corner } = start.target.dataset;
    const { x, y, width, height } = this.#at(region);
    const fixed = { x: corner.includes("w") ? x + width : x, y: corner.includes("n") ? y + height : y };
    const size = this.#size();
    return (event) => {
      const to = this.#pixel(event, size);
      this.#regions.reshape(region, this.#slot, size, fixed.x, fixed.y, to.x, to.y);
    };
  }

  /** A region is drawn on both images, whichever the pointer is on. */
  #drawing(start) {
    const { size } = this.#regions;
    const from = this.#pixel(start, size);
    let region = null;
    return (event) => {
      const to = this.#pixel(event, size);
      const moved = Math.max(Math.abs(event.clientX - start.clientX), Math.abs(event.clientY - start.clientY));
      if (!region && moved < MIN_DRAG_PX) return;
      if (!region) {
        region = this.#regions.add(from.x, from.y, 1, 1);
        this.focus(region);
      }
      this.#regions.reshape(region, "A", size, from.x, from.y, to.x, to.y);
    };
  }

  /** The position of a pointer in pixels of an image of a `size` that fills the layer. */
  #pixel(event, size) {
    const { left, top, width, height } = this.#element.getBoundingClientRect();
    return { x: ((event.clientX - left) / width) * size.width, y: ((event.clientY - top) / height) * size.height };
  }

  #key(event, region) {
    if (event.altKey || event.metaKey) return;
    if (event.key === "Delete" || event.key === "Backspace") {
      const next = this.#regions.remove(region);
      announce(`${region.name} removed`);
      if (next) this.focus(next);
      else document.querySelector("#add").focus();
    } else if (event.key in ARROWS) {
      this.#step(region, ARROWS[event.key], event);
    } else {
      return;
    }
    event.preventDefault();
  }

  #step(region, [across, down], { shiftKey, ctrlKey }) {
    const size = this.#size();
    const step = ctrlKey ? 1 : Math.max(1, Math.round(STEP * Math.max(size.width, size.height)));
    const { x, y, width, height } = this.#at(region);
    if (shiftKey) {
      const right = Math.max(x + 1, x + width + across * step);
      this.#regions.reshape(region, this.#slot, size, x, y, right, Math.max(y + 1, y + height + down * step));
    } else {
      this.#regions.move(region, this.#slot, size, x + across * step, y + down * step);
    }
    announce(this.#boxes.get(region).getAttribute("aria-label"));
  }
}
