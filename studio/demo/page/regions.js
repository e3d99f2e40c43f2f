/** The regions that the user marked: named rectangles on image A, and on image B, where they may be elsewhere. */

const clamp = (value, low, high) => Math.min(Math.max(value, low), high);

/** Changes of one kind to one region that follow each other within this time are undone together. */
const PAUSE_MS = 1000;
const MAX_STEPS = 100;

/**
 * Dispatches `change` when a region is added, removed, moved, resized or renamed, and `select` on selection. Every
 * change can be undone, and done again.
 *
 * A region {id, name, selector, A, B} has a place {x, y, width, height} on image A, in integer pixels of an image of its `size`
 * {width, height}. Its place on B is null until it is moved there: it is at the same relative position as on A. Its selector
 * finds the element of a page that it is; it is empty for a rectangle, which it is when it has been moved on A.
 */
export class Regions extends EventTarget {
  #list = [];
  #number = 0;
  #selected = null;
  #size = null;
  #steps = [];
  #undone = [];
  #last = { what: "", at: 0 };
  #held = false;

  get list() {
    return this.#list;
  }

  get selected() {
    return this.#selected;
  }

  /** The size of image A; null without one, and then there are no regions. */
  get size() {
    return this.#size;
  }

  /** Set the size of image A; the regions keep their relative positions. */
  resize({ width, height }) {
    this.#size = { width, height };
    this.#changed();
  }

  /** Add a region at a place on image A, named by a number unless it has a name, and select it. */
  add(x, y, width, height, { name = "", selector = "" } = {}) {
    this.#remember("add");
    this.#number += 1;
    const count = this.#list.filter((other) => other.name === name).length;
    const own = count ? `${name} ${count + 1}` : name || `Region ${this.#number}`;
    const region = { id: this.#number, name: own, selector, A: null, B: null };
    this.#place(region, "A", this.#size, x, y, width, height);
    this.#list.push(region);
    this.select(region);
    this.#changed();
    return region;
  }

  /** Move a region on the image `slot`, A or B, of a `size`. */
  move(region, slot, size, x, y) {
    const { width, height } = this.at(region, slot, size);
    this.#remember("move", region);
    if (slot === "A") region.selector = "";
    this.#place(region, slot, size, x, y, width, height);
    this.#changed();
  }

  /** Set the sides of a region on the image `slot` of a `size`; they are clipped to the image. */
  reshape(region, slot, size, left, top, right, bottom) {
    this.#remember("reshape", region);
    if (slot === "A") region.selector = "";
    const x = clamp(Math.min(left, right), 0, size.width - 1);
    const y = clamp(Math.min(top, bottom), 0, size.height - 1);
    const width = Math.min(Math.max(left, right), size.width) - x;
    const height = Math.min(Math.max(top, bottom), size.height) - y;
    this.#place(region, slot, size, x, y, width, height);
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

  /** Put others, {name, selector, x, y, width, height} on image A, in the place of all regions. */
  replace(places) {
    this.#remember("replace");
    this.#list = places.map(({ name, selector, x, y, width, height }) => {
      this.#number += 1;
      const region = { id: this.#number, name, selector, A: null, B: null };
      this.#place(region, "A", this.#size, x, y, width, height);
      return region;
    });
    this.select(this.#list[0] ?? null);
    this.#changed();
  }

  /** The regions as values for JSON, which `restore` takes. */
  get kept() {
    return { number: this.#number, list: this.#list };
  }

  restore({ number, list }) {
    this.#number = number;
    this.#list = list;
    this.#changed();
  }

  select(region) {
    this.#selected = region;
    this.dispatchEvent(new Event("select"));
  }

  // === Places ===

  /** Return the place of a region on the image `slot` of a `size`, in its integer pixels. */
  at(region, slot, size) {
    const place = region[slot] ?? region.A;
    const side = (start, length, ratio, whole) => {
      const first = Math.min(Math.round(start * ratio), whole - 1);
      return [first, clamp(Math.round((start + length) * ratio), first + 1, whole) - first];
    };
    const [x, width] = side(place.x, place.width, size.width / place.size.width, size.width);
    const [y, height] = side(place.y, place.height, size.height / place.size.height, size.height);
    return { x, y, width, height };
  }

  /** Return the names of all regions and their places on the image `slot` of a `size`. */
  on(slot, size) {
    return this.#list.map((region) => ({ name: region.name, selector: region.selector, ...this.at(region, slot, size) }));
  }

  /** Move the regions that are elements of a page to where these are on the image `slot` of a `size`. */
  follow(slot, size, elements) {
    for (const region of this.#list) {
      const element = region.selector && elements.find(({ selector }) => selector === region.selector);
      if (element) this.#place(region, slot, size, element.x, element.y, element.width, element.height);
    }
    this.#changed();
  }

  #place(region, slot, size, x, y, width, height) {
    const [across, down] = [clamp(Math.round(width), 1, size.width), clamp(Math.round(height), 1, size.height)];
    region[slot] = {
      x: clamp(Math.round(x), 0, size.width - across),
      y: clamp(Math.round(y), 0, size.height - down),
      width: across,
      height: down,
      size,
    };
  }

  #changed() {
    this.dispatchEvent(new Event("change"));
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

  /** End a gesture, and take back what it has changed. */
  cancel() {
    const count = this.#list.length;
    if (this.#last.what === "gesture") {
      this.undo();
      this.#undone.pop(); // nobody wanted it
    }
    this.#number -= count - this.#list.length;
    this.release();
  }

  /** Undo the last change. */
  undo() {
    this.#step(this.#steps, this.#undone);
  }

  get canRedo() {
    return this.#undone.length > 0;
  }

  /** Do again what was undone last. */
  redo() {
    this.#step(this.#undone, this.#steps);
  }

  /** Go to the last state of a list, and remember the current one in another list. */
  #step(from, to) {
    const step = from.pop();
    if (!step) return;
    to.push(this.#state);
    this.#list = step.map(({ region, ...before }) => Object.assign(region, before));
    this.#last = { what: "", at: 0 };
    this.select(this.#list.includes(this.#selected) ? this.#selected : (this.#list.at(-1) ?? null));
    this.#changed();
  }

  get #state() {
    return this.#list.map((each) => ({ region: each, ...each }));
  }

  /** Remember the regions before a change, unless it goes on with the last one. */
  #remember(kind, region = null) {
    const what = this.#held ? "gesture" : `${kind} ${region?.id ?? ""}`;
    const now = performance.now();
    const goesOn = what === this.#last.what && (this.#held || (region && now - this.#last.at < PAUSE_MS));
    this.#last = { what, at: now };
    if (goesOn) return;
    this.#undone = [];
    this.#steps.push(this.#state);
    if (this.#steps.length > MAX_STEPS) this.#steps.shift();
  }
}
