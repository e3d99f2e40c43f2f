/** Regions of earlier visits, in this browser's storage: of each image its SHA-256, and nothing else of it. */

const PREFIX = "regions of ";
const MAX_IMAGES = 50;

/** The regions {name, x, y, width, height} that were kept for an image; null if there are none. */
export function recall(digest) {
  return parse(attempt(() => localStorage.getItem(PREFIX + digest)))?.regions ?? null;
}

/** Keep the regions of an image, in its pixels; without regions, nothing is kept. */
export function keep(digest, regions) {
  attempt(() => {
    if (!regions.length) return localStorage.removeItem(PREFIX + digest);
    const places = regions.map(({ name, x, y, width, height }) => ({ name, x, y, width, height }));
    localStorage.setItem(PREFIX + digest, JSON.stringify({ at: Date.now(), regions: places }));
    const age = (key) => parse(localStorage.getItem(key))?.at ?? 0;
    const oldestFirst = keys().sort((a, b) => age(a) - age(b));
    for (const key of oldestFirst.slice(0, -MAX_IMAGES)) localStorage.removeItem(key);
  });
}

/** Remove what was kept for all images. */
export function forget() {
  attempt(() => keys().forEach((key) => localStorage.removeItem(key)));
}

function keys() {
  return Object.keys(localStorage).filter((key) => key.startsWith(PREFIX));
}

/** Browsers may forbid storage, and it may be full: then nothing is kept. */
function attempt(does) {
  try {
    return does();
  } catch {
    return null;
  }
}

/** What `keep` wrote; null for anything else, since other programs of this address share its storage. */
function parse(text) {
  const value = attempt(() => JSON.parse(text));
  const sound = ({ name, x, y, width, height }) =>
    typeof name === "string" && [x, y].every((side) => side >= 0) && [width, height].every((side) => side > 0);
  const isOurs = attempt(() => value.regions.length > 0 && value.regions.every(sound) && Number.isFinite(value.at));
  return isOurs ? value : null;
}
