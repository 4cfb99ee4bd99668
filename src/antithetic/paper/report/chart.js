// One figure: curves with bands, a cursor that reads them all, and switches for what is shown.

const LABEL = 120; // most pixels for a name at the end of its curve

class Chart {
  constructor(host, data) {
    this.data = data;
    this.hidden = new Set();
    this.logY = data.logY;
    this.each = false;
    this.at = null; // place of the cursor among this.xs
    this.xs = [...new Set(data.series.flatMap((series) => series.x))].sort((a, b) => a - b);
    this.tip = html("div", { class: "tip", hidden: true });
    this.plot = html("div", {
      class: "plot",
      tabindex: 0,
      role: "slider",
      "aria-label": `${data.title}: values along ${data.xLabel || "x"}`,
      "aria-valuemin": 0,
      "aria-valuemax": Math.max(0, this.xs.length - 1),
      "aria-valuenow": 0,
      "aria-valuetext": "use the arrow keys to read values",
      keydown: (event) => this.key(event),
      pointermove: (event) => this.point(event),
      pointerdown: (event) => this.point(event),
      pointerleave: (event) => {
        if (event.pointerType === "mouse") this.leave();
      },
      blur: () => this.leave(),
    });
    host.querySelector(".chart").append(this.controls(), this.plot);
    host.append(this.table());
    onWidth(this.plot, (width) => {
      this.width = width;
      this.draw();
    });
  }

  controls() {
    const { data } = this;
    const legend = html("div", { class: "legend", role: "group", "aria-label": "Series" });
    for (const series of data.series) {
      const look = lookOf(series.name);
      const sample = svg(
        "svg",
        { viewBox: "0 0 30 12", width: 30, height: 12, "aria-hidden": "true", class: look.colour },
        svg("line", { x1: 1, x2: 29, y1: 6, y2: 6, class: "curve", "stroke-dasharray": look.dash }),
        marker(look.marker, 15, 6, 3, { class: "mark" }),
      );
      legend.append(
        html(
          "button",
          {
            type: "button",
            "aria-pressed": "true",
            click: (event) => {
              if (!this.hidden.delete(series.name)) this.hidden.add(series.name);
              event.currentTarget.setAttribute("aria-pressed", String(!this.hidden.has(series.name)));
              this.draw();
            },
          },
          sample,
          series.name,
        ),
      );
    }
    const tools = html("div", { class: "tools" });
    const positive = data.series.some((series) => series.y.some((value) => value > 0));
    const flip = (name, field) =>
      html(
        "button",
        {
          type: "button",
          "aria-pressed": String(this[field]),
          click: (event) => {
            this[field] = !this[field];
            event.currentTarget.setAttribute("aria-pressed", String(this[field]));
            this.draw();
          },
        },
        name,
      );
    if (positive || this.logY) tools.append(flip("log scale", "logY"));
    if (data.series.some((series) => series.runs.length)) tools.append(flip("each seed", "each"));
    tools.append(...saveButtons(data.id, () => this.drawing));
    return html("div", { class: "controls" }, legend, tools);
  }

  shown() {
    return this.data.series.filter((series) => !this.hidden.has(series.name));
  }

  draw() {
    const { data, width } = this;
    const series = this.shown();
    const height = Math.round(clamp(width * 0.62, 230, 360));
    const labels = width >= 420 && series.length > 1 && series.length <= 6;
    const longest = Math.min(LABEL, Math.max(0, ...series.map((one) => textWidth(one.name, 600))));
    const box = { left: 52, right: width - (labels ? 12 + longest : 14), top: 30, bottom: height - 44 };
    const values = series.flatMap((one) => {
      if (this.each && one.runs.length) return one.runs.flat();
      if (!one.low) return one.y;
      // one low end must not stretch a logarithmic axis to nothing: the band is cut off there
      const least = one.y.reduce((a, b) => (isNumber(b) && b > 0 ? Math.min(a, b) : a), Infinity);
      return [...one.y, ...one.high, ...one.low.map((value) => (this.logY && isNumber(value) ? Math.max(value, least / 5) : value))];
    });
    const x = scale(
      series.flatMap((one) => one.x),
      data.logX,
      box.left,
      box.right,
    );
    const y = scale(values, this.logY, box.bottom, box.top);
    this.drawing = svg("svg", { viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true", focusable: "false" });
    if (x && y) this.fillIn(series, x, widen(y, 0.04, data.fromZero), box, labels);
    else
      this.drawing.append(
        svg("text", { x: width / 2, y: height / 2, class: "empty", "text-anchor": "middle" }, "nothing to show on this scale"),
      );
    this.x = x;
    this.plot.replaceChildren(this.drawing, this.tip);
    if (this.at !== null) this.move(this.at);
  }

  fillIn(series, x, y, box, labels) {
    const { data, drawing } = this;
    this.y = y;
    this.box = box;
    const clip = "clip-" + data.id;
    drawing.append(
      svg(
        "clipPath",
        { id: clip },
        svg("rect", { x: box.left - 6, y: box.top - 6, width: box.right - box.left + 12, height: box.bottom - box.top + 7 }),
      ),
    );
    for (const tick of ticksOf(y, y.log ? 7 : 5)) {
      const at = place(y, tick.value);
      drawing.append(
        svg("line", { class: "rule", x1: box.left, x2: box.right, y1: at, y2: at }),
        svg("text", { class: "tick", x: box.left - 8, y: at + 4, "text-anchor": "end" }, tick.text),
      );
    }
    drawing.append(svg("line", { class: "axis", x1: box.left, x2: box.right, y1: box.bottom, y2: box.bottom }));
    for (const tick of ticksOf(x, Math.max(3, Math.floor((box.right - box.left) / (x.log ? 48 : 70))))) {
      const at = place(x, tick.value);
      drawing.append(
        svg("line", { class: "axis", x1: at, x2: at, y1: box.bottom, y2: box.bottom + 4 }),
        svg("text", { class: "tick", x: at, y: box.bottom + 18, "text-anchor": "middle" }, tick.text),
      );
    }
    drawing.append(
      svg("text", { class: "label", x: 0, y: 13 }, fit(data.yLabel, this.width)),
      svg("text", { class: "label", x: box.right, y: box.bottom + 38, "text-anchor": "end" }, fit(data.xLabel, box.right)),
    );
    const inside = svg("g", { "clip-path": `url(#${clip})` });
    drawing.append(inside);
    for (const one of series) inside.append(this.curve(one, x, y));
    if (labels) drawing.append(this.ends(series, x, y, box));
    this.cursor = svg("g", { class: "cursor" });
    drawing.append(this.cursor);
  }

  curve(one, x, y) {
    const look = lookOf(one.name);
    const group = svg("g", { class: "series " + look.colour, "data-series": one.name });
    const xs = one.x.map((value) => place(x, value));
    const ys = one.y.map((value) => place(y, value));
    const each = this.each && one.runs.length;
    if (one.low && !each) group.append(svg("path", { class: "band", d: this.band(xs, one, y) }));
    if (each)
      for (const run of one.runs)
        group.append(
          svg("path", {
            class: "curve run",
            d: trace(
              xs,
              run.map((value) => place(y, value)),
            ),
          }),
        );
    const dense = xs.length > 300; // too close for dashes to be seen
    group.append(svg("path", { class: dense ? "curve dense" : "curve", d: trace(xs, ys), "stroke-dasharray": dense ? null : look.dash }));
    const step = xs.length <= 24 ? 1 : xs.length / 8; // markers only where they can be told apart
    for (let k = 0; Math.round(k) < xs.length; k += step) {
      const [px, py] = [xs[Math.round(k)], ys[Math.round(k)]];
      if (px !== null && py !== null) group.append(marker(look.marker, px, py, dense ? 4.5 : 3, { class: dense ? "mark dense" : "mark" }));
    }
    return group;
  }

  band(xs, one, y) {
    let path = "";
    for (const part of stretches(one.x.map((_, k) => xs[k] !== null && isNumber(one.low[k]) && place(y, one.high[k]) !== null))) {
      const upper = part.map((k) => `${round(xs[k])} ${round(place(y, one.high[k]))}`);
      const lower = part.map((k) => `${round(xs[k])} ${round(Math.min(place(y, one.low[k]) ?? y.from, y.from))}`).reverse();
      path += "M" + [...upper, ...lower].join("L") + "z";
    }
    return path;
  }

  ends(series, x, y, box) {
    const group = svg("g", {});
    const held = [];
    for (const one of series) {
      let k = one.y.length - 1;
      while (k >= 0 && place(y, one.y[k]) === null) k--;
      if (k >= 0) held.push({ name: one.name, from: place(x, one.x[k]), at: clamp(place(y, one.y[k]), box.top, box.bottom) });
    }
    held.sort((a, b) => a.at - b.at);
    for (let k = 1; k < held.length; k++) held[k].at = Math.max(held[k].at, held[k - 1].at + 15);
    for (let k = held.length - 1, most = box.bottom + 4; k >= 0; k--, most -= 15) held[k].at = Math.min(held[k].at, most);
    for (const { name, from, at } of held) {
      group.append(svg("text", { class: "end", x: from + 9, y: at + 4 }, fit(name, LABEL, 600)));
    }
    return group;
  }

  point(event) {
    if (!this.x || !this.xs.length) return;
    const rect = this.drawing.getBoundingClientRect();
    const pixel = ((event.clientX - rect.left) / rect.width) * this.width;
    let best = 0;
    let least = Infinity;
    this.xs.forEach((value, k) => {
      const at = place(this.x, value);
      if (at !== null && Math.abs(at - pixel) < least) [best, least] = [k, Math.abs(at - pixel)];
    });
    this.move(best);
  }

  key(event) {
    const far = Math.max(1, Math.round(this.xs.length / 10));
    const step = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1, PageUp: far, PageDown: -far }[event.key];
    if (event.key === "Escape") return this.leave();
    if (!this.xs.length || (!step && event.key !== "Home" && event.key !== "End")) return undefined;
    event.preventDefault();
    const now = this.at === null ? (step > 0 ? -1 : this.xs.length) : this.at;
    return this.move(event.key === "Home" ? 0 : event.key === "End" ? this.xs.length - 1 : clamp(now + step, 0, this.xs.length - 1));
  }

  leave() {
    this.at = null;
    this.tip.hidden = true;
    if (this.cursor) this.cursor.replaceChildren();
  }

  move(k) {
    const at = this.x && place(this.x, this.xs[k]);
    if (at === null || at === undefined || !this.cursor) return this.leave();
    this.at = k;
    const { box } = this;
    this.cursor.replaceChildren(svg("line", { x1: at, x2: at, y1: box.top, y2: box.bottom }));
    const name = this.data.xLabel || "x";
    const rows = this.shown().map((one) => ({ one, look: lookOf(one.name), point: this.nearest(one, at) }));
    this.tip.replaceChildren(html("b", {}, `${name} ${show(this.xs[k])}`));
    for (const { one, look, point } of rows) {
      const value = point === null ? null : one.y[point];
      const py = place(this.y, value);
      if (py !== null) this.cursor.append(marker(look.marker, place(this.x, one.x[point]), py, 4.5, { class: "mark " + look.colour }));
      const spread =
        point !== null && one.low && isNumber(one.low[point]) ? ` (${show(one.low[point], 3)} to ${show(one.high[point], 3)})` : "";
      this.tip.append(
        html(
          "div",
          { class: look.colour },
          html("i", {}),
          html("span", {}, one.name),
          html("em", {}, show(value)),
          html("small", {}, spread),
        ),
      );
    }
    this.tip.hidden = false;
    const scaleBy = this.drawing.clientWidth / this.width || 1;
    const room = this.plot.clientWidth - this.tip.offsetWidth;
    this.tip.style.left = clamp(at * scaleBy - this.tip.offsetWidth / 2, 0, Math.max(0, room)) + "px"; // above the plot: it hides no curve
    this.plot.setAttribute("aria-valuenow", k);
    this.plot.setAttribute(
      "aria-valuetext",
      `${name} ${show(this.xs[k])}: ` + rows.map(({ one, point }) => `${one.name} ${point === null ? "–" : show(one.y[point])}`).join(", "),
    );
    return undefined;
  }

  // The point of a curve under the cursor: thinned curves need not have one at exactly that x.
  nearest(one, at) {
    let best = null;
    let least = 6;
    one.x.forEach((value, k) => {
      const px = place(this.x, value);
      if (px !== null && Math.abs(px - at) < least) [best, least] = [k, Math.abs(px - at)];
    });
    return best;
  }

  table() {
    const { data } = this;
    const details = html(
      "details",
      {
        toggle: () => {
          if (!details.open || details.querySelector("table")) return;
          const head = [data.xLabel || "x"];
          for (const one of data.series) head.push(one.name, ...(one.low ? [`${one.name}, low`, `${one.name}, high`] : []));
          const body = this.xs.map((x) =>
            html(
              "tr",
              {},
              ...[
                x,
                ...data.series.flatMap((one) => {
                  const k = one.x.indexOf(x);
                  return k < 0 ? (one.low ? [null, null, null] : [null]) : [one.y[k], ...(one.low ? [one.low[k], one.high[k]] : [])];
                }),
              ].map((value) => html("td", { class: "number" }, show(value, 5))),
            ),
          );
          details.append(
            html(
              "div",
              { class: "scroll tall", tabindex: 0, role: "region", "aria-label": `Data of ${data.title}` },
              html(
                "table",
                {},
                html("thead", {}, html("tr", {}, ...head.map((name) => html("th", { scope: "col" }, name)))),
                html("tbody", {}, ...body),
              ),
            ),
          );
        },
      },
      html("summary", {}, "Data"),
    );
    const thinned = data.series.filter((one) => one.x.length < one.points);
    if (thinned.length) {
      details.append(
        html(
          "p",
          { class: "note" },
          "Not all points are drawn or listed: " + thinned.map((one) => `${one.name}, ${one.x.length} of ${one.points}`).join("; ") + ".",
        ),
      );
    }
    return details;
  }
}

const round = (value) => Math.round(value * 10) / 10;

// Runs of neighbouring places where there is something to draw.
function stretches(held) {
  const parts = [];
  held.forEach((good, k) => {
    if (!good) return;
    if (k && held[k - 1]) parts[parts.length - 1].push(k);
    else parts.push([k]);
  });
  return parts;
}

const trace = (xs, ys) =>
  stretches(xs.map((x, k) => x !== null && ys[k] !== null))
    .map((part) => "M" + part.map((k) => `${round(xs[k])} ${round(ys[k])}`).join("L"))
    .join("");
