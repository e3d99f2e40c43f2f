/** One image, A or B: how the user chooses it, and the map over it. */

import { Boxes } from "./boxes.js";
import { announce, complain, explain, forgive, make, percent, save } from "./dom.js";
import { Measurable, measureAll } from "./map.js";
import { isSame } from "./maps.js";
import { Failure, derive, open, queryOf, readExample } from "./server.js";

/** Ratio of height and width from which on an image may be seen at full width. */
const TALL = 1.5;
const PAGE = /\.x?html?$/i;
const ALONE = "a browser hands over the file alone, without its pictures and styles. Type its path in the address field";

/**
 * Dispatches `open` when it shows another image, or none, `map` when a map arrives, `rest` when it waits for nothing any
 * more, and `files`, with the files as its `detail`, when somebody chooses some. It shows `file` and `map`, which are null
 * while it is empty.
 */
export class Panel extends EventTarget {
  file = null;
  map = null;
  /** Whether the map is the first one of its file. */
  isNew = false;
  #slot;
  #facts;
  #maps;
  #painter;
  #regions;
  #url = "";
  #unseen;
  #look = { view: "heat", opacity: 1, asked: { screen: "", kind: "", page: "" } };
  #request = null;

  constructor(slot, { facts, maps, painter, regions, unseen }) {
    super();
    this.#slot = slot;
    this.#facts = facts;
    this.#maps = maps;
    this.#painter = painter;
    this.#regions = regions;
    this.#unseen = unseen;
    this.element = document.querySelector("#panel").content.firstElementChild.cloneNode(true);
    this.element.setAttribute("aria-label", `Image ${slot}`);
    for (const heading of this.element.querySelectorAll("h2 span")) heading.hidden = heading.dataset.slot !== slot;
    this.#find(".slot").textContent = slot;
    this.#find(".limits").textContent = `${facts.formats}, up to ${facts.max_bytes / 1e6} MB`;
    this.boxes = new Boxes(this.#find(".boxes"), slot, {
      regions,
      size: () => this.size ?? regions.size,
      measures: () => this.measures(),
      colors: facts.region_colors,
    });
    this.#listen();
  }

  #find(selector) {
    return this.element.querySelector(selector);
  }

  #listen() {
    const input = this.#find("input");
    const click = (selector, does) => this.#find(selector).addEventListener("click", does);
    click(".choose", () => input.click());
    click(".replace", () => input.click());
    click(".cancel", () => this.#cancel());
    input.addEventListener("change", () => {
      this.dispatchEvent(new CustomEvent("files", { detail: [...input.files] }));
      input.value = "";
    });
    for (const button of this.element.querySelectorAll("[data-example]")) {
      button.addEventListener("click", () => this.#fetch(() => readExample(button.dataset.example)));
    }
    const form = this.#find(".address");
    form.hidden = !this.#facts.opens_addresses;
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const { address, whole } = form.elements;
      this.#fetch(() => open(address.value, whole.checked));
    });
    this.#find(".of-sample").hidden = !this.#facts.notice;
    const drawn = () => `overlay.png?opacity=${this.#look.opacity.toFixed(2)}&${this.#asked}`;
    click(".save-overlay", () => this.#save("overlay", drawn));
    click(".save-map", () => this.#save("map", () => `map.png?${this.#asked}`));
  }

  /** What its map was asked for, so that a download is of the same map. */
  get #asked() {
    return queryOf(this.map.asked);
  }

  /** Load the file that `source` fetches from the server. */
  async #fetch(source) {
    forgive();
    this.#wait(true);
    try {
      await this.load(await source());
    } catch (error) {
      this.#wait(false);
      complain(error.message, () => this.#fetch(source));
    }
  }

  /** A or B. */
  get slot() {
    return this.#slot;
  }

  /** Whether it shows an image, perhaps still without its map. */
  get isOpen() {
    return !this.#find(".shown").hidden;
  }

  /** Whether it waits for another image or map. */
  get isBusy() {
    return this.element.classList.contains("is-busy");
  }

  /** Whether its image is so high that it may be seen at full width. */
  get isTall() {
    return Boolean(this.map) && this.map.imageHeight > TALL * this.map.imageWidth;
  }

  /** Whether its image is a long page, or higher than one screen of a phone, and so is best seen at full width. */
  get isWholePage() {
    const { windows, imageHeight, imageWidth } = this.map;
    return (this.isTall && windows.length > 1) || imageHeight > this.#facts.screens.phone * imageWidth;
  }

  /** The size {width, height} of its image; null without a map. */
  get size() {
    return this.map && { width: this.map.imageWidth, height: this.map.imageHeight };
  }

  /** The regions' names and places on its image, in their order. */
  get regions() {
    return this.#regions.on(this.#slot, this.size);
  }

  /** The image's address for <img>. */
  get url() {
    return this.#url;
  }

  /**
   * The measures of the regions on this image, in their order, each with the `floor` that is known of it; null without a
   * map, or without image A.
   */
  measures() {
    if (!this.map || !this.#regions.size) return null;
    const floors = this.#unseen.floors(this.map, this.regions);
    return measureAll(this.map, this.regions).map((measure, index) => ({ ...measure, floor: floors[index] }));
  }

  /** Say where the map is known to show nothing of the image. */
  warn() {
    const screens = this.map ? this.#unseen.emptyScreens(this.map) : [];
    const where = this.map?.windows.length > 1 ? ` on screen ${screens.join(", ")}` : "";
    this.#find(".hollow").hidden = !screens.length;
    this.#find(".hollow").textContent = `This map is nearly that of an empty page${where}: it says nothing about the content.`;
  }

  /** Show a file and its predicted map; on failure, show a message and keep the image from before. */
  async load(file) {
    forgive();
    this.#request?.abort();
    this.#unseen.want([]); // what somebody waits for comes first
    const request = new AbortController();
    this.#request = request;
    const url = URL.createObjectURL(file);
    this.#wait(true, request);
    try {
      if (this.#facts.opens_addresses && PAGE.test(file.name)) throw new Failure(ALONE);
      const predicted = this.#maps.predict(file, this.#look.asked, request.signal, (text) => this.#tell(text));
      const [map, visible] = await Promise.all([predicted, this.#preview(url, request)]);
      request.signal.throwIfAborted();
      URL.revokeObjectURL(this.#url);
      this.#url = url;
      this.#receive(file, map);
      if (!visible) complain(`This browser cannot show ${file.name}; you only see its map.`);
    } catch (error) {
      if (url !== this.#url) URL.revokeObjectURL(url);
      if (request.signal.aborted) return;
      request.abort(); // so that a late preview is dropped
      this.#restore();
      if (!(error instanceof Failure)) throw error;
      complain(explain(error, file), error.gone && (() => this.load(file)));
    } finally {
      if (this.#request === request) this.#wait(false);
    }
  }

  /** Show the image until its map arrives; returns false if this browser cannot show it. */
  async #preview(url, { signal }) {
    const probe = new Image();
    probe.src = url;
    const visible = await probe.decode().then(() => true, () => false);
    if (signal.aborted) return visible;
    this.#find(".stage img").src = url;
    this.#find(".stage img").classList.toggle("blank", !visible);
    if (visible) {
      this.#frame(probe.naturalWidth, probe.naturalHeight);
      this.#open(true);
    }
    this.#find("canvas").classList.add("stale");
    return visible;
  }

  #receive(file, map) {
    this.isNew = file !== this.file;
    this.file = file;
    this.map = new Measurable(map);
    this.#frame(map.imageWidth, map.imageHeight);
    this.#open(true);
    this.#find(".name").textContent = file.name;
    const [kind] = (map.seenAs ?? "").split(","); // without the network's size, for which there is no room
    this.#find(".size").textContent = [`${map.imageWidth} × ${map.imageHeight}`, kind].filter(Boolean).join(", ");
    this.#find(".size").title = map.seenAs ?? "";
    this.#find(".trust").textContent = this.#facts.hints[map.kind] ?? "";
    this.warn();
    this.#find(".stage img").alt = `Image ${this.#slot}: ${file.name}`;
    const { x, y } = this.map.peakAt;
    const place = `${Math.round((100 * x) / map.imageWidth)}% from the left, ${Math.round((100 * y) / map.imageHeight)}%`;
    this.#find("canvas").setAttribute("aria-label", `Saliency map. Its peak is ${place} from the top`);
    this.#find("canvas").classList.remove("stale");
    announce(`The map of ${file.name} is ready. Its peak is ${place} from the top.`);
    this.#find(".screens").replaceChildren(...marks(map));
    this.show(this.#look);
    if (document.activeElement === document.body) this.#find("figcaption").focus({ preventScroll: true });
    this.dispatchEvent(new Event("map"));
  }

  /** Return to the image from before. */
  #restore() {
    this.#find("canvas").classList.remove("stale");
    if (this.map) {
      this.#find(".stage img").src = this.#url;
      this.#find(".stage img").classList.remove("blank");
      this.#frame(this.map.imageWidth, this.map.imageHeight);
      this.dispatchEvent(new Event("open"));
    } else {
      this.#open(false);
    }
  }

  /**
   * Show the map as `view` (heat, map, image), the first with `opacity` (0..1), at which 0 shows the image as it is.
   * What is `asked` is for later maps; `reload` fetches one.
   */
  show(look) {
    const isPainted = this.#look.view === look.view && look !== this.#look;
    this.#look = look;
    const canvas = this.#find("canvas");
    canvas.style.opacity = look.view === "heat" ? look.opacity : 1;
    canvas.hidden = look.view === "image";
    if (this.map && !isPainted && look.view !== "image") this.#painter[look.view](canvas, this.map);
  }

  /** Fetch the map again, if it is not what is asked for. */
  async reload() {
    if (!this.map) return;
    if (!isSame(this.map.asked, this.#look.asked)) await this.load(this.file);
  }

  #frame(width, height) {
    this.#find(".stage").style.setProperty("--ratio", width / height);
    this.#find(".stage").style.setProperty("--pixels", `${width}px`);
  }

  #open(shown) {
    const hadFocus = this.#find(".empty").contains(document.activeElement);
    this.#find(shown ? ".shown > .downloads" : ".empty .ways").after(this.#find(".address"));
    this.#find(".empty").hidden = shown;
    this.#find(".shown").hidden = !shown;
    this.element.classList.toggle("is-shown", shown);
    this.dispatchEvent(new Event("open"));
    if (hadFocus && shown) this.#find("figcaption").focus({ preventScroll: true });
  }

  /** Show that something is being waited for, which a `request` can cancel. */
  #wait(busy, request = null) {
    this.#find(".cancel").hidden = !request;
    this.element.setAttribute("aria-busy", String(busy));
    this.element.classList.toggle("is-busy", busy);
    this.#find(".busy").hidden = !busy;
    for (const button of this.element.querySelectorAll(".downloads button")) button.disabled = busy;
    if (busy) this.#tell("Predicting…");
    else this.dispatchEvent(new Event("rest"));
  }

  /** Wait no longer, and return to the image from before. */
  #cancel() {
    this.#request.abort();
    this.#restore();
    this.#find(this.isOpen ? "figcaption" : ".choose").focus();
    announce("Cancelled");
  }

  /** Say what is being waited for. */
  #tell(text) {
    this.#find(".busy span").textContent = text;
    announce(text);
  }

  /** The image may change while the server draws the download. */
  async #save(kind, path, file = this.file) {
    const button = this.#find(`.save-${kind}`);
    button.disabled = true;
    try {
      save(await derive(path(), file), file.name, `${kind}.png`);
    } catch (error) {
      complain(explain(error, file), () => this.#save(kind, path, file));
    }
    button.disabled = this.isBusy;
    // A disabled button loses the focus; it gets it back unless the user has moved it.
    if (document.activeElement === document.body) button.focus();
  }
}

/** A line with a number at the top of each screen of a map; nothing for one screen. */
function marks({ windows, imageHeight }) {
  if (windows.length === 1) return [];
  return windows.map((_, index) => {
    const top = index ? windows[index - 1][1] : 0; // what two screens have is shown in the upper one
    const mark = make("i", {}, make("span", {}, `Screen ${index + 1}`));
    mark.style.top = percent(top / imageHeight, 4);
    return mark;
  });
}
