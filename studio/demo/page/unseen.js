/**
 * What the model does not see: the floor of each region, which is the share that its place keeps with its content painted
 * over, and the screens on which a map is nearly that of an empty page. Each costs a prediction: they are made one after
 * the other while the page rests, by the module that predicts images.
 */

import { Measurable, moved } from "./map.js";
import { predict } from "./server.js";

const REST_MS = 700;
/** A larger picture is shrunk before it is sent to be predicted. */
const MOST_PIXELS = 4e6;
/** Width of the ring around a region: this part of its shorter side, and at least so many pixels, as in floors.py. */
const [RING_PARTS, RING_PX] = [10, 3];

/** Dispatches `change` when something becomes known, and `rest` when nothing is left to predict. */
export class Unseen extends EventTarget {
  #clear;
  /** Map -> key -> value; null if it cannot be known. */
  #known = new WeakMap();
  #wanted = [];
  #timer = 0;
  #request = null;

  /** `clear` has the limits of a clear change. */
  constructor(clear) {
    super();
    this.#clear = clear;
  }

  /** The floors of regions on a map, in their order: undefined if one is not known yet, null if it cannot be. */
  floors(map, regions) {
    return regions.map((region) => this.#known.get(map)?.get(keyOf(region)));
  }

  /** The screens, 1 for the top, on which a map is known to be nearly that of an empty page. */
  emptyScreens(map) {
    const known = this.#known.get(map);
    return map.windows.map((_, index) => index + 1).filter((screen) => known?.get(`empty ${screen}`));
  }

  /** Whether anything is still to be predicted. */
  get isBusy() {
    return this.#missing.length > 0;
  }

  /** Predict what is unknown about images {file, map, regions}, and nothing else, as soon as the page rests. */
  want(images) {
    this.#wanted = images.flatMap(({ file, map, regions }) => [
      ...map.windows.map((_, index) => ({ file, map, key: `empty ${index + 1}`, screen: index + 1 })),
      ...regions.map((region) => ({ file, map, key: keyOf(region), region })),
    ]);
    const current = this.#request?.job;
    if (current && !this.#wanted.some(({ map, key }) => map === current.map && key === current.key)) this.#request.abort.abort();
    this.#wait();
  }

  #wait() {
    clearTimeout(this.#timer);
    if (this.#missing.length) this.#timer = setTimeout(() => this.#run(), REST_MS);
    else this.dispatchEvent(new Event("rest"));
  }

  get #missing() {
    return this.#wanted.filter(({ map, key }) => this.#known.get(map)?.get(key) === undefined);
  }

  async #run() {
    if (this.#request) return;
    for (let [job] = this.#missing; job; [job] = this.#missing) {
      const abort = new AbortController();
      this.#request = { job, abort };
      let value = null;
      try {
        value = await (job.region ? this.#floor(job, abort.signal) : this.#isEmpty(job, abort.signal));
      } catch (error) {
        if (!abort.signal.aborted) console.info(error.message); // such as a picture that this browser does not open
      }
      this.#request = null;
      if (abort.signal.aborted) {
        this.#wait();
        return;
      }
      if (!this.#known.has(job.map)) this.#known.set(job.map, new Map());
      this.#known.get(job.map).set(job.key, value);
      this.dispatchEvent(new Event("change"));
    }
    this.dispatchEvent(new Event("rest"));
  }

  /** The share of a region's place, on its screen, with the region painted over. */
  async #floor({ file, map, region }, signal) {
    const { screen } = map.measure(region);
    const [top, bottom] = map.windows[(screen ?? 1) - 1];
    const picture = await Picture.open(file, top, bottom);
    const y = Math.max(region.y, top);
    const box = { x: region.x, y: y - top, width: region.width, height: Math.min(region.y + region.height, bottom) - y };
    picture.paintOver(box);
    const without = new Measurable(await picture.predict(map.page, signal));
    return without.measure(picture.scaled(box)).share;
  }

  /** Whether the map of a screen is nearly that of a picture of one colour, its median. */
  async #isEmpty({ file, map, screen }, signal) {
    const picture = await Picture.open(file, ...map.windows[screen - 1]);
    picture.fill();
    const blank = new Measurable(await picture.predict(map.page, signal));
    return moved(map.alone(screen - 1), blank) <= this.#clear.moved;
  }
}

/** The rows of an image on a canvas, over white and without a colour profile, as Python decodes images. */
class Picture {
  #name;
  #scale;
  #context;

  static async open(file, top, bottom) {
    const bitmap = await createImageBitmap(file, { colorSpaceConversion: "none", premultiplyAlpha: "none" });
    const { width } = bitmap;
    const picture = new Picture();
    picture.#name = file.name;
    picture.#scale = Math.min(1, Math.sqrt(MOST_PIXELS / (width * (bottom - top))));
    const [across, down] = [width, bottom - top].map((side) => Math.max(1, Math.round(side * picture.#scale)));
    picture.#context = new OffscreenCanvas(across, down).getContext("2d", { willReadFrequently: true });
    picture.#context.fillStyle = "white";
    picture.#context.fillRect(0, 0, across, down);
    picture.#context.drawImage(bitmap, 0, top, width, bottom - top, 0, 0, across, down);
    bitmap.close();
    return picture;
  }

  /** The same box {x, y, width, height} on the canvas. */
  scaled(box) {
    return Object.fromEntries(Object.entries(box).map(([side, value]) => [side, value * this.#scale]));
  }

  /** Paint a box over with the median of the ring around it; a box without a ring, with its own. */
  paintOver(box) {
    const { canvas } = this.#context;
    const scaled = this.scaled(box);
    const [left, top] = [scaled.x, scaled.y].map(Math.round);
    const [right, bottom] = [Math.round(scaled.x + scaled.width), Math.round(scaled.y + scaled.height)];
    const ring = Math.max(RING_PX, Math.floor(Math.min(right - left, bottom - top) / RING_PARTS));
    const [from, above] = [Math.max(0, left - ring), Math.max(0, top - ring)];
    const [to, below] = [Math.min(canvas.width, right + ring), Math.min(canvas.height, bottom + ring)];
    const isWhole = from === left && above === top && to === right && below === bottom;
    const isInside = (x, y) => !isWhole && x >= left && x < right && y >= top && y < bottom;
    this.#context.fillStyle = this.#median(from, above, to, below, isInside);
    this.#context.fillRect(left, top, right - left, bottom - top);
  }

  /** Paint all over with the median. */
  fill() {
    const { width, height } = this.#context.canvas;
    this.#context.fillStyle = this.#median(0, 0, width, height, () => false);
    this.#context.fillRect(0, 0, width, height);
  }

  /** Predict what the canvas shows at once, seen as a page as much as another map, a weight of 0..1. */
  async predict(page, signal) {
    const file = new File([await this.#context.canvas.convertToBlob()], this.#name);
    signal.throwIfAborted();
    return predict(file, { screen: "whole", page }, signal);
  }

  /** The median colour of the pixels that are not left out, of two the lower one, as floors.py has it. */
  #median(left, top, right, bottom, isLeftOut) {
    const { data } = this.#context.getImageData(left, top, right - left, bottom - top);
    const counts = [0, 1, 2].map(() => new Uint32Array(256));
    let count = 0;
    for (let at = 0, y = top; y < bottom; y += 1) {
      for (let x = left; x < right; x += 1, at += 4) {
        if (isLeftOut(x, y)) continue;
        count += 1;
        for (let channel = 0; channel < 3; channel += 1) counts[channel][data[at + channel]] += 1;
      }
    }
    const middle = Math.floor((count - 1) / 2);
    const levels = counts.map((each) => {
      let level = 0;
      for (let passed = each[0]; passed <= middle; passed += each[level]) level += 1;
      return level;
    });
    return `rgb(${levels.join(" ")})`;
  }
}

/** The key of a region's place. */
function keyOf({ x, y, width, height }) {
  return [x, y, width, height].join(" ");
}
