"use strict";
(() => {
  const main = document.getElementById("page");
  let version = null;
  let wanted = null;
  let busy = false;

  function show(word, text) {
    const chip = document.getElementById("status");
    if (chip.textContent === text) return;
    chip.className = `status is-${word}`;
    chip.textContent = text;
  }

  // Put in the new body; scroll positions, the chosen site and open tables stay.
  function swap(html) {
    const left = scrollX, top = scrollY;
    const boxes = [...main.querySelectorAll(".scroll")].map((box) => [box.scrollLeft, box.scrollTop]);
    const open = [...main.querySelectorAll("details")].map((part) => part.open);
    const before = main.querySelector("#site");
    const site = before && before.selectedOptions[0].textContent;
    const focused = before !== null && document.activeElement === before;
    window.afcl.hide();
    main.innerHTML = html;
    window.afcl.prepare(main);
    const choice = main.querySelector("#site");
    const same = choice && [...choice.options].find((option) => option.textContent === site);
    if (same) {
      choice.value = same.value;
      window.afcl.switchSite(choice);
      if (focused) choice.focus({ preventScroll: true });
    }
    main.querySelectorAll("details").forEach((part, i) => { part.open = Boolean(open[i]); });
    main.querySelectorAll(".scroll").forEach((box, i) => {
      if (boxes[i]) [box.scrollLeft, box.scrollTop] = boxes[i];
    });
    scrollTo({ left, top, behavior: "instant" });
  }

  async function refresh() {
    if (busy) return;
    busy = true;
    try {
      while (version !== wanted) {
        const asked = wanted;
        const answer = await fetch("page", { cache: "no-store" });
        if (!answer.ok) break;
        const news = await answer.json();
        swap(news.html);
        document.title = `${news.text} · ${document.querySelector("h1").textContent}`;
        version = news.version;
        if (wanted === asked) wanted = version;
      }
    } catch {
      // The server is gone for now; the stream says so and comes back by itself.
    } finally {
      busy = false;
    }
  }

  function connect() {
    const stream = new EventSource("events");
    stream.onmessage = (event) => {
      const news = JSON.parse(event.data);
      show(news.word, news.text);
      wanted = news.version;
      refresh();
    };
    stream.onerror = () => {
      show("lost", "no connection to the dashboard, trying again");
      if (stream.readyState === EventSource.CLOSED) setTimeout(connect, 1000);
    };
  }

  connect();
})();
