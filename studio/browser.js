/** What `browser.py` runs on a page. */
({
  /**
   * Bring the page to rest: fonts are there, animations at their end, and pictures loaded down to the bottom.
   * Returns the kind of the document, and its height in pixels.
   */
  async settle(isWhole) {
    const frame = () => new Promise(requestAnimationFrame);
    await document.fonts.ready;
    if (isWhole) {
      const before = scrollY;
      for (let y = 0; y < document.documentElement.scrollHeight && y < 50_000; y += innerHeight) {
        scrollTo({ top: y, behavior: "instant" });
        await frame();
      }
      scrollTo({ top: before, behavior: "instant" });
    }
    for (const animation of document.getAnimations()) {
      try {
        animation.finish();
      } catch {
        animation.cancel(); // it has no end
      }
    }
    await frame();
    await frame();
    return { kind: document.contentType, height: document.documentElement?.scrollHeight ?? 0 };
  },

  /** How many elements there are, and the sides of those that can be seen, in pixels of the picture. */
  boxes(elements, isWhole) {
    const [across, down] = isWhole ? [scrollX, scrollY] : [0, 0];
    const isVisible = (element) => element.checkVisibility({ opacityProperty: true, visibilityProperty: true });
    const boxes = elements
      .filter(isVisible)
      .map((element) => element.getBoundingClientRect())
      .filter(({ width, height }) => width > 0 && height > 0)
      .map(({ left, top, right, bottom }) => [left + across, top + down, right + across, bottom + down]);
    return { count: elements.length, boxes };
  },

  /**
   * The page's own buttons, headings, images and fields in the picture, at most 200: of each, the kind, a name, and a
   * selector that finds it alone.
   */
  offers(isWhole) {
    const kinds = {
      button: "button, summary, [role=button], input:is([type=button], [type=submit], [type=reset], [type=image]), a",
      heading: "h1, h2, h3, h4, h5, h6, [role=heading]",
      image: "img, svg, canvas, video, [role=img]",
      field: "input:not([type=hidden]), select, textarea, [role=textbox]",
    };
    const hasGround = ({ backgroundColor, backgroundImage }) => !/^rgba|\//.test(backgroundColor) || backgroundImage !== "none";

    /** A link is a button if it has a ground or a border of its own, and is no card with parts. */
    const isOffered = (element) => {
      if (element.matches(kinds.image)) return !element.parentElement.closest(`button, svg, ${kinds.image}`);
      if (!element.matches("a:not([role=button])")) return true;
      const style = getComputedStyle(element);
      const hasBorder = parseFloat(style.borderTopWidth) * parseFloat(style.borderLeftWidth) > 0;
      return (hasGround(style) || hasBorder) && !element.querySelector(`p, img, ${kinds.heading}`);
    };

    const isInPicture = (element) => {
      const { left, top, right, bottom } = element.getBoundingClientRect();
      const isSeen = element.checkVisibility({ opacityProperty: true, visibilityProperty: true });
      return isSeen && (isWhole || (right > 0 && bottom > 0 && left < innerWidth && top < innerHeight));
    };

    /** Whether other elements hide one at its middle, and around it, where the window shows that. */
    const isCovered = (element) => {
      const { left, top, width, height } = element.getBoundingClientRect();
      return [[2, 2], [1, 1], [3, 1], [1, 3], [3, 3]].every(([across, down]) => {
        const [x, y] = [left + (across * width) / 4, top + (down * height) / 4];
        if (x < 0 || y < 0 || x >= innerWidth || y >= innerHeight) return false;
        const hits = document.elementsFromPoint(x, y);
        const place = hits.findIndex((hit) => element.contains(hit));
        if (place < 0) return getComputedStyle(element).pointerEvents !== "none";
        return hits.slice(0, place).some((hit) => hit.matches("img, video") || hasGround(getComputedStyle(hit)));
      });
    };

    const nameOf = (element) => {
      const labels = (element.getAttribute("aria-labelledby") ?? "").split(/\s+/).map((id) => document.getElementById(id));
      const attributes = (...names) => names.map((name) => element.getAttribute(name));
      const texts = [
        ...labels.map((label) => label?.textContent),
        ...attributes("aria-label", "alt"),
        element.labels?.[0]?.innerText,
        element.matches(`label + :is(${kinds.field})`) ? element.previousElementSibling.innerText : "",
        element.matches("select, textarea") ? "" : (element.innerText ?? element.querySelector("title")?.textContent),
        ...attributes("placeholder", "title", element.matches(kinds.button) ? "value" : "name"),
        /^(http|file)/.test(element.currentSrc) ? new URL(element.currentSrc).pathname.split("/").at(-1) : "",
        element.id,
      ];
      return texts.map((text) => (text ?? "").replace(/\s+/g, " ").trim()).find(Boolean) ?? "";
    };

    const isAlone = (selector) => document.querySelectorAll(selector).length === 1;
    /** The selector of an element that changes least: its id, an attribute that names it, its kind, or its way from another. */
    const selectorOf = (element) => {
      const tag = CSS.escape(element.localName);
      const isWritten = (name) => /^[a-z_-]+\d{0,2}$/i.test(name); // by a person, not by a program
      const names = [...element.attributes].filter(
        ({ name, value }) => /^(data-(test.*|cy|qa)|name|aria-label|alt)$/.test(name) && value && value.length < 60,
      );
      const own = [
        ...(isWritten(element.id) ? [`#${element.id}`] : []),
        ...names.map(({ name, value }) => `${tag}[${name}=${JSON.stringify(value)}]`),
        tag,
        ...[...element.classList].filter((name) => /^[a-z_-]+$/i.test(name)).map((name) => `${tag}.${name}`),
      ].find(isAlone);
      if (own) return own;
      const alike = [...element.parentElement.children].filter((other) => other.localName === element.localName);
      const place = alike.length > 1 ? `:nth-of-type(${alike.indexOf(element) + 1})` : "";
      return `${selectorOf(element.parentElement)} > ${tag}${place}`;
    };

    return [...document.querySelectorAll(Object.values(kinds).join())]
      .filter((element) => isInPicture(element) && isOffered(element) && !isCovered(element))
      .slice(0, 200)
      .map((element) => ({
        kind: Object.keys(kinds).find((kind) => element.matches(kinds[kind])),
        name: nameOf(element),
        selector: selectorOf(element),
      }));
  },
})
