/** Tells pages from pictures, as trainer/prediction/kinds.py does with the numbers of facts.json. */

import { screensOf } from "./screens.js";

const [PICTURE, PAGE] = ["picture", "page"];
/** What each channel adds to the brightness, in parts of 65536, as in Pillow. */
const [RED, GREEN, BLUE] = [19595, 38470, 7471];

const { ceil, floor, max, min } = Math;

/**
 * Kind -> its weight in the map of an image, a grid with 3 or more channels of 0..255: of the `kind` that is asked for,
 * else by the `screen` that is asked for, else by the image. A model that does not tell kinds apart sees pictures.
 */
export function weightsOf(image, asked, facts) {
  const page = pageWeight(image, asked, facts);
  return new Map([[PICTURE, 1 - page], [PAGE, page]].filter(([, weight]) => weight > 0));
}

function pageWeight(image, { kind, screen }, facts) {
  if (!(PAGE in facts.kinds)) return 0;
  if (kind) return Number(kind === PAGE);
  if (screen) return Number(screen === "desktop");
  return Number(isPage(image, facts));
}

/** The map of a screen: the maps of its kinds, each with its weight. Of several, the sum gets the largest value 1. */
export function mixed(maps, weights) {
  const [[first, ...others], [weight, ...rest]] = [maps, [...weights.values()]];
  if (!others.length) return first;
  const values = first.values.map((value) => weight * value);
  others.forEach((other, index) => {
    for (let at = 0; at < values.length; at += 1) values[at] += rest[index] * other.values[at];
  });
  return peaked({ ...first, values });
}

/** A map with the largest value 1. */
export function peaked(map) {
  const largest = max(map.values.reduce((a, b) => max(a, b), 0), 1e-12);
  return { ...map, values: map.values.map((value) => value / largest) };
}

/** Whether an image has a desktop screen's shape, or its screens have, and is drawn. */
function isPage(image, facts) {
  const { wide, drawn } = facts.page;
  const screens = screensOf(image, "", facts);
  const [[top, bottom]] = screens;
  const ratio = image.width / (bottom - top);
  if (image.width < facts.desktop_px || ratio < wide[0] || ratio > wide[1]) return false;
  const sum = screens.reduce((total, rows) => total + drawnIn(image, rows, facts.page), 0);
  return sum / screens.length >= drawn;
}

/** How much some rows [top, bottom] of an image are drawn: the smaller value of the rows and of the columns. */
export function drawnIn(image, rows, rule) {
  const { values, width, height } = greyOf(image, rows, ceil(image.width / rule.most_px));
  return min(drawnAlong(values, height, width, width, 1, rule), drawnAlong(values, width, height, 1, width, rule));
}

/** The brightness of some rows of an image, shrunk to blocks of `factor` x `factor` pixels, whole numbers as in Pillow. */
export function greyOf({ values, width: across, channels }, [from, to], factor) {
  const [width, height] = [ceil(across / factor), ceil((to - from) / factor)];
  const grey = new Uint8Array(width * height);
  for (let y = 0; y < height; y += 1) {
    const [top, bottom] = [from + y * factor, min(from + (y + 1) * factor, to)];
    for (let x = 0; x < width; x += 1) {
      const [left, right] = [x * factor, min((x + 1) * factor, across)];
      const count = (bottom - top) * (right - left);
      const parts = floor(2 ** 24 / count);
      let [red, green, blue] = [0, 0, 0];
      for (let row = top; row < bottom; row += 1) {
        for (let at = (row * across + left) * channels; at < (row * across + right) * channels; at += channels) {
          red += values[at];
          green += values[at + 1];
          blue += values[at + 2];
        }
      }
      const mean = (sum) => (count === 1 ? sum : floor(((sum + floor(count / 2)) * parts) / 2 ** 24));
      grey[y * width + x] = (mean(red) * RED + mean(green) * GREEN + mean(blue) * BLUE + 2 ** 15) >> 16;
    }
  }
  return { values: grey, width, height };
}

/**
 * The share of flat places times the share of them that end at an edge, along `lines` lines of `length` values. A line
 * is `line` values from the next, and a value `step` from the next in its line.
 */
function drawnAlong(grey, lines, length, line, step, { run_px: run, edge }) {
  let [flat, ends, edges] = [0, 0, 0];
  for (let index = 0; index < lines; index += 1) {
    const at = (place) => grey[index * line + place * step];
    let equal = 0; // steps in a row between equal values
    for (let place = 1; place < length - 1; place += 1) {
      equal = at(place) === at(place + 1) ? equal + 1 : 0;
      if (equal < run) continue;
      flat += 1;
      if (place + 1 + run >= length || at(place + 1) === at(place + 2)) continue;
      ends += 1;
      let [least, most] = [255, 0];
      for (let behind = place + 1; behind <= place + run; behind += 1) {
        least = min(least, at(behind));
        most = max(most, at(behind));
      }
      if (most - least > edge) edges += 1;
    }
  }
  return ((flat / (lines * (length - 1 - run))) * edges) / max(ends, 1);
}
