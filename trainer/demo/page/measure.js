/** Measures the attention of regions as trainer/prediction/regions.py does, fast enough for every move of the mouse. */

/** Positions, in each direction, that are tried for a new region. */
const PLACES = 24;

/** A saliency map and its summed-area table. */
export class Measurable {
  #sums;

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
    this.largest = values.reduce((max, value) => Math.max(max, value), 0);
  }

  /** The image pixel {x, y} of the largest value. */
  get peakAt() {
    return this.#peak(0, 0, this.width, this.height).at;
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
   */
  measure(region) {
    const across = this.width / this.imageWidth;
    const down = this.height / this.imageHeight;
    const [left, right] = [region.x * across, (region.x + region.width) * across];
    const [top, bottom] = [region.y * down, (region.y + region.height) * down];
    const sum = this.#sum(right, bottom) - this.#sum(left, bottom) - this.#sum(right, top) + this.#sum(left, top);
    const area = (region.width * region.height) / (this.imageWidth * this.imageHeight);
    const share = this.total > 0 ? sum / this.total : area; // a map that is 0 everywhere counts as evenly spread
    const { value, at } = this.#peak(left, top, right, bottom);
    return { share, area, ratio: share / area, peak: this.largest > 0 ? value / this.largest : 0, peakAt: at };
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
    const pixel = (index, cells, pixels) => Math.floor(((index + 0.5) * pixels) / cells);
    const at = { x: pixel(cell[0], this.width, this.imageWidth), y: pixel(cell[1], this.height, this.imageHeight) };
    return { value, at };
  }
}

/** Pixels of a place that regions cover. */
function overlap({ x, y }, width, height, regions) {
  const side = (start, length, first, extent) => Math.max(0, Math.min(start + length, first + extent) - Math.max(start, first));
  const pixels = (region) => side(x, width, region.x, region.width) * side(y, height, region.y, region.height);
  return regions.reduce((sum, region) => sum + pixels(region), 0);
}

/** Measure several regions; each also gets its `rank` by share, 1 for the largest. */
export function measureAll(map, regions) {
  const measures = regions.map((region) => map.measure(region));
  const rank = (share) => 1 + measures.filter((other) => other.share > share).length;
  return measures.map((measure) => ({ ...measure, rank: rank(measure.share) }));
}
