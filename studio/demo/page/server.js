/** Requests to the server of this page. A site without one has another module of this name: studio/site/page/server.js. */

const NEWLINE = 10;
/** The largest of 16 bits. */
const LEVELS = 65535;

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
 * alike. `asked` is what was asked for. `tell` is called with texts about the wait.
 */
export async function predict(file, { screen = "", kind = "", page = "" }, signal, tell = () => {}) {
  const asked = { screen, kind, page };
  const response = await post(`map?${queryOf(asked)}`, file, signal);
  const { packed, ...map } = await readMap(response.body.getReader(), tell);
  return { ...map, values: await unpack(packed, map.width), asked };
}

/** Read lines of JSON about the wait, then the line of a map, and the `packed` map that follows it. */
async function readMap(reader, tell) {
  let map = null;
  let rest = new Uint8Array();
  for (;;) {
    const { done, value } = await received(reader.read());
    if (done) break;
    rest = new Uint8Array(await new Blob([rest, value]).arrayBuffer());
    for (let end = rest.indexOf(NEWLINE); !map && end >= 0; end = rest.indexOf(NEWLINE)) {
      const { waiting, error, ...facts } = JSON.parse(new TextDecoder().decode(rest.subarray(0, end)));
      if (error) throw new Failure(error);
      if (waiting) tell(waiting);
      else map = facts;
      rest = rest.subarray(end + 1);
    }
  }
  return { ...map, packed: rest };
}

/** Unpack maps of a `width`, as `pack_maps` of studio/demo/app.py packs them: the differences between their neighbours. */
async function unpack(packed, width) {
  const plain = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  const bytes = new Uint8Array(await received(new Response(plain).arrayBuffer()));
  const count = bytes.length / 2;
  const values = new Float32Array(count);
  const steps = new Uint16Array(width); // from column to column of a row
  let level = 0;
  for (let at = 0; at < count; at += 1) {
    const x = at % width;
    const code = bytes[at] | (bytes[count + at] << 8);
    steps[x] += (code >>> 1) ^ -(code & 1);
    level = (x ? level : 0) + steps[x];
    values[at] = (level & LEVELS) / LEVELS;
  }
  return values;
}

/** What is asked for as the query of an address. */
export function queryOf({ screen, kind, page }) {
  return `screen=${screen}&kind=${kind}&page=${page === "" ? "" : page.toFixed(6)}`;
}

/**
 * Open a web address or an HTML file: the picture of its page, of the `whole` page or of what a window shows, or the picture
 * that it is. The file has `elements`, the page's own {kind, name, selector, x, y, width, height} in pixels of the picture.
 */
export async function open(address, whole) {
  const body = new Blob([address]);
  const response = await post(`picture?whole=${whole ? 1 : ""}`, body);
  const content = await received(response.blob());
  const start = Number(response.headers.get("elements-bytes"));
  const file = new File([content.slice(start)], decodeURIComponent(response.headers.get("picture-name")));
  return Object.assign(file, { elements: JSON.parse(await content.slice(0, start).text()) });
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
