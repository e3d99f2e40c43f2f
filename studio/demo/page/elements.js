/** Offers the buttons, headings, images and fields of the page that was opened as regions, one by one or all of a kind. */

import { announce, counted, make, percent } from "./dom.js";

const KINDS = ["button", "heading", "image", "field"];

/** Fills `element` for the page that image A shows. An element that is chosen is a region; one chosen again is none. */
export class Elements {
  #element;
  #regions;
  #list = null;
  #buttons = [];

  /** What somebody points to is shown on the `stage` of image A. */
  constructor(element, stage, regions) {
    this.#element = element;
    this.#regions = regions;
    const mark = make("i", { class: "pointed", hidden: true });
    stage.append(mark);
    for (const kind of ["mouseover", "focusin"]) element.addEventListener(kind, ({ target }) => this.#point(mark, target));
    for (const kind of ["mouseleave", "focusout"]) element.addEventListener(kind, () => (mark.hidden = true));
    regions.addEventListener("change", () => this.#press());
  }

  /** Offer the elements of a page; of a picture, there are none. */
  show(list = null) {
    if (list === this.#list) return;
    this.#list = list;
    this.#buttons = [];
    this.#element.hidden = !list?.length;
    const kinds = KINDS.map((kind) => [kind, (list ?? []).filter((each) => each.kind === kind)]);
    const groups = kinds.filter(([, some]) => some.length);
    const said = groups.map(([kind, { length }]) => counted(length, kind)).join(", ");
    const rows = groups.map(([kind, some]) => {
      const all = some.length > 1 ? [this.#button(`All ${counted(some.length, kind)}`, some)] : [];
      return make("p", { class: "offers" }, ...all, ...some.map((each) => this.#button(each.name, [each])));
    });
    const details = make("details", { open: true }, make("summary", {}, `On this page: ${said}`), ...rows);
    this.#element.replaceChildren(details);
    this.#press();
  }

  #button(text, elements) {
    const button = make("button", { type: "button" }, text);
    button.addEventListener("click", () => this.#choose(elements));
    this.#buttons.push([button, elements]);
    return button;
  }

  #regionOf({ selector }) {
    return this.#regions.list.find((region) => region.selector === selector);
  }

  /** Make regions of elements, or none if all are regions; this is undone at once. */
  #choose(elements) {
    const others = elements.filter((element) => !this.#regionOf(element));
    this.#regions.hold();
    if (others.length) {
      for (const { x, y, width, height, ...named } of others) this.#regions.add(x, y, width, height, named);
    } else {
      for (const element of elements) this.#regions.remove(this.#regionOf(element));
    }
    this.#regions.release();
    const [first, ...more] = others.length ? others : elements;
    announce(`${more.length ? counted(elements.length, first.kind) : first.name} ${others.length ? "added" : "removed"}`);
  }

  #press() {
    for (const [button, elements] of this.#buttons) {
      button.setAttribute("aria-pressed", String(elements.every((element) => this.#regionOf(element))));
    }
  }

  #point(mark, target) {
    const [, elements] = this.#buttons.find(([button]) => button === target) ?? [];
    mark.hidden = elements?.length !== 1;
    if (mark.hidden) return;
    const { width, height } = this.#regions.size;
    const [{ x, y, width: across, height: down }] = elements;
    const sides = { left: x / width, top: y / height, width: across / width, height: down / height };
    for (const [side, part] of Object.entries(sides)) mark.style[side] = percent(part, 4);
    const frame = mark.closest(".frame"); // which scrolls to it, if it scrolls
    frame.scrollTo(mark.offsetLeft - frame.clientWidth / 3, mark.offsetTop - frame.clientHeight / 3);
  }
}
