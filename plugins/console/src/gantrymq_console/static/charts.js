"use strict";
// Draws the charts of a history with uPlot over the images that the server made. Without this script they stay.
(() => {
  const language = document.documentElement.lang;
  const utc = document.documentElement.dataset.zone === "utc";
  const HEIGHT = 150;
  const NOT_FROM_ZERO = ["disk", "oldest_s", "dead_letters"]; // as in web/charts.py
  const charts = new Map(); // element -> chart
  let state = null; // what is known of the history of this page
  let reloaded = 0;

  const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const format = (options) => new Intl.DateTimeFormat(language, { hourCycle: "h23", timeZone: utc ? "UTC" : undefined, ...options });
  const clock = { hour: "2-digit", minute: "2-digit" };
  const [hours, exact] = [format(clock), format({ ...clock, second: "2-digit" })];
  const [days, moments] = [format({ month: "short", day: "numeric" }), format({ month: "short", day: "numeric", ...clock })];
  const digits = new Intl.NumberFormat(language, { maximumSignificantDigits: 4 });
  const whole = new Intl.NumberFormat(language, { maximumFractionDigits: 0 });
  const few = new Intl.NumberFormat(language, { notation: "compact", maximumSignificantDigits: 4 });
  const SIZES = ["B", "KiB", "MiB", "GiB", "TiB"];

  // --- values with units ---
  const shown = (holder, kind, value, given) => {
    const number = (each) => (given ?? (Math.abs(each) < 1000 ? digits : whole)).format(each);
    const filled = (unit, each) => holder.dataset[`unit${unit}`].replace("VALUE", number(each));
    if (kind === "size") {
      const power = Math.min(SIZES.length - 1, Math.max(0, Math.floor(Math.log2(Math.max(1, value)) / 10)));
      return `${digits.format(value / 1024 ** power)} ${SIZES[power]}`;
    }
    if (kind !== "time") return filled(kind[0].toUpperCase() + kind.slice(1), value);
    if (value < 120) return filled("S", value);
    if (value < 7200) return filled("Min", value / 60);
    return value < 172800 ? filled("H", value / 3600) : filled("D", value / 86400);
  };
  const STEPS = {
    time: [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 432000, 864000, 2592000, 8640000],
    size: Array.from({ length: 45 }, (_, power) => 2 ** power),
  };

  // --- uPlot ---
  const scaled = (word) => (_, least, most) => {
    if (NOT_FROM_ZERO.includes(word) && least > 0) {
      const room = Math.max(most - least, most / 50, 1) / 5;
      return [Math.max(0, least - room), most + room];
    }
    return [0, most > 0 ? most * 1.1 : 1];
  };
  const alone = (chart, series) => {
    const values = chart.data[series], found = [];
    const known = (at) => values[at] !== null && values[at] !== undefined;
    for (let at = 0; at < values.length; at++) if (known(at) && !known(at - 1) && !known(at + 1)) found.push(at);
    return found;
  };
  const events = (chart) => {
    const { ctx, bbox } = chart;
    ctx.save();
    ctx.strokeStyle = color("--warn");
    ctx.lineWidth = devicePixelRatio;
    ctx.setLineDash([2 * devicePixelRatio, 2 * devicePixelRatio]);
    for (const { at_ms: at } of state.events) {
      const x = chart.valToPos(at / 1000, "x", true);
      if (x < bbox.left || x > bbox.left + bbox.width) continue;
      ctx.beginPath();
      ctx.moveTo(x, bbox.top);
      ctx.lineTo(x, bbox.top + bbox.height);
      ctx.stroke();
    }
    ctx.restore();
  };
  const eventNear = (holder, at) => {
    const found = state.events.filter((each) => Math.abs(each.at_ms - at) <= Math.max(2 * state.step, state.length / 100)).map((each) => holder.querySelector(`[data-at="${each.at_ms}"] a`)?.textContent);
    return found.filter(Boolean).slice(0, 2).join("; ");
  };
  const readout = (figure) => {
    const chart = charts.get(figure);
    const holder = figure.closest("[data-charts]");
    const { idx: at, left } = chart.cursor;
    const text = figure.querySelector("[data-readout]");
    const below = figure.querySelector(".range");
    const say = (value) => (value === null || value === undefined ? holder.dataset.unknown : shown(holder, figure.dataset.kind, value));
    if (at === null || at === undefined || left < 0) {
      const values = chart.data[1];
      let last = values.length - 1;
      while (last >= 0 && values[last] === null) last--;
      if (last < 0) return;
      const time = chart.data[0][last] * 1000;
      const isNow = state.end - time <= Math.max(30000, 3 * state.step);
      text.textContent = (isNow ? holder.dataset.now : holder.dataset.then).replace("VALUE", say(values[last])).replace("TIME", moments.format(new Date(time)));
      below.textContent = below.dataset.text ?? below.textContent;
      return;
    }
    const time = new Date(chart.data[0][at] * 1000);
    const before = chart.data[2] ? ` (${holder.dataset.before.replace("VALUE", say(chart.data[2][at]))})` : "";
    text.textContent = `${(state.length > 86400000 ? moments : exact).format(time)}${holder.dataset.colon}${say(chart.data[1][at])}${before}`;
    below.textContent = eventNear(holder, time.getTime()) || (below.dataset.text ?? "");
  };
  const options = (figure, width, withEarlier) => {
    const holder = figure.closest("[data-charts]");
    const { chart: word, kind } = figure.dataset;
    const axis = { stroke: color("--muted"), grid: { stroke: color("--line"), width: 1 }, ticks: { stroke: color("--line"), width: 1 }, font: "12px system-ui, sans-serif" };
    const line = { spanGaps: false, points: { show: true, size: 4, filter: alone } };
    const times = (seconds, step) => seconds.map((each) => {
      const date = new Date(each * 1000);
      const isMidnight = utc ? each % 86400 === 0 : date.getHours() + date.getMinutes() + date.getSeconds() === 0;
      return (step >= 86400 || isMidnight ? days : step < 60 ? exact : hours).format(date);
    });
    const series = [{}, { label: figure.dataset.label, stroke: color("--link"), width: 2, ...line }];
    if (withEarlier) series.push({ label: "", stroke: color("--muted"), width: 1.5, dash: [5, 4], alpha: 0.7, ...line });
    return {
      width,
      height: HEIGHT,
      legend: { show: false },
      tzDate: (seconds) => (utc ? uPlot.tzDate(new Date(seconds * 1000), "UTC") : new Date(seconds * 1000)),
      cursor: { drag: { x: false, y: false }, y: false, sync: { key: "history", setSeries: false } },
      scales: { x: { time: true }, y: { range: scaled(word) } },
      axes: [
        { ...axis, space: 60, size: 30, values: (_, seconds, _axis, _space, step) => times(seconds, step) },
        { ...axis, size: 68, space: 28, ...(STEPS[kind] && { incrs: STEPS[kind] }), values: (_, values) => values.map((each) => shown(holder, kind, each, few)) },
      ],
      series,
      hooks: { draw: [events], setCursor: [() => readout(figure)] },
    };
  };

  // --- numbers ---
  const merged = (known, data, length) => {
    const fresh = { step: data.step_ms, end: data.end_ms, length, since: data.since_ms, events: data.events, curves: {}, earlier: {} };
    const joined = known && known.step === data.step_ms && data.times.length && known.times.at(-1) >= data.times[0];
    const begin = data.end_ms - length;
    const from = joined ? known.times.findIndex((each) => each >= begin) : 0;
    const to = joined ? known.times.indexOf(data.times[0]) : 0;
    const join = (old, values) => (joined && old ? [...old.slice(from, to), ...values] : values);
    fresh.times = join(known?.times, data.times);
    for (const part of ["curves", "earlier"]) for (const each of data[part]) fresh[part][each.word] = join(known?.[part][each.word], each.values);
    if (joined) fresh.events = [...known.events.filter((each) => each.at_ms >= begin && each.at_ms < data.times[0]), ...data.events];
    return fresh;
  };
  const isKnown = (values) => values?.some((each) => each !== null);
  const several = (values) => values.filter((each) => each !== null).length > 1;
  const drawFigure = (figure) => {
    const holder = figure.closest("[data-charts]");
    const plot = figure.querySelector(".plot");
    const word = figure.dataset.chart;
    const values = state.curves[word];
    const earlier = state.earlier[word] && several(state.earlier[word]) ? state.earlier[word] : null;
    const data = [state.times.map((each) => each / 1000), values, ...(earlier ? [earlier] : [])];
    const known = charts.get(figure);
    if (known && known.series.length === data.length) {
      known.setData(data);
    } else {
      known?.destroy();
      plot.replaceChildren();
      charts.set(figure, new uPlot(options(figure, Math.max(200, plot.clientWidth), Boolean(earlier)), data, plot));
    }
    const numbers = values.filter((each) => each !== null);
    const say = (value) => shown(holder, figure.dataset.kind, value);
    const fill = (text) => text.replace("LEAST", say(Math.min(...numbers))).replace("MOST", say(Math.max(...numbers))).replace("LAST", say(numbers.at(-1)));
    plot.setAttribute("aria-label", fill(figure.dataset.label));
    figure.querySelector(".range").dataset.text = fill(figure.dataset.range);
    readout(figure);
  };
  const reload = async (holder) => {
    // Another set of charts or events than the page has: the server says it in words.
    if (Date.now() - reloaded < 20000) return;
    reloaded = Date.now();
    const answer = await fetch(holder.dataset.section);
    if (!answer.ok) return;
    const found = new DOMParser().parseFromString(await answer.text(), "text/html").querySelector("[data-charts]");
    if (!found) return;
    for (const each of found.querySelectorAll("a[href]")) each.href = new URL(each.getAttribute("href"), answer.url).href;
    const isOpen = holder.querySelector("details.events")?.open;
    for (const name of ["length", "step", "events"]) holder.dataset[name] = found.dataset[name];
    holder.replaceChildren(...found.childNodes);
    if (isOpen) holder.querySelector("details.events")?.setAttribute("open", "");
    drop();
    dispatchEvent(new CustomEvent("gantrymq:times", { detail: holder }));
  };
  const drop = () => {
    for (const [figure, chart] of charts) {
      if (figure.isConnected) continue;
      chart.destroy();
      charts.delete(figure);
    }
  };
  const draw = async (holder) => {
    const after = state ? `&after=${state.times.at(-1) - Math.max(60000, 2 * state.step)}` : "";
    const answer = await fetch(holder.dataset.charts + after);
    if (!answer.ok) return;
    const { data } = await answer.json();
    if (data.problem || !data.times.length) return;
    state = merged(state, data, Number(holder.dataset.length));
    const drawn = [...holder.querySelectorAll("[data-chart]")].map((each) => each.dataset.chart);
    const wanted = data.curves.map((each) => each.word).filter((each) => several(state.curves[each]));
    if (wanted.join() !== drawn.join() || String(state.events.length) !== holder.dataset.events) await reload(holder);
    for (const figure of holder.querySelectorAll("[data-chart]")) if (isKnown(state.curves[figure.dataset.chart])) drawFigure(figure);
  };
  let asked = 0;
  const all = () => {
    const holder = document.querySelector("[data-charts]");
    drop();
    if (!holder || document.hidden || Date.now() - asked < Math.min(60000, Number(holder.dataset.step) || 0) - 500) return;
    asked = Date.now();
    draw(holder).catch(() => {});
  };
  const again = () => {
    for (const chart of charts.values()) chart.destroy();
    charts.clear();
    for (const figure of document.querySelectorAll("[data-chart]")) if (state && isKnown(state.curves[figure.dataset.chart])) drawFigure(figure);
  };
  addEventListener("resize", () => {
    for (const [figure, chart] of charts) chart.setSize({ width: Math.max(200, figure.querySelector(".plot").clientWidth), height: HEIGHT });
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
  // Numbers are asked for after the page was refreshed, so that both have the same pace, and a paused page rests.
  document.getElementById("main").addEventListener("htmx:afterRequest", all);
  all();
})();
