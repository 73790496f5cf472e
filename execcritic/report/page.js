"use strict";
(() => {
  const $ = (id) => document.getElementById(id);
  const turns = [...document.querySelectorAll(".turn")];
  const box = $("find");
  let texts = null, hits = turns, at = -1, timer = 0;

  function read() {
    texts ??= turns.map((turn) => turn.textContent.toLowerCase());
  }

  function search() {
    const wanted = box.value.toLowerCase();
    read();
    hits = [];
    at = -1;
    turns.forEach((turn, i) => {
      const hit = texts[i].includes(wanted);
      if (hit) hits.push(turn);
      if (turn.hidden === hit) turn.hidden = !hit;
    });
    $("found").textContent = wanted ? `${hits.length} of ${turns.length}` : "";
  }

  function go(step) {
    if (!hits.length) return;
    at = (at + step + hits.length) % hits.length;
    const turn = hits[at];
    if (box.value) turn.open = true;
    turn.scrollIntoView({ block: "center" });
    turn.querySelector("summary").focus({ preventScroll: true });
  }

  if (box) {
    if (window.requestIdleCallback) requestIdleCallback(read);
    box.addEventListener("input", () => {
      clearTimeout(timer);
      timer = setTimeout(search, 60);
    });
    box.addEventListener("keydown", (event) => {
      if (event.key === "Escape") box.value = "";
      if (event.key !== "Escape" && event.key !== "Enter") return;
      event.preventDefault();
      clearTimeout(timer);
      search();
      if (event.key === "Enter") go(event.shiftKey ? -1 : 1);
    });
    $("next").addEventListener("click", () => go(1));
    $("previous").addEventListener("click", () => go(-1));
    $("open").addEventListener("click", () => hits.forEach((turn) => (turn.open = true)));
    $("close").addEventListener("click", () => turns.forEach((turn) => (turn.open = false)));
    document.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|TEXTAREA)$/.test(event.target.tagName)) return;
      if (event.key === "/") box.focus();
      else if (event.key === "n") go(1);
      else if (event.key === "p") go(-1);
      else return;
      event.preventDefault();
    });
  }

  const copy = $("copy");
  if (copy) {
    copy.addEventListener("click", () => {
      getSelection().selectAllChildren($("command"));
      copy.textContent = document.execCommand("copy") ? "Copied" : "Press Ctrl-C";
    });
  }
})();
