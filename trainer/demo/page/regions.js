/** The regions that the user marked: named rectangles in integer pixels of image A. */

const clamp = (value, low, high) => Math.min(Math.max(value, low), high);

/** Dispatches `change` when a region is added, removed, moved, resized or renamed, and `select` on selection. */
export class Regions extends EventTarget {
  #list = [];
  #number = 0;
  #selected = null;
  #size = null;

  get list() {
    return this.#list;
  }

  get selected() {
    return this.#selected;
  }

  /** Set the size of image A; the regions keep their relative positions. */
  resize({ width, height }) {
    const before = this.#size ?? { width, height };
    const [across, down] = [width / before.width, height / before.height];
    this.#size = { width, height };
    for (const region of this.#list) {
      const { x, y } = region;
      this.#place(region, x * across, y * down, region.width * across, region.height * down);
    }
    this.#changed();
  }

  /** Add a region, named by a number, and select it. */
  add(x, y, width, height) {
    this.#number += 1;
    const region = { id: this.#number, name: `Region ${this.#number}` };
    this.#place(region, x, y, width, height);
    this.#list.push(region);
    this.select(region);
    this.#changed();
    return region;
  }

  /** Add a region around a pixel; its sides are a fifth of the image's. */
  addAround({ x, y }) {
    const [width, height] = [this.#size.width / 5, this.#size.height / 5];
    return this.add(x - width / 2, y - height / 2, width, height);
  }

  move(region, x, y) {
    this.#place(region, x, y, region.width, region.height);
    this.#changed();
  }

  /** Set the sides of a region; they are clipped to the image. */
  reshape(region, left, top, right, bottom) {
    const x = clamp(Math.min(left, right), 0, this.#size.width - 1);
    const y = clamp(Math.min(top, bottom), 0, this.#size.height - 1);
    const width = Math.min(Math.max(left, right), this.#size.width) - x;
    const height = Math.min(Math.max(top, bottom), this.#size.height) - y;
    this.#place(region, x, y, width, height);
    this.#changed();
  }

  rename(region, name) {
    region.name = name;
    this.#changed();
  }

  /** Take a region away; its neighbour is selected, and returned where there is one. */
  remove(region) {
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
