/** Requests to the server of this page. A site without one has another module of this name: studio/site/page/server.js. */

/** An error with a message for the user; `gone` if the server did not respond at all. */
export class Failure extends Error {
  constructor(message, gone = false) {
    super(message);
    this.gone = gone;
  }
}

/** Fetch the model's name, the limits, the words and the colours. */
export async function readFacts() {
  return received((await send("facts")).json());
}

/** The file that the page shows at its start: none. */
export async function given() {
  return null;
}

/** Fetch an image of this server as a file with the last part of its path as its name. */
export async function readExample(path) {
  const content = await received((await send(path)).blob());
  return new File([content], path.split("/").at(-1), { type: content.type });
}

/**
 * Predict the saliency map of an image, as it looks or as it is asked for: by a `screen` of facts.screens, or "whole", by a
 * `kind`, "page" or "picture", or by the `page` of another map, a weight of 0..1. Empty texts ask for nothing.
 *
 * The map has `windows`, the rows [top, bottom] of each screen in pixels of the image, and `values`, the maps of the
 * screens one below the other, row by row, each of the same `width` and `height`. Its `page` is how much the image was seen
 * as a page, its `kind` what it is more than half, and `seenAs` says it in words, or nothing if the model sees all images
 * alike. `asked` is what was asked for. A module that has more to say about the wait calls a fourth argument with it, a text.
 */
export async function predict(file, { screen = "", kind = "", page = "" }, signal) {
  const asked = { screen, kind, page };
  const response = await post(`map?${queryOf(asked)}`, file, signal);
  const size = (name) => response.headers.get(name).split("x").map(Number);
  const [width, height] = size("map-size");
  const [imageWidth, imageHeight] = size("image-size");
  const values = new Float32Array(await received(response.arrayBuffer()));
  const windows = response.headers.get("map-screens").split(",").map((rows) => rows.split("-").map(Number));
  const [seen, weight, seenAs] = ["map-kind", "map-page", "map-seen-as"].map((name) => response.headers.get(name));
  return { values, width, height, imageWidth, imageHeight, windows, kind: seen, page: Number(weight), seenAs, asked };
}

/** What is asked for as the query of an address. */
export function queryOf({ screen, kind, page }) {
  return `screen=${screen}&kind=${kind}&page=${page === "" ? "" : page.toFixed(6)}`;
}

/** Open a web address: the picture of its page, of the `whole` page or of what a window shows, or the picture it is. */
export async function open(address, whole) {
  const body = new Blob([address]);
  const response = await post(`picture?whole=${whole ? 1 : ""}`, body);
  const content = await received(response.blob());
  const file = new File([content], decodeURIComponent(response.headers.get("picture-name")));
  return file;
}

/** Fetch what the server draws from an image, such as `map.png`. */
export async function derive(path, file) {
  return received((await post(path, file)).blob());
}

async function post(path, file, signal = null) {
  await checkReadable(file);
  const headers = { "Content-Type": "application/octet-stream" };
  const response = await send(path, { method: "POST", body: file, headers, signal });
  if (!response.ok) throw new Failure(await reason(response));
  return response;
}

function send(path, options = {}) {
  return received(fetch(path, options));
}

/** Wait for a part of a response, its start or its body; either may be cut off. */
async function received(part) {
  try {
    return await part;
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Failure("The program behind this page does not respond. Start it again, then try again.", true);
  }
}

/** A folder or a deleted file would otherwise look like a server that does not respond. */
async function checkReadable(file) {
  try {
    await file.slice(0, 1).arrayBuffer();
  } catch {
    throw new Failure("the file cannot be read. Is it a folder, or was it deleted?");
  }
}

async function reason(response) {
  try {
    return (await response.json()).error;
  } catch {
    return `the server responded with ${response.status} ${response.statusText}`;
  }
}
