/** Reads regions from a file as trainer/prediction/regions.py does for `check --regions`. */

import { Failure } from "./server.js";

const MOST_BYTES = 2 ** 23;
const REMEDY = "Choose a JSON file of regions that this page has saved, or that predict has written";

/** Whether a file is one of regions by its name, not an image. */
export const isRegionFile = ({ name, type }) => type === "application/json" || name.toLowerCase().endsWith(".json");

/**
 * Read the regions of the first picture in a file that has some, {name, selector, x, y, width, height} in integer pixels of
 * an image of a `size` {width, height}. Throws `Failure` with what is wrong.
 */
export async function readRegions(file, size) {
  const refuse = (reason, advice = REMEDY) => {
    throw new Failure(`${file.name}: ${reason}. ${advice}.`);
  };
  if (file.size > MOST_BYTES) refuse("the file is too large for regions");
  let content;
  try {
    content = JSON.parse(await file.text());
  } catch {
    refuse("the file is damaged, or not JSON");
  }
  const found = Array.isArray(content) ? marked(content) : predicted(content);
  if (!found.length) refuse("the file has no regions");
  return found.map((region) => {
    const { name, selector } = region;
    const sides = ["x", "y", "width", "height"].map((side) => region[side]);
    if (selector && sides.includes(undefined)) {
      refuse(`region ${name} has a selector and no place`, "A selector is found by check, and not in a picture");
    }
    if (!name || !sides.every(Number.isFinite) || region.width <= 0 || region.height <= 0) {
      refuse(`region ${name || "without a name"} has no name, or is no rectangle with sides above 0`);
    }
    return inside(region, size) ?? refuse(
      `region ${name} is not inside the image, which is ${size.width} pixels wide and ${size.height} high`,
      "Choose the image on which it was marked",
    );
  });
}

/** The entries of the list that this page saves. */
function marked(entries) {
  return entries
    .filter((entry) => entry?.picture === entries[0]?.picture)
    .map((entry) => ({ ...entry, name: typeof entry?.region === "string" ? entry.region.trim() : "" }));
}

/** The regions of the first image that has some, in what `predict` writes: texts NAME:X,Y,WIDTH,HEIGHT. */
function predicted(content) {
  const images = Array.isArray(content?.images) ? content.images : [];
  const regions = images.find((image) => image?.regions?.length)?.regions ?? [];
  return regions.map((entry) => {
    const text = String(entry?.region);
    const parts = text.slice(text.lastIndexOf(":") + 1).split(",").map((part) => part.trim());
    const isPercent = parts.every((part) => part.endsWith("%"));
    const numbers = parts.map((part) => (/\d/.test(part) ? Number(isPercent ? part.slice(0, -1) : part) : NaN));
    const [x, y, width, height] = parts.length === 4 ? numbers : [];
    return { name: text.slice(0, Math.max(0, text.lastIndexOf(":"))).trim(), x, y, width, height, isPercent };
  });
}

/** The place of a region in integer pixels of an image; null if it is not inside. */
function inside({ name, selector, x, y, width, height, isPercent }, size) {
  const side = (start, length, whole) => {
    const [from, extent] = isPercent ? [(start * whole) / 100, (length * whole) / 100] : [start, length];
    if (from < 0 || from + extent > whole + 0.01) return null; // percentages may be off by a hundredth of a pixel
    const first = Math.min(rint(from), whole - 1);
    return [first, Math.min(whole, Math.max(first + 1, rint(from + extent))) - first];
  };
  const [across, down] = [side(x, width, size.width), side(y, height, size.height)];
  return across && down && { name, selector: selector || "", x: across[0], y: down[0], width: across[1], height: down[1] };
}

/** Round to an integer, and halves to an even one, as Python does. */
function rint(value) {
  const rounded = Math.round(value);
  return rounded - value === 0.5 && rounded % 2 ? rounded - 1 : rounded;
}
