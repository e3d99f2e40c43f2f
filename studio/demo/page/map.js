/** Measures the attention of regions as trainer/prediction/regions.py does, and draws maps as trainer/prediction/heat.py does. */

import { percent } from "./dom.js";

/** Positions, in each direction, that are tried for a new region. */
const PLACES = 24;
/** As in regions.py. */
const [PEAK_LEVEL, PEAK_RADIUS] = [0.9, 0.05];

/** A saliency map and its summed-area table. Its screens were predicted one by one; each is measured alone. */
export class Measurable {
  #sums;
  #parts;

  /** `map` is as `predict` of server.js returns it. */
  constructor(map) {
    Object.assign(this, map);
    const { values, width, height } = map;
    const stride = width + 1;
    const sums = new Float64Array(stride * (height + 1));
    for (let y = 0; y < height; y += 1) {
      let row = 0;
      for (let x = 0; x < width; x += 1) {
        row += values[y * width + x];
        sums[(y + 1) * stride + x + 1] = sums[y * stride + x + 1] + row;
      }
    }
    this.#sums = sums;
    this.total = sums.at(-1);
    this.means = new Float64Array(height); // of the screen of each row
    this.#parts = map.windows.map(([top, bottom], index) => {
      const [first, last] = [top, bottom].map((row) => (row * height) / map.imageHeight);
      const total = this.#sum(width, last) - this.#sum(width, first);
      this.means.fill(total / (width * (last - first)), Math.round(first), Math.round(last));
      return { screen: index + 1, top, bottom, total, largest: this.#peak(0, first, width, last).value };
    });
  }

  /** The image pixel {x, y} of the peak; of several screens, that of the first. */
  get peakAt() {
    return this.#peak(0, 0, this.width, (this.#parts[0].bottom * this.height) / this.imageHeight).at;
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
    const rows = ({ top, bottom }) => Math.min(region.y + region.height, bottom) - Math.max(region.y, top);
    const { screen, top: from, bottom: to, total, largest } = this.#parts.reduce((a, b) => (rows(b) > rows(a) ? b : a));
    const across = this.width / this.imageWidth;
    const down = this.height / this.imageHeight;
    const [left, right] = [region.x * across, (region.x + region.width) * across];
    const [y, end] = [Math.max(region.y, from), Math.min(region.y + region.height, to)];
    const [top, bottom] = [y * down, end * down];
    const sum = this.#sum(right, bottom) - this.#sum(left, bottom) - this.#sum(right, top) + this.#sum(left, top);
    const area = (region.width * (end - y)) / (this.imageWidth * (to - from));
    const share = total > 0 ? sum / total : area; // a map that is 0 everywhere counts as evenly spread
    const { value, at } = this.#peak(left, top, right, bottom);
    const measured = { share, area, ratio: share / area, peak: largest > 0 ? value / largest : 0, peakAt: at };
    return { ...measured, screen: this.windows.length > 1 ? screen : null };
  }

  /** The sum left of x and above y. The sum is bilinear within a cell, so a part of a cell counts by its area. */
  #sum(x, y) {
    const [left, top] = [Math.min(Math.floor(x), this.width - 1), Math.min(Math.floor(y), this.height - 1)];
    const [part, below] = [x - left, y - top];
    const at = top * (this.width + 1) + left;
    const next = at + this.width + 1;
    const sums = this.#sums;
    const upper = sums[at] * (1 - part) + sums[at + 1] * part;
    const lower = sums[next] * (1 - part) + sums[next + 1] * part;
    return upper * (1 - below) + lower * below;
  }

  #peak(left, top, right, bottom) {
    const first = [Math.min(Math.round(left), this.width - 1), Math.min(Math.round(top), this.height - 1)];
    const last = [Math.max(Math.round(right), first[0] + 1), Math.max(Math.round(bottom), first[1] + 1)];
    let value = -1;
    let cell = first;
    for (let y = first[1]; y < last[1]; y += 1) {
      for (let x = first[0]; x < last[0]; x += 1) {
        if (this.values[y * this.width + x] > value) {
          value = this.values[y * this.width + x];
          cell = [x, y];
        }
      }
    }
    const centre = this.#centre(cell, value, first, last);
    const pixel = (index, cells, pixels) => Math.floor(((index + 0.5) * pixels) / cells);
    const at = { x: pixel(centre[0], this.width, this.imageWidth), y: pixel(centre[1], this.height, this.imageHeight) };
    return { value, at };
  }

  /** The mean place of the cells that are about as high as the highest, as `peak_of` of regions.py has it. */
  #centre(highest, value, first, last) {
    const radius = Math.max(1, Math.round(PEAK_RADIUS * Math.max(last[0] - first[0], last[1] - first[1])));
    const start = highest.map((index, axis) => Math.max(first[axis], index - radius));
    const end = highest.map((index, axis) => Math.min(last[axis], index + radius + 1));
    let total = 0;
    const sum = [0, 0];
    for (let y = start[1]; y < end[1]; y += 1) {
      for (let x = start[0]; x < end[0]; x += 1) {
        const weight = Math.max(0, this.values[y * this.width + x] - PEAK_LEVEL * value);
        total += weight;
        sum[0] += weight * x;
        sum[1] += weight * y;
      }
    }
    if (total === 0) return highest;
    const [x, y] = sum.map((each) => each / total);
    const there = this.values[Math.floor(y + 0.5) * this.width + Math.floor(x + 0.5)];
    return there >= PEAK_LEVEL * value ? [x, y] : highest;
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
  #change;
  #limit;
  #opacity;

  /**
   * `heat` and `change` are lists of 256 colours #rrggbb; a difference of `change_limit` times the mean, or more, gets
   * the last colour and the `opacity`.
   */
  constructor({ heat, change, change_limit, opacity }) {
    this.#heat = heat.map(rgb);
    this.#change = change.map(rgb);
    this.#limit = change_limit;
    this.#opacity = opacity;
  }

  /** The colour maps as CSS gradients. */
  get gradients() {
    const gradient = (colors) => {
      const stops = colors.filter((_, index) => index % 15 === 0);
      return `linear-gradient(90deg, ${stops.map((stop) => `rgb(${stop})`).join(", ")})`;
    };
    return { heat: gradient(this.#heat), change: gradient(this.#change) };
  }

  /** Draw heat colours over the image in its own colours; the opacity grows in proportion to the values. */
  heat(canvas, map) {
    this.#heatmap(canvas, map, (level) => level);
  }

  /** Draw heat colours over the dimmed image; the square root makes small values visible. */
  focus(canvas, map) {
    const alpha = Array.from({ length: 256 }, (_, level) => 255 * Math.sqrt(level / 255));
    this.#heatmap(canvas, map, (level) => alpha[level]);
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
