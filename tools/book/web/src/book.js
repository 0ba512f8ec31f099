// The one script of every page: it loads what a page uses, and nothing else. All of it comes from the site itself.

const HERE = new URL(".", import.meta.url);

/** Resolves when the element comes near. */
const near = (element) =>
  new Promise((resolve) => {
    const observer = new IntersectionObserver(
      (entries) => {
        if (!entries.some((entry) => entry.isIntersecting)) return;
        observer.disconnect();
        resolve();
      },
      { rootMargin: "600px 0px" },
    );
    observer.observe(element);
  });

// What the theme's HTML lacks for readers who hear the page, or use the keyboard. It changes the page as it loads.
function mendTheme() {
  document.querySelector(".md-search[role=dialog]")?.setAttribute("aria-label", "Search");
  const copies = () => document.querySelectorAll(".md-code__nav:not([role])"); // made when their code comes near
  const mend = () => copies().forEach((copy) => copy.setAttribute("role", "none")); // no landmark
  mend();
  new MutationObserver(mend).observe(document.querySelector("main"), { childList: true, subtree: true });
  reachScrolled();
}

/** What scrolls sideways must be reached by keys. All is measured before anything is changed: the page is laid out once. */
function reachScrolled() {
  const boxes = document.querySelectorAll("pre > code, .md-typeset__scrollwrap, div.arithmatex");
  for (const box of [...boxes].filter((each) => each.scrollWidth > each.clientWidth)) box.tabIndex = 0;
}

const draw = (place) => place.replaceWith(place.querySelector("template").content);

const USED = {
  ".picture-place": async () => ({ upgrade: (places) => places.forEach(draw) }),
  "div.kv-timeline[data-src]": () => import("timeline"),
  ".py-cell": () => import("./cells.js"),
  ".engine-chat": () => import("./chat.js"),
  ".lab-cell": () => import("./labs.js"),
  ".calculator": () => import("./calculators.js"),
  ".stepper": () => import("./steppers.js"),
  ".all-labs": () => import("./all-labs.js"),
  ".source-view": () => import("./source.js"),
};

// A chapter has a dozen of them, so each is made when it comes near. Until then its text stands there. The calculators
// of a page are made at once: paper has their values.
for (const place of document.querySelectorAll(Object.keys(USED).join())) {
  const [, load] = Object.entries(USED).find(([selector]) => place.matches(selector));
  (place.matches(".calculator") ? Promise.resolve() : near(place)).then(load).then((module) => module.upgrade([place]));
}
// A link to a Python file leads to the page that shows it with numbered lines; without JavaScript, to the file itself.
for (const link of document.querySelectorAll('main a[href*="py/"][href$=".py"]')) {
  const root = new URL("..", HERE).href;
  if (link.href.startsWith(`${root}py/`)) link.href = `${root}source.html?file=${link.href.slice(root.length)}`;
}
addEventListener("beforeprint", () => document.querySelectorAll(".picture-place").forEach(draw));
addEventListener("load", mendTheme);
addEventListener("resize", reachScrolled);
