"use strict";
(function () {
  const data = JSON.parse(document.getElementById("data").textContent);
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const narrow = window.matchMedia("(max-width: 40rem)");
  const shown = [];

  function css(name) {
    return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  }

  function colour(number) {
    const theme = dark.matches ? data.colours.dark : data.colours.light;
    return number < 0 ? theme.paper : theme.lines[number % theme.lines.length];
  }

  function painted(plot) {
    const copy = JSON.parse(JSON.stringify(plot));
    for (const trace of copy.data) {
      if (trace.type !== "scatter") continue;
      const own = colour(trace.meta);
      trace.line.color = own;
      if (trace.marker) trace.marker.color = own;
      if (trace.error_y) trace.error_y.color = own;
      trace.hoverlabel = { bgcolor: css("--raised"), bordercolor: own, font: { color: css("--ink") }, namelength: -1 };
    }
    const layout = copy.layout;
    layout.paper_bgcolor = layout.plot_bgcolor = css("--ground");
    layout.font = { color: css("--ink"), family: "system-ui, sans-serif", size: narrow.matches ? 11 : 13 };
    for (const key of Object.keys(layout)) {
      if (/^[xy]axis/.test(key)) Object.assign(layout[key], { gridcolor: css("--line"), linecolor: css("--soft") });
    }
    if (layout.coloraxis) {
      layout.coloraxis.colorscale = dark.matches ? data.colours.dark.scale : data.colours.light.scale;
      for (const key of Object.keys(layout)) {
        if (/^[xy]axis/.test(key)) layout[key].showgrid = false;
      }
    }
    if (narrow.matches && layout.legend) {
      layout.legend.font = { size: 10 };
      layout.margin.l = 54;
      layout.xaxis.title.text = layout.xaxis.title.text.replace(/,? (?=[(]|n_)/, "<br>");
    }
    return copy;
  }

  function draw(element, plot) {
    const ready = painted(plot);
    const config = { responsive: true, displaylogo: false, scrollZoom: false };
    return Plotly.react(element, ready.data, ready.layout, config);
  }

  function describe(trace, point) {
    const y = trace.y[point], x = trace.x[point];
    return trace.name + ", at " + x + ": " + Number(y).toPrecision(3) + " (point " + (point + 1) + " of " + trace.x.length + ")";
  }

  function walk(element, reading) {
    let curve = 0, point = -1;
    element.addEventListener("keydown", function (event) {
      const visible = element.data.map((t, i) => [t, i]).filter((e) => e[0].visible !== "legendonly").map((e) => e[1]);
      if (!visible.length || !["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown"].includes(event.key)) return;
      event.preventDefault();
      let place = Math.max(0, visible.indexOf(curve));
      if (event.key === "ArrowUp") place = (place + visible.length - 1) % visible.length;
      if (event.key === "ArrowDown") place = (place + 1) % visible.length;
      curve = visible[place];
      const trace = element.data[curve];
      const step = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
      point = Math.min(Math.max(point + step, 0), trace.x.length - 1);
      Plotly.Fx.hover(element, [{ curveNumber: curve, pointNumber: point }]);
      reading.textContent = describe(trace, point);
    });
  }

  for (const name of Object.keys(data.figures)) {
    const element = document.getElementById("plot-" + name);
    const plot = data.figures[name];
    shown.push(() => draw(element, plot));
    draw(element, plot).then(() => walk(element, document.getElementById("reading-" + name)));
  }

  const heads = document.getElementById("head");
  if (heads) {
    const element = document.getElementById("plot-masks");
    const again = () => draw(element, data.masks[Number(heads.value)]);
    heads.addEventListener("change", again);
    shown.push(again);
    again();
  }

  const repaint = () => shown.forEach((again) => again());
  dark.addEventListener("change", repaint);
  narrow.addEventListener("change", repaint);
})();
