/**
 * The site as an extension of Chromium: a click on its button opens the site with a picture of what the window shows.
 * Browsers grant that for the clicked tab alone (activeTab).
 */

/** Address of an opened site -> what it shows, {address, picture}, for which it asks once. */
const given = new Map();

chrome.action.onClicked.addListener(async (tab) => {
  const site = chrome.runtime.getURL(`index.html?${crypto.randomUUID()}`);
  try {
    const picture = await chrome.tabs.captureVisibleTab(tab.windowId, { format: "png" });
    given.set(site, { address: tab.url, picture });
    chrome.tabs.create({ url: site, index: tab.index + 1, openerTabId: tab.id });
    chrome.action.setBadgeText({ text: "" });
  } catch (error) {
    chrome.action.setBadgeText({ text: "!" });
    chrome.action.setTitle({ title: `The browser shows no picture of this tab (${error.message})` });
  }
});

chrome.runtime.onMessage.addListener((message, { url }, respond) => {
  respond(given.get(url) ?? null);
  given.delete(url);
});
