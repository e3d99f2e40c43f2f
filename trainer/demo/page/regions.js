/** The regions that the user marked: named rectangles in integer pixels of image A. */

const clamp = (value, low, high) => Math.min(Math.max(value, low), high);

/** Changes of one kind to one region that follow each other within this time are undone together. */
const PAUSE_MS = 1000;
const MAX_STEPS = 100;

/**
 * Dispatches `change` when a region is added, removed, moved, resized or renamed, and `select` on selection. Every
 * change can be undone.
 */
export class Regions extends EventTarget {
  #list = [];
  #number = 0;
  #selected = null;
  #size = null;
  #steps = [];
  #last = { what: "", at: 0 };
  #held = false;

  get list() {
    return this.#list;
  }

  get selected() {
    return this.#selected;
  }

  /** Set the size of image A; the regions keep their relative positions. */
  resize({ width, height }) {
    const before = this.#size ?? { width, height };
    this.#size = { width, height };
    for (const region of this.#list) this.#fit(region, before);
    this.#changed();
  }

  /** Add a region, named by a number, and select it. */
  add(x, y, width, height) {
    this.#remember("add");
    this.#number += 1;
    const region = { id: this.#number, name: `Region ${this.#number}` };
    this.#place(region, x, y, width, height);
    this.#list.push(region);
    this.select(region);
    this.#changed();
    return region;
  }

  move(region, x, y) {
    this.#remember("move", region);
    this.#place(region, x, y, region.width, region.height);
    this.#changed();
  }

  /** Set the sides of a region; they are clipped to the image. */
  reshape(region, left, top, right, bottom) {
    this.#remember("reshape", region);
    const x = clamp(Math.min(left, right), 0, this.#size.width - 1);
    const y = clamp(Math.min(top, bottom), 0, this.#size.height - 1);
    const width = Math.min(Math.max(left, right), this.#size.width) - x;
    const height = Math.min(Math.max(top, bottom), this.#size.height) - y;
    this.#place(region, x, y, width, height);
    this.#changed();
  }

  rename(region, name) {
    this.#remember("rename", region);
    region.name = name;
    this.#changed();
  }

  /** Take a region away; its neighbour is selected, and returned where there is one. */
  remove(region) {
    this.#remember("remove", region);
    const index = this.#list.indexOf(region);
    this.#list.splice(index, 1);
    const next = this.#list[Math.min(index, this.#list.length - 1)] ?? null;
    this.select(next);
    this.#changed();
    return next;
  }

  select(region) {
    this.#selected = region;
    this.dispatchEvent(new Event("select"));
  }

  // === Undo ===

  get canUndo() {
    return this.#steps.length > 0;
  }

  /** Begin a gesture, such as dragging: all that changes until `release` is undone together. */
  hold() {
    this.#held = true;
    this.#last = { what: "", at: 0 };
  }

  /** End a gesture. */
  release() {
    this.#held = false;
    this.#last = { what: "", at: 0 };
  }

  /** Undo the last change. */
  undo() {
    const step = this.#steps.pop();
    if (!step) return;
    const regions = step.list.map(({ region, ...before }) => Object.assign(region, before));
    if (step.size) for (const region of regions) this.#fit(region, step.size);
    this.#list = regions;
    this.#last = { what: "", at: 0 };
    this.select(regions.includes(this.#selected) ? this.#selected : (regions.at(-1) ?? null));
    this.#changed();
  }

  /** Remember the regions before a change, unless it goes on with the last one. */
  #remember(kind, region = null) {
    const what = this.#held ? "gesture" : `${kind} ${region?.id ?? ""}`;
    const now = performance.now();
    const goesOn = what === this.#last.what && (this.#held || (region && now - this.#last.at < PAUSE_MS));
    this.#last = { what, at: now };
    if (goesOn) return;
    this.#steps.push({ size: this.#size, list: this.#list.map((each) => ({ region: each, ...each })) });
    if (this.#steps.length > MAX_STEPS) this.#steps.shift();
  }

  /** Move a region to the same relative position as in an image of another size. */
  #fit(region, { width, height }) {
    const [across, down] = [this.#size.width / width, this.#size.height / height];
    this.#place(region, region.x * across, region.y * down, region.width * across, region.height * down);
  }

  #place(region, x, y, width, height) {
    region.width = clamp(Math.round(width), 1, this.#size.width);
    region.height = clamp(Math.round(height), 1, this.#size.height);
    region.x = clamp(Math.round(x), 0, this.#size.width - region.width);
    region.y = clamp(Math.round(y), 0, this.#size.height - region.height);
  }

  #changed() {
    this.dispatchEvent(new Event("change"));
  }

  /** The regions at the same relative positions of an image of another size, in its integer pixels. */
  within({ imageWidth, imageHeight }) {
    const side = (start, length, ratio, whole) => {
      const first = Math.min(Math.round(start * ratio), whole - 1);
      return [first, clamp(Math.round((start + length) * ratio), first + 1, whole) - first];
    };
    return this.#list.map((region) => {
      const [x, width] = side(region.x, region.width, imageWidth / this.#size.width, imageWidth);
      const [y, height] = side(region.y, region.height, imageHeight / this.#size.height, imageHeight);
      return { ...region, x, y, width, height };
    });
  }

  /** The size of image A; null without one, and then there are no regions. */
  get size() {
    return this.#size;
  }
}
