"use strict";
(() => {
  const tip = document.getElementById("tip");

  function show(mark, x, y) {
    tip.textContent = mark.dataset.tip;
    tip.hidden = false;
    const box = tip.getBoundingClientRect();
    const left = Math.min(Math.max(4, x + 12), innerWidth - box.width - 4);
    const above = y - box.height - 12;
    tip.style.left = `${Math.max(4, left)}px`;
    tip.style.top = `${above > 4 ? above : y + 18}px`;
  }
  function hide() { tip.hidden = true; }
  const marked = (event) => event.target instanceof Element && event.target.closest("[data-tip]");

  document.addEventListener("pointerover", (event) => {
    const mark = marked(event);
    if (mark) show(mark, event.clientX, event.clientY); else hide();
  });
  document.addEventListener("pointerdown", (event) => {
    const mark = marked(event);
    if (mark) show(mark, event.clientX, event.clientY);
  });
  document.addEventListener("focusin", (event) => {
    const mark = marked(event);
    if (!mark) { hide(); return; }
    const box = mark.getBoundingClientRect();
    show(mark, box.left + box.width / 2, box.top);
  });
  document.addEventListener("focusout", hide);
  document.addEventListener("scroll", hide, { passive: true, capture: true });

  // One stop of the Tab key for a group of marks; arrow keys, Home and End within it.
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") { hide(); return; }
    const mark = marked(event);
    const group = mark && mark.closest("[data-marks]");
    if (!group) return;
    const marks = [...group.querySelectorAll("[data-tip]")];
    const at = marks.indexOf(mark);
    const row = mark.closest("tr");
    const across = row ? row.querySelectorAll("[data-tip]").length : 1;
    const next = {
      ArrowRight: at + 1, ArrowLeft: at - 1, ArrowDown: at + across, ArrowUp: at - across,
      Home: 0, End: marks.length - 1,
    }[event.key];
    if (next === undefined) return;
    event.preventDefault();
    const to = marks[Math.min(Math.max(next, 0), marks.length - 1)];
    mark.tabIndex = -1;
    to.tabIndex = 0;
    to.focus();
  });

  function prepare(root) {
    for (const group of root.querySelectorAll("[data-marks]")) {
      group.querySelectorAll("[data-tip]").forEach((mark, i) => { mark.tabIndex = i ? -1 : 0; });
    }
    const choice = root.querySelector("#site");
    if (choice) choice.addEventListener("change", () => switchSite(choice));
  }

  // The bars of the clusters: all rows, or those of one site.
  function switchSite(choice) {
    const known = JSON.parse(document.getElementById("sizes").textContent);
    const sizes = choice.value === "" ? known.all : known.sites[Number(choice.value)];
    const name = choice.selectedOptions[0].textContent;
    const total = sizes.reduce((a, b) => a + b, 0) || 1;
    const most = Math.max(...sizes) || 1;
    const figure = document.querySelector("svg.sizes");
    sizes.forEach((size, c) => {
      const width = Math.max(size ? 1 : 0, (known.stop - known.start) * size / most);
      const share = size / total;
      const bar = figure.querySelector(`rect[data-cluster="${c}"]`);
      const over = figure.querySelector(`rect[data-over="${c}"]`);
      const text = figure.querySelector(`text[data-cluster="${c}"]`);
      const words = `Cluster ${c}, ${name}: ${size.toLocaleString("en")} ${size === 1 ? "row" : "rows"}, ${(100 * share).toFixed(1)}%`;
      for (const rect of [bar, over]) if (rect) rect.setAttribute("width", width);
      bar.dataset.tip = words;
      bar.setAttribute("aria-label", words);
      text.setAttribute("x", known.start + width + 6);
      text.textContent = `${size.toLocaleString("en")} (${Math.round(100 * share)}%)`;
    });
  }

  prepare(document);
  window.afcl = { prepare, switchSite, hide };
})();
