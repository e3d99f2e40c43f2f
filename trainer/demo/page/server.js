/** Requests to the server that this page came from. */

const MOST_TRIES = 5;

/** Something to tell the user in words; `gone` where the server did not answer at all. */
export class Failure extends Error {
  constructor(message, gone = false) {
    super(message);
    this.gone = gone;
  }
}

/** Model, limits and colours. */
export async function readFacts() {
  return arrived((await send("facts")).json());
}

/** A drawn picture, as a file. */
export async function readPattern(number) {
  const response = await send(`pattern/${number}.png`);
  return new File([await arrived(response.blob())], `pattern_${number}.png`, { type: "image/png" });
}

/** The saliency map of a picture: its `values` row by row, `width`, `height`, and those of the image. */
export async function predict(file, signal) {
  const response = await post("map", file, signal);
  const size = (name) => response.headers.get(name).split("x").map(Number);
  const [width, height] = size("map-size");
  const [imageWidth, imageHeight] = size("image-size");
  const values = new Float32Array(await arrived(response.arrayBuffer()));
  return { values, width, height, imageWidth, imageHeight };
}

/** A picture that the server makes of a picture, such as `map.png`. */
export async function derive(path, file) {
  return arrived((await post(path, file)).blob());
}

async function post(path, file, signal = null) {
  await readable(file);
  const headers = { "Content-Type": "application/octet-stream" };
  for (let tries = 1; ; tries += 1) {
    const response = await send(path, { method: "POST", body: file, headers, signal });
    if (response.ok) return response;
    if (response.status !== 503 || tries === MOST_TRIES) throw new Failure(await reason(response));
    const seconds = Number(response.headers.get("retry-after")) || 1;
    await new Promise((resolve) => setTimeout(resolve, 1000 * seconds));
    signal?.throwIfAborted();
  }
}

function send(path, options = {}) {
  return arrived(fetch(path, options));
}

/** What the server sends, once it is there: the beginning of an answer, or the rest of it, which may be cut off. */
async function arrived(part) {
  try {
    return await part;
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Failure("The server does not answer. Start `python -m trainer demo` again, then try again.", true);
  }
}

/** A folder that was dropped, or a file that has gone, would look as if the server had. */
async function readable(file) {
  try {
    await file.slice(0, 1).arrayBuffer();
  } catch {
    throw new Failure(`${file.name} cannot be read. Is it a file, and still there?`);
  }
}

async function reason(response) {
  try {
    return (await response.json()).error;
  } catch {
    return `The server answered ${response.status} ${response.statusText}.`;
  }
}
