/**
 * Computes what the demo's server computes (studio/demo/app.py), beside the page, so that it stays usable. Requests come
 * from server.js and are answered one after the other.
 */

import * as ort from "./onnxruntime/ort.wasm.bundle.min.mjs";
import { kindOf } from "./kinds.js";
import { mirrored, prepare, restore, shrink } from "./resize.js";
import { screensOf } from "./screens.js";

/** Browsers let threads share memory only for pages that two headers isolate. */
const THREADS = crossOriginIsolated ? Math.min(4, navigator.hardwareConcurrency) : 1;
const NETWORK = "model.onnx";
const cancelled = new Set();
let facts;
/** Name of a file -> its graph, loaded once. */
const sessions = new Map();
let turn = Promise.resolve();

/** What a user can understand; `gone` if another worker may succeed later. */
class Failure extends Error {
  constructor(message, gone = false) {
    super(message);
    this.gone = gone;
  }
}

onmessage = ({ data }) => {
  if (data.facts) {
    facts = data.facts;
    session(NETWORK).catch(() => {}); // told to those who need it
  } else if (data.cancelled) {
    cancelled.add(data.cancelled);
  } else {
    turn = turn.then(() => respond(data));
  }
};

async function respond({ id, ...request }) {
  const say = (text) => postMessage({ id, text });
  const pause = async () => {
    await new Promise((resolve) => setTimeout(resolve)); // lets a cancellation arrive
    if (cancelled.has(id)) throw new Failure("cancelled");
  };
  try {
    await pause();
    const image = await decode(request.file);
    const predicted = request.predicted ?? (await predict(image, request, say, pause));
    const full = restore(predicted.predictions, predicted.screens, image);
    const { drawing } = request;
    const value = drawing ? await draw(drawing, image, full, request) : { map: describe(full, predicted), predicted };
    postMessage({ id, value });
  } catch (error) {
    if (!(error instanceof Failure)) console.error(error);
    postMessage({ id, message: error.message, gone: Boolean(error.gone) });
  }
  cancelled.delete(id);
}

/** Decode a file to pixels as people see them: upright, and over white. */
async function decode(file) {
  let bitmap;
  try {
    bitmap = await createImageBitmap(file, { colorSpaceConversion: "none", premultiplyAlpha: "none" });
  } catch {
    throw new Failure(`the file is damaged, or not ${facts.formats}: save it as PNG`);
  }
  const { width, height } = bitmap;
  if (width * height > facts.max_pixels) {
    throw new Failure(`the file has ${Math.round((width * height) / 1e6)} megapixels. The limit is ${facts.max_pixels / 1e6}. Shrink it.`);
  }
  const context = new OffscreenCanvas(width, height).getContext("2d", { willReadFrequently: true });
  context.fillStyle = "white";
  context.fillRect(0, 0, width, height);
  context.drawImage(bitmap, 0, 0);
  bitmap.close();
  return { values: context.getImageData(0, 0, width, height).data, width, height, channels: 4 };
}

/**
 * Predict each screen of an image alone, as the kind that it is or is asked for. Returns the `kind`, the rows of the
 * `screens`, and the `predictions`, grids of the network's output.
 */
async function predict(image, asked, say, pause) {
  say("Loading the model…");
  const kind = kindOf(image, asked, facts);
  const { image_size: size, file, flips } = facts.kinds[kind];
  const [network, finish] = [await session(NETWORK), await session(file)];
  const screens = screensOf(image, asked.screen, facts);
  const predictions = [];
  for (const [index, rows] of screens.entries()) {
    const input = prepare(image, rows, size);
    const views = flips ? [input, mirrored(input)] : [input];
    const maps = new Float32Array(views.length * input.width * input.height);
    for (const [view, grid] of views.entries()) {
      say(progress(index * views.length + view, screens.length, views.length));
      await pause();
      const { output } = await network.run({ input: tensor(grid) });
      maps.set(output.data, view * output.data.length);
    }
    const { output } = await finish.run({ input: tensor(input), maps: tensor({ ...input, values: maps, channels: 1 }) });
    predictions.push({ ...input, values: output.data, channels: 1 });
  }
  return { kind, screens, predictions };
}

/** Say what is being predicted after `done` runs of the network, `views` for each screen. */
function progress(done, screens, views) {
  const part = screens === 1 ? "" : ` screen ${Math.floor(done / views) + 1} of ${screens}`;
  return `Predicting${part}…${done ? ` ${Math.round((100 * done) / (screens * views))}%` : ""}`;
}

/** A grid, or several of one size in a row, as the runtime takes them. */
function tensor({ values, width, height, channels }) {
  return new ort.Tensor("float32", values, [values.length / (width * height * channels), height, width, channels]);
}

/** A graph, loaded once. */
function session(name) {
  if (!sessions.has(name)) sessions.set(name, load(name));
  return sessions.get(name);
}

async function load(name) {
  let model;
  try {
    const response = await fetch(name);
    if (!response.ok) throw new Error(`status ${response.status}`);
    model = await response.arrayBuffer();
  } catch ({ message }) {
    throw new Failure(`The model could not be loaded (${message}). Check your connection, then try again.`, true);
  }
  ort.env.wasm.numThreads = THREADS;
  try {
    return await ort.InferenceSession.create(model, { executionProviders: ["wasm"] });
  } catch ({ message }) {
    const advice = "Use a current version of Chrome, Edge, Firefox or Safari: the model needs WebAssembly with SIMD.";
    throw new Failure(`This browser cannot run the model (${message}). ${advice}`, true);
  }
}

/** The map for the page. */
function describe(full, { kind, screens }) {
  const { values, width, height } = shrink(full, screens.length, facts.max_map_px);
  const size = { width, height, imageWidth: full.width, imageHeight: full.height };
  return { values, ...size, windows: screens, kind, seenAs: facts.kinds[kind].seen_as };
}

// === PNGs ===

/** Draw the map in grey (`map.png`), or over its image (`overlay.png`) as trainer/prediction/heat.py does. */
async function draw(drawing, { values: pixels, width, height }, { values: map }, look) {
  const image = new ImageData(width, height); // its values are rounded
  const levels = facts.heat.map(drawing === "map.png" ? (_, level) => [0, 0, level, level, level] : overlay(look));
  for (let at = 0; at < pixels.length; at += 4) {
    const [grey, own, ...color] = levels[Math.round(255 * map[at / 4])];
    const sum = grey * (pixels[at] + pixels[at + 1] + pixels[at + 2]);
    for (let channel = 0; channel < 3; channel += 1) {
      image.data[at + channel] = sum + own * pixels[at + channel] + color[channel];
    }
    image.data[at + 3] = 255;
  }
  const canvas = new OffscreenCanvas(width, height);
  canvas.getContext("2d", { willReadFrequently: true }).putImageData(image, 0, 0);
  return canvas.convertToBlob();
}

/**
 * The function of a colour and its level: how much of each pixel's sum and of its own colour stays, and what is added to
 * red, green and blue. The view focus is over a grey, darkened image.
 */
function overlay({ opacity, view }) {
  const isHeat = view === "heat";
  const dimming = isHeat ? 0 : Math.min(1, opacity / facts.opacity);
  return (color, level) => {
    const alpha = opacity * (isHeat ? level / 255 : Math.sqrt(level / 255));
    const rgb = [1, 3, 5].map((from) => alpha * parseInt(color.slice(from, from + 2), 16));
    return [((1 - alpha) * dimming * facts.dimmed) / 3, (1 - alpha) * (1 - dimming), ...rgb];
  };
}
