"use strict";
// Draws the charts of the last hour with uPlot over the images that the server made. Without this script they stay.
(() => {
  const main = document.getElementById("main");
  const language = document.documentElement.lang;
  const utc = document.documentElement.dataset.zone === "utc";
  const charts = new Map(); // element -> chart

  // A refresh of the page must not take the charts away: each one gets its numbers by itself.
  if (window.Idiomorph) {
    const before = Idiomorph.defaults.callbacks.beforeNodeMorphed;
    Idiomorph.defaults.callbacks.beforeNodeMorphed = (old, fresh) =>
      old instanceof Element && charts.has(old) ? false : before(old, fresh);
  }

  const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const options = (element) => {
    const axis = { stroke: color("--muted"), grid: { stroke: color("--line"), width: 1 }, ticks: { stroke: color("--line") } };
    const zone = { hour: "2-digit", minute: "2-digit", hourCycle: "h23", timeZone: utc ? "UTC" : undefined };
    const hour = new Intl.DateTimeFormat(language, zone);
    const exact = new Intl.DateTimeFormat(language, { ...zone, second: "2-digit" });
    const clock = (seconds, step) => seconds.map((each) => (step < 60 ? exact : hour).format(new Date(each * 1000)));
    return {
      width: Math.max(200, element.clientWidth),
      height: 140,
      legend: { show: false },
      cursor: { drag: { x: false, y: false } },
      scales: { y: { range: (_, _least, most) => [0, most > 0 ? most * 1.1 : 1] } },
      axes: [
        { ...axis, space: 70, values: (_, seconds, _axis, _space, step) => clock(seconds, step) },
        { ...axis, size: 60, values: (_, values) => values.map((each) => new Intl.NumberFormat(language, { notation: "compact" }).format(each)) },
      ],
      series: [{}, { label: element.dataset.label, stroke: color("--link"), width: 2, points: { show: false } }],
    };
  };
  const draw = async (holder) => {
    const answer = await fetch(holder.dataset.charts);
    if (!answer.ok) return;
    const { data } = await answer.json();
    const times = data.times.map((each) => each / 1000);
    for (const element of holder.querySelectorAll("[data-chart]")) {
      const curve = data.curves.find((each) => each.word === element.dataset.chart);
      if (!curve || curve.values.length !== times.length || !times.length) continue;
      const known = charts.get(element);
      if (known) {
        known.setData([times, curve.values]);
      } else {
        element.replaceChildren();
        charts.set(element, new uPlot(options(element), [times, curve.values], element));
      }
    }
  };
  const all = () => {
    for (const element of charts.keys()) if (!element.isConnected) charts.delete(element);
    if (!document.hidden) for (const each of document.querySelectorAll("[data-charts]")) draw(each).catch(() => {});
  };
  addEventListener("resize", () => {
    for (const [element, chart] of charts) chart.setSize({ width: Math.max(200, element.clientWidth), height: 140 });
  });
  main.addEventListener("htmx:afterSwap", () => {
    if (document.querySelector("[data-chart] > svg.spark")) all();
  });
  setInterval(all, 10000);
  all();
})();
