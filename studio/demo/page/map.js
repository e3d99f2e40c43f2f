/** The map of an image: measures regions on its screens, and draws it as trainer/prediction/heat.py does. */

import { percent } from "./dom.js";
import { ScreenMap } from "./screen_map.js";

/** Positions, in each direction, that are tried for a new region. */
const PLACES = 24;

/** The maps of the screens of an image, of which each is measured alone, and the map that is shown of all. */
export class Measurable {
  #screens;

  /** `map` is as `predict` of server.js returns it. */
  constructor(map) {
    Object.assign(this, map);
    const cells = map.width * map.height;
    this.#screens = map.windows.map((rows, index) => {
      const values = map.values.subarray(index * cells, (index + 1) * cells);
      return new ScreenMap(values, map.width, map.height, rows, map.imageWidth);
    });
    this.#join();
  }

  /** Join the maps to the one that is shown: each row is of the first screen that has it. */
  #join() {
    const [{ top, bottom, width, height }] = this.#screens;
    const shown = Math.round((this.imageHeight * height) / (bottom - top));
    const values = new Float32Array(width * shown);
    const means = new Float64Array(shown); // of the screen of each row
    for (let y = 0; y < shown; y += 1) {
      const row = ((y + 0.5) * this.imageHeight) / shown;
      const screen = this.#screens.find((each) => row < each.bottom);
      const part = (row - screen.top) / (screen.bottom - screen.top);
      const line = Math.min(Math.floor(part * height), height - 1) * width;
      values.set(screen.values.subarray(line, line + width), y * width);
      means[y] = screen.mean;
    }
    Object.assign(this, { values, height: shown, means });
  }

  /** The map of one screen alone, 0 for the top. */
  alone(index) {
    const { values, width, height, top, bottom } = this.#screens[index];
    const rows = bottom - top;
    return new Measurable({ ...this, values, width, height, imageHeight: rows, windows: [[0, rows]] });
  }

  /** The image pixel {x, y} of the peak; of several screens, that of the first. */
  get peakAt() {
    return this.#screens[0].peak.at;
  }

  /**
   * Place a region of the given width and height, in pixels of the image: around the peak, or if that overlaps a
   * region, at the free place with the largest share; without a free place, where it overlaps least.
   */
  findPlace(width, height, regions) {
    const limit = (value, most) => Math.round(Math.min(Math.max(value, 0), most));
    const [right, bottom] = [this.imageWidth - width, this.imageHeight - height];
    const peak = this.peakAt;
    const places = [{ x: limit(peak.x - width / 2, right), y: limit(peak.y - height / 2, bottom) }];
    if (overlap(places[0], width, height, regions) === 0) return places[0];
    for (let row = 0; row <= PLACES; row += 1) {
      for (let column = 0; column <= PLACES; column += 1) {
        places.push({ x: limit((right * column) / PLACES, right), y: limit((bottom * row) / PLACES, bottom) });
      }
    }
    const judged = places.map(({ x, y }) => {
      const { share } = this.measure({ x, y, width: Math.round(width), height: Math.round(height) });
      return { x, y, share, covered: overlap({ x, y }, width, height, regions) };
    });
    return judged.sort((a, b) => a.covered - b.covered || b.share - a.share)[0];
  }

  /**
   * Measure a region {x, y, width, height} in pixels of the image: its `share` of the map's sum, its `area` as a share
   * of the image, the `ratio` of both, its `peak` as a share of the map's largest value, and the peak's pixel `peakAt`.
   * Of several screens, all are of the `screen` that has most of the region, and of the region's part on it; the
   * `screen` of a whole image is null.
   */
  measure(region) {
    const screen = this.#screens.reduce((a, b) => (b.rowsOf(region) > a.rowsOf(region) ? b : a));
    return { ...screen.measure(region), screen: this.windows.length > 1 ? this.#screens.indexOf(screen) + 1 : null };
  }
}

/** Pixels of a place that regions cover. */
function overlap({ x, y }, width, height, regions) {
  const side = (start, length, first, extent) => Math.max(0, Math.min(start + length, first + extent) - Math.max(start, first));
  const pixels = (region) => side(x, width, region.x, region.width) * side(y, height, region.y, region.height);
  return regions.reduce((sum, region) => sum + pixels(region), 0);
}

/** The share of the attention, 0..1, that is elsewhere on map `b` than on map `a`. */
export function moved(a, b) {
  const differences = differencesOf(a, b);
  return differences.reduce((sum, difference) => sum + Math.abs(difference), 0) / (2 * differences.length);
}

/** Measure several regions; each also gets its `rank` by share among those of its screen, 1 for the largest. */
export function measureAll(map, regions) {
  const measures = regions.map((region) => map.measure(region));
  const beats = (one, other) => one.screen === other.screen && one.share > other.share;
  return measures.map((measure) => ({ ...measure, rank: 1 + measures.filter((other) => beats(other, measure)).length }));
}

/** Say what a share is a part of, such as "40.0% of screen 1". */
export function shareText({ share, screen }) {
  return screen ? `${percent(share)} of screen ${screen}` : percent(share);
}

// === Drawing ===

/** Draws with the colours of the server. */
export class Painter {
  #heat;
  #strengths;
  #change;
  #limit;
  #opacity;

  /**
   * `heat` and `change` are lists of 256 colours #rrggbb, of which the first show as much as `strengths` say, 0..1. A difference of `change_limit` times the mean, or more, gets
   * the last colour and the `opacity`.
   */
  constructor({ heat, strengths, change, change_limit, opacity }) {
    this.#heat = heat.map(rgb);
    this.#strengths = strengths;
    this.#change = change.map(rgb);
    this.#limit = change_limit;
    this.#opacity = opacity;
  }

  /** The colours of a `heat` over an image, of a `map` alone and of a `change`, from the least to the most. */
  get legends() {
    const css = ([r, g, b], alpha = 1) => `rgb(${r} ${g} ${b} / ${alpha.toFixed(3)})`;
    const heat = this.#heat.map((color, level) => css(color, this.#opacity * this.#strengths[level]));
    return { heat, map: this.#heat.map((color) => css(color)), change: this.#change.map((color) => css(color)) };
  }

  /** Draw heat colours over the image, which the page shows in grey. */
  heat(canvas, map) {
    this.#heatmap(canvas, map, (level) => Math.round(255 * this.#strengths[level]));
  }

  /** Draw opaque heat colours. */
  map(canvas, map) {
    this.#heatmap(canvas, map, () => 255);
  }

  /**
   * Draw where map `b` has a larger and where a smaller share than `a`, on a fixed scale: larger differences are more
   * opaque. The canvas lies over the image of `b`.
   */
  difference(canvas, a, b) {
    draw(canvas, b, (pixels) => {
      differencesOf(a, b).forEach((difference, index) => {
        const part = Math.min(Math.max(difference / this.#limit, -1), 1);
        pixels.set(this.#change[Math.round(127.5 + 127.5 * part)], 4 * index);
        pixels[4 * index + 3] = Math.round(255 * this.#opacity * Math.abs(part));
      });
    });
  }

  #heatmap(canvas, map, alpha) {
    draw(canvas, map, (pixels, { values }) => {
      for (let index = 0; index < values.length; index += 1) {
        const level = Math.round(255 * values[index]);
        pixels.set(this.#heat[level], 4 * index);
        pixels[4 * index + 3] = alpha(level);
      }
    });
  }
}

/** `b` minus `a`, each divided by its mean, or by that of each screen, on the grid of `b`. */
function differencesOf(a, b) {
  const differences = new Float32Array(b.values.length);
  for (let y = 0; y < b.height; y += 1) {
    const row = Math.floor(((y + 0.5) * a.height) / b.height);
    const [meanA, meanB] = [a.means[row], b.means[y]].map((mean) => Math.max(mean, 1e-12));
    for (let x = 0; x < b.width; x += 1) {
      const other = a.values[row * a.width + Math.floor(((x + 0.5) * a.width) / b.width)];
      differences[y * b.width + x] = b.values[y * b.width + x] / meanB - other / meanA;
    }
  }
  return differences;
}

function draw(canvas, map, fill) {
  [canvas.width, canvas.height] = [map.width, map.height];
  const image = new ImageData(map.width, map.height);
  fill(image.data, map);
  canvas.getContext("2d").putImageData(image, 0, 0);
}

function rgb(hex) {
  const number = parseInt(hex.trim().slice(1), 16);
  return [number >> 16, (number >> 8) & 255, number & 255];
}
