/** The strip of many images: each with its thumbnail, its name, and whether its map waits, is ready or has failed. */

import { announce, complain, counted, explain, make } from "./dom.js";
import { isSame } from "./maps.js";
import { Failure } from "./server.js";

/** Their maps need 300 MB. */
const MOST = 100;
const THUMBNAIL_PX = 96;

/**
 * Dispatches `first` when the first map arrives, `choose` when somebody wants to see an image, both with its file as their
 * `detail`, and `change` when anything changes. An image of `entries` is {file, state, text, map}: its state is waiting,
 * predicting, ready or failed, and only what is ready has a map.
 */
export class Strip extends EventTarget {
  entries = [];
  #element;
  #maps;
  #asked = null;
  #isPaused = false;
  #isRunning = false;

  constructor(element, maps) {
    super();
    this.#element = element;
    this.#maps = maps;
    this.#find(".pause").addEventListener("click", () => this.#pause(!this.#isPaused));
    this.#find(".close").addEventListener("click", () => this.#clear());
    window.addEventListener("beforeunload", (event) => {
      if (this.#count("ready")) event.preventDefault(); // to predict them again takes minutes
    });
  }

  #find(selector) {
    return this.#element.querySelector(selector);
  }

  #count(state) {
    return this.entries.filter((entry) => entry.state === state).length;
  }

  /** Show images, and predict them one after the other. */
  add(files) {
    const added = files.slice(0, MOST - this.entries.length).map((file) => this.#entry(file));
    this.entries.push(...added);
    this.#find("ol").append(...added.map(({ item }) => item));
    const more = files.length - added.length;
    if (more) complain(`${counted(more, "image")} of ${files.length} are left out: close the list after these ${MOST}, and choose the others.`);
    drawAll(added);
    this.#update();
    this.#run();
  }

  /** Predict images as they are `asked` for from now on. */
  ask(asked) {
    if (this.#asked && isSame(this.#asked, asked)) return;
    this.#asked = asked;
    for (const entry of this.entries) {
      entry.request?.abort();
      if (entry.state === "ready") this.#set(entry, "waiting");
    }
    this.#run();
  }

  /** Show which files are images A and B, slot -> file, and a text for each image that is ready, by its number. */
  mark(shown, textOf) {
    for (const [index, { file, state, item, text }] of this.entries.entries()) {
      const slots = Object.keys(shown).filter((slot) => shown[slot] === file);
      item.querySelector("b").textContent = slots.join(" ");
      item.querySelector("button").setAttribute("aria-current", String(slots.length > 0));
      item.querySelector(".state").textContent = state === "ready" ? textOf(index) : text;
    }
  }

  #entry(file) {
    const parts = ["name", "state"].map((name) => make("span", { class: name }));
    const button = make("button", { type: "button" }, make("canvas", { width: 1, height: 1 }), make("b"), ...parts);
    button.addEventListener("click", () => this.dispatchEvent(new CustomEvent("choose", { detail: file })));
    parts[0].textContent = button.title = file.name;
    return { file, state: "waiting", text: "waiting", map: null, request: null, item: make("li", {}, button) };
  }

  async #run() {
    if (this.#isRunning) return;
    this.#isRunning = true;
    await new Promise((resolve) => setTimeout(resolve)); // the image that somebody looks at comes first
    for (let entry = this.#next; entry; entry = this.#next) await this.#predict(entry);
    this.#isRunning = false;
    if (this.entries.length && !this.#count("waiting")) announce(this.#progress);
  }

  get #next() {
    return this.#isPaused ? undefined : this.entries.find(({ state }) => state === "waiting");
  }

  async #predict(entry) {
    const request = new AbortController();
    entry.request = request;
    this.#set(entry, "predicting", "Predicting…");
    try {
      const tell = (text) => this.#set(entry, "predicting", text);
      const map = await this.#maps.predict(entry.file, this.#asked, request.signal, tell);
      request.signal.throwIfAborted();
      this.#set(entry, "ready", "", map);
      if (this.#count("ready") === 1) this.dispatchEvent(new CustomEvent("first", { detail: entry.file }));
    } catch (error) {
      this.#set(entry, "waiting");
      if (request.signal.aborted) return;
      if (!(error instanceof Failure)) throw error;
      if (error.gone) {
        this.#pause(true);
        complain(error.message, () => this.#pause(false));
      } else {
        this.#set(entry, "failed", explain(error, entry.file));
      }
    }
  }

  #set(entry, state, text = state, map = null) {
    Object.assign(entry, { state, text, map });
    entry.item.className = state;
    this.#update();
  }

  #pause(on) {
    this.#isPaused = on;
    if (on) for (const { request } of this.entries) request?.abort();
    this.#update();
    this.#run();
  }

  #clear() {
    for (const { request } of this.entries) request?.abort();
    this.entries = [];
    this.#isPaused = false;
    this.#find("ol").replaceChildren();
    this.#update();
    document.querySelector("h1").focus(); // so that Tab continues from the start
  }

  get #progress() {
    const failed = this.#count("failed");
    return `${this.#count("ready")} of ${counted(this.entries.length, "image")} predicted${failed ? `, ${failed} failed` : ""}`;
  }

  #update() {
    this.#element.hidden = !this.entries.length;
    this.#find(".progress").textContent = this.#progress;
    const isDone = !this.#count("waiting") && !this.#count("predicting");
    this.#find(".pause").hidden = isDone;
    this.#find(".pause").textContent = this.#isPaused ? "Go on" : "Pause";
    this.dispatchEvent(new Event("change"));
  }
}

/** Draw the thumbnails of images, one after the other: a decoded photograph needs much memory. */
async function drawAll(entries) {
  for (const { file, item } of entries) {
    try {
      const bitmap = await createImageBitmap(file, { resizeHeight: THUMBNAIL_PX, resizeQuality: "medium" });
      const canvas = item.querySelector("canvas");
      [canvas.width, canvas.height] = [bitmap.width, bitmap.height];
      canvas.getContext("2d").drawImage(bitmap, 0, 0);
      bitmap.close();
    } catch {
      // This browser cannot show it. Whether it can be predicted, its map says.
    }
  }
}
