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
})
