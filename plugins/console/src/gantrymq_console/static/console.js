"use strict";
// Refresh of pages, times in the viewer's zone, keyboard shortcuts. Every page works without this script.
(() => {
  const IDLE_MS = 15 * 60 * 1000;
  const main = document.getElementById("main");
  const texts = document.getElementById("texts").dataset;
  const pauseButton = document.querySelector("[data-pause]");
  const age = document.querySelector("[data-age]");
  let refreshed = Date.now();
  let used = Date.now();
  let failed = false;
  let paused = false;
  let behind = 0; // seconds that a response was old when it was sent
  let due = Number(main.dataset.refresh); // seconds between two refreshes, which the console sets
  let tag = "";

  const showTimes = (root) => {
    const language = document.documentElement.lang;
    if (document.documentElement.dataset.zone === "utc") return;
    const format = new Intl.DateTimeFormat(language, { dateStyle: "short", timeStyle: "medium" });
    for (const each of root.querySelectorAll("time[datetime]")) {
      each.textContent = format.format(new Date(each.dateTime));
    }
  };
  const every = () => {
    if (!main.dataset.refresh) return;
    const now = Date.now();
    const asleep = paused || document.hidden || now - used > IDLE_MS;
    if (!asleep && now - refreshed >= due * 1000 && !main.contains(document.activeElement?.closest?.("form"))) {
      refreshed = now;
      main.dispatchEvent(new Event("refresh"));
    }
    if (age) {
      const seconds = Math.max(0, Math.round((now - refreshed) / 1000) + behind);
      age.textContent = failed ? texts.failed : asleep ? texts.paused : texts.fresh.replace("SECONDS", seconds);
      age.classList.toggle("stale", failed);
    }
  };

  main.addEventListener("htmx:configRequest", (event) => {
    if (tag) event.detail.headers["If-None-Match"] = tag;
  });
  main.addEventListener("htmx:afterRequest", (event) => {
    document.body.classList.remove("loading");
    failed = event.detail.failed;
    due = Number(event.detail.xhr.getResponseHeader("Gantrymq-Refresh")) || Number(main.dataset.refresh);
    if (failed) return;
    tag = event.detail.xhr.getResponseHeader("ETag") || tag;
    behind = Number(event.detail.xhr.getResponseHeader("Age"));
  });
  main.addEventListener("htmx:beforeRequest", () => setTimeout(() => document.body.classList.toggle("loading", main.classList.contains("htmx-request")), 300));
  main.addEventListener("htmx:beforeSwap", (event) => {
    const parsed = new DOMParser().parseFromString(event.detail.serverResponse, "text/html");
    showTimes(parsed);
    nameZones(parsed);
    event.detail.serverResponse = parsed.body.innerHTML;
  });

  if (pauseButton) {
    pauseButton.hidden = false;
    pauseButton.addEventListener("click", () => {
      paused = !paused;
      pauseButton.textContent = paused ? texts.resume : texts.pause;
      every();
    });
  }
  for (const kind of ["keydown", "pointerdown"]) addEventListener(kind, () => { used = Date.now(); }, { passive: true });

  // --- times in forms ---
  const zoned = document.documentElement.dataset.zone !== "utc";
  const nameZones = (root) => {
    if (!zoned) return;
    const name = Intl.DateTimeFormat().resolvedOptions().timeZone;
    for (const each of root.querySelectorAll("[data-zone-name]")) each.textContent = name;
    for (const each of root.querySelectorAll("input[type=datetime-local][value]")) {
      const moment = new Date(`${each.getAttribute("value")}Z`);
      const local = new Date(moment - moment.getTimezoneOffset() * 60000);
      if (!isNaN(local)) each.value = local.toISOString().slice(0, moment.getMilliseconds() ? 23 : 19);
    }
  };
  addEventListener("submit", (event) => {
    for (const each of event.target.querySelectorAll("[data-utc-of]")) {
      const given = event.target.elements[each.dataset.utcOf].value;
      each.value = given ? new Date(zoned ? given : `${given}Z`).toISOString() : "";
    }
  }, true);
  nameZones(document);

  // --- ids are copied; outside HTTPS and this machine, browsers have no clipboard for scripts ---
  document.documentElement.classList.add("script");
  const copied = (text) => {
    const area = Object.assign(document.createElement("textarea"), { value: text, readOnly: true });
    const focused = document.activeElement;
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    focused?.focus?.();
    return done;
  };
  const copy = async (button, text) => {
    const done = navigator.clipboard ? await navigator.clipboard.writeText(text).then(() => true, () => copied(text)) : copied(text);
    const told = document.getElementById("told");
    told.textContent = "";
    setTimeout(() => { told.textContent = done ? texts.copied : texts.notCopied; }, 50); // a change, also the second time
    button.classList.toggle("done", done);
    setTimeout(() => button.classList.remove("done"), 2000);
  };
  main.addEventListener("click", (event) => {
    const button = event.target.closest("[data-copy]");
    if (button) copy(button, button.dataset.copy);
  });

  for (const button of document.querySelectorAll("[data-copy-link]")) {
    button.hidden = false;
    button.addEventListener("click", () => copy(button, button.previousElementSibling.href)); // absolute, as the browser sees it
  }

  // --- the menu closes when something else is used ---
  const menu = document.querySelector("details.menu");
  addEventListener("click", (event) => { if (!menu.contains(event.target)) menu.open = false; });
  addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !menu.open) return;
    menu.open = false;
    menu.querySelector("summary").focus();
  });

  // --- keyboard ---
  let before = "";
  let row = -1;
  const choose = (step) => {
    const rows = [...main.querySelectorAll("tbody tr")];
    if (!rows.length) return;
    rows[row]?.removeAttribute("aria-selected");
    row = Math.min(rows.length - 1, Math.max(0, row + step));
    rows[row].setAttribute("aria-selected", "true");
    (rows[row].querySelector("a") || rows[row]).focus();
  };
  const home = document.querySelector("header .home").href;
  const keys = {
    "/": () => document.getElementById("q").focus(),
    j: () => choose(1),
    k: () => choose(-1),
    r: () => { refreshed = 0; used = Date.now(); every(); },
    p: () => pauseButton?.click(),
    "?": () => document.getElementById("keys").showModal(),
    "g h": () => { location.href = home; },
    "g t": () => { location.href = new URL("topics", home); },
    "g g": () => { location.href = new URL("groups", home); },
  };
  addEventListener("keydown", (event) => {
    const typing = event.target.closest?.("input, textarea, select, dialog");
    if (typing || event.ctrlKey || event.metaKey || event.altKey || document.documentElement.dataset.keys === "off") return;
    const done = keys[before ? `${before} ${event.key}` : event.key];
    before = event.key === "g" && !before ? "g" : "";
    if (done) {
      event.preventDefault();
      done();
    }
  });

  // --- a checkbox that sets those of all rows ---
  const chooseAll = () => {
    for (const each of main.querySelectorAll("[data-choose-all]")) {
      const rows = () => each.closest("form").querySelectorAll("tbody input[type=checkbox]");
      const box = Object.assign(document.createElement("input"), { type: "checkbox" });
      box.setAttribute("aria-label", each.dataset.chooseAll);
      box.title = each.dataset.chooseAll;
      box.addEventListener("change", () => { for (const row of rows()) row.checked = box.checked; });
      each.replaceChildren(box);
      each.removeAttribute("data-choose-all");
    }
  };
  main.addEventListener("htmx:afterSwap", chooseAll);
  chooseAll();

  // --- what a visitor opened stays open after a refresh ---
  if (window.Idiomorph) {
    Idiomorph.defaults.callbacks.beforeNodeMorphed = (old, fresh) => {
      if (old.id === "history") return false; // a refresh has no charts; charts.js gets their numbers
      if (old.tagName === "DETAILS") fresh.toggleAttribute("open", old.open);
      return true;
    };
  }

  // --- charts: their files are fetched by the first page that has one ---
  const loadCharts = () => {
    const holder = main.querySelector("[data-charts]");
    if (!holder || document.getElementById("charts")) return;
    for (const file of holder.dataset.files.split(" ")) {
      const style = file.endsWith(".css");
      const element = document.createElement(style ? "link" : "script");
      if (style) Object.assign(element, { rel: "stylesheet", href: file });
      else Object.assign(element, { src: file, async: false });
      if (file.endsWith("charts.js")) element.id = "charts";
      document.head.append(element);
    }
  };
  main.addEventListener("htmx:afterSwap", loadCharts);
  addEventListener("gantrymq:times", (event) => showTimes(event.detail));
  loadCharts();

  showTimes(document);
  if (Math.abs(Date.now() - Number(texts.now)) > 5000 && performance.getEntriesByType("navigation")[0]?.type !== "back_forward") {
    const note = document.createElement("p");
    note.className = "banner warn";
    note.textContent = texts.clock;
    main.prepend(note);
  }
  setInterval(every, 1000);
  every();
})();
