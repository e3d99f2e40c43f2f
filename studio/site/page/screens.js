/** The screens of a long page, as trainer/prediction/screens.py has them, with the numbers of facts.json. */

import { rint } from "./resize.js";

/**
 * The rows [top, bottom] of each screen of an image {width, height}: all rows of one that is seen at once. A `screen` is
 * "whole", or of facts.screens.
 */
export function screensOf({ width, height }, screen, { screens, narrowest_px }) {
  const step = screen === "whole" || width < narrowest_px ? height : rint(screens[screen] * width);
  const last = Math.max(0, height - step);
  const tops = [];
  for (let top = 0; top < last; top += step) tops.push(top);
  return [...tops, last].map((top) => [top, Math.min(top + step, height)]);
}

/** The map that is shown of an image {width, height}: each row is of the first of its `screens` that has it. */
export function joined(maps, screens, { width, height }) {
  const values = new Float32Array(width * height);
  let shown = 0;
  for (const [index, [top, bottom]] of screens.entries()) {
    values.set(maps[index].values.subarray((shown - top) * width), shown * width);
    shown = bottom;
  }
  return { values, width, height, channels: 1 };
}
