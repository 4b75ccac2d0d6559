/* The few lines that pages need beyond the theme. */
(function () {
  "use strict";
  const root = document.documentElement;

  // The first visit follows the reader's system before anything is painted.
  if (!/^(light|dark)$/.test(root.dataset.theme)) root.dataset.theme = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";

  // Opened as a file, a page may not read other files: search results come without excerpts then.
  if (location.protocol === "file:" && typeof DOCUMENTATION_OPTIONS !== "undefined") DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;

  // A link into a folded part unfolds it.
  function unfold() {
    const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    for (let box = target; box; box = box.parentElement) if (box.tagName === "DETAILS") box.open = true;
    if (target && target.classList.contains("fact")) target.scrollIntoView({ block: "center" });
  }
  addEventListener("hashchange", unfold);

  // What scrolls sideways can be reached and scrolled by keyboard.
  function reach() {
    for (const box of document.querySelectorAll(".bd-article :is(pre, div.math, .pst-scrollable-table-container, .cell_output)")) {
      if (box.scrollWidth > box.clientWidth + 1) box.tabIndex = 0;
      else box.removeAttribute("tabindex");
    }
  }
  // Formulas take their place late and push the target away; who has begun to read is left alone.
  let reading = false;
  for (const sign of ["wheel", "touchmove", "keydown"]) addEventListener(sign, function () { reading = true; }, { once: true, passive: true });
  addEventListener("DOMContentLoaded", unfold);
  addEventListener("load", function () {
    reach();
    if (window.MathJax && MathJax.startup) {
      MathJax.startup.promise.then(function () {
        reach();
        if (!reading) unfold();
      });
    }
  });
  addEventListener("resize", reach);
})();
