/** What `page.py` runs on a page, in a world of its own: nothing that the page's scripts changed is seen here. */
({
  /** Bring the page to rest: fonts are there, animations at their end, and pictures loaded down to the bottom. */
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
  },

  /** The kind of the document, and its height in pixels. */
  facts() {
    return { kind: document.contentType, height: document.documentElement?.scrollHeight ?? 0 };
  },

  /** For each selector: how many elements it matches, and the sides of those that can be seen, in pixels. */
  boxes(selectors, isWhole) {
    const [across, down] = isWhole ? [scrollX, scrollY] : [0, 0];
    const isVisible = (element) => element.checkVisibility({ opacityProperty: true, visibilityProperty: true });
    return selectors.map((selector) => {
      let elements;
      try {
        elements = [...document.querySelectorAll(selector)];
      } catch {
        return { wrong: true, count: 0, boxes: [] };
      }
      const sides = elements.filter(isVisible).map((element) => element.getBoundingClientRect());
      const boxes = sides
        .filter(({ width, height }) => width > 0 && height > 0)
        .map(({ left, top, right, bottom }) => [left + across, top + down, right + across, bottom + down]);
      return { wrong: false, count: elements.length, boxes };
    });
  },
})
