/**
 * Answers in this browser what the demo's server answers: a site without a server has this module in place of
 * studio/demo/page/server.js, and worker.js computes.
 */

/** An error with a message for the user; `gone` if the same may succeed later. */
export class Failure extends Error {
  constructor(message, gone = false) {
    super(message);
    this.gone = gone;
  }
}

/** File -> what was predicted of it, by what was asked for: a download needs no second prediction. */
const known = new WeakMap();
const waiting = new Map();
/** The page's policy accepts addresses of scripts from such an object alone. */
const policy = globalThis.trustedTypes?.createPolicy("worker", { createScriptURL: (address) => address });
let facts;
let worker = null;
let count = 0;

/** Fetch the model's name, the limits, the words and the colours, and begin to load the model. */
export async function readFacts() {
  facts = await (await load("facts.json")).json();
  worker = start();
  return facts;
}

/** The file that the page shows at its start: as an extension, the picture of the tab for which it was opened. */
export async function given() {
  const found = await globalThis.chrome?.runtime?.sendMessage?.("given").catch(() => null);
  if (!found) return null;
  const { host, pathname } = new URL(found.address);
  const name = `${host}${pathname}`.replace(/^\/|\/$/g, "").replaceAll("/", "-");
  const bytes = Uint8Array.from(atob(found.picture.split(",")[1]), (letter) => letter.charCodeAt(0));
  return new File([bytes], `${name}.png`, { type: "image/png" });
}

/** Fetch an image of this site as a file with the last part of its path as its name. */
export async function readExample(path) {
  const content = await (await load(path)).blob();
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
  const { map, predicted } = await ask({ file, asked }, signal, tell);
  if (!known.has(file)) known.set(file, new Map());
  known.get(file).set(queryOf(asked), predicted);
  return { ...map, asked };
}

/** What is asked for as the query of an address. */
export function queryOf({ screen, kind, page }) {
  return `screen=${screen}&kind=${kind}&page=${page}`;
}

/** A site opens no web addresses: browsers show no page the picture of another one. */
export async function open() {
  throw new Failure("this site opens no addresses. Choose an image");
}

/** Draw from an image what a path such as `map.png?screen=&kind=page&page=` says. */
export async function derive(path, file) {
  const { pathname, searchParams } = new URL(path, location.href);
  const { opacity, screen, kind, page } = Object.fromEntries(searchParams);
  const asked = { screen, kind, page: page && Number(page) };
  const predicted = known.get(file)?.get(queryOf(asked));
  return ask({ drawing: pathname.split("/").at(-1), file, asked, opacity: Number(opacity), predicted });
}

function start() {
  const address = new URL("worker.js", import.meta.url).href;
  const started = new Worker(policy?.createScriptURL(address) ?? address, { type: "module" });
  started.addEventListener("message", ({ data }) => receive(data));
  started.addEventListener("error", () => stop("The model could not be started. Try again, or use a current version of this browser."));
  started.postMessage({ facts });
  return started;
}

/** Send a request to the worker; returns its answer. */
function ask(request, signal, tell) {
  worker ??= start();
  count += 1;
  const id = count;
  return new Promise((resolve, reject) => {
    waiting.set(id, { resolve, reject, tell });
    signal?.addEventListener("abort", () => {
      if (!waiting.delete(id)) return;
      worker.postMessage({ cancelled: id });
      reject(signal.reason);
    });
    worker.postMessage({ id, ...request });
  });
}

/** Take a text about the wait, an answer, or a failure. */
function receive({ id, text, value, message, gone }) {
  if (gone) stop(message);
  if (!waiting.has(id)) return; // cancelled
  const { resolve, reject, tell } = waiting.get(id);
  if (text) {
    tell?.(text);
    return;
  }
  waiting.delete(id);
  if (message) reject(new Failure(message));
  else resolve(value);
}

/** End a worker that has no model; the next request starts another one. */
function stop(message) {
  worker?.terminate();
  worker = null;
  for (const { reject } of waiting.values()) reject(new Failure(message, true));
  waiting.clear();
}

async function load(path) {
  try {
    const response = await fetch(path);
    if (response.ok) return response;
  } catch {
    // told below
  }
  throw new Failure("This page could not be loaded completely. Check your connection, then try again.", true);
}
