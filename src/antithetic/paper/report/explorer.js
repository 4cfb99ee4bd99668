// The pair explorer: samples in the plane, each with its antithetic partner, while the decision moves. The paper's Figure 1, alive.
// Text enters the page as text nodes only, never as markup.

const PAUSE = 450; // milliseconds a frame stays
const GHOSTS = 10; // earlier decisions still faintly seen, which shows how much one jitters

const SVG = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (typeof value === "function") element.addEventListener(name, value);
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null));
  return element;
}

const html = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
const svg = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);

const isNumber = (value) => typeof value === "number" && Number.isFinite(value);
const round = (value) => Math.round(value * 10) / 10;
const clamp = (value, low, high) => Math.min(Math.max(value, low), high);
const calm = () => window.matchMedia("(prefers-reduced-motion: reduce)").matches;

// Numbers as people write them: 0.0123, 1.23×10⁻⁵, and a dash for none.
const minus = (text) => text.replace("-", "−");
const power = (exponent) =>
  "10" +
  String(exponent)
    .replace("-", "⁻")
    .replace(/\d/g, (digit) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[digit]);

function show(value, digits = 4) {
  if (!isNumber(value)) return "–";
  if (value === 0 || (Math.abs(value) >= 1e-3 && Math.abs(value) < 1e6)) return minus(String(Number(value.toPrecision(digits))));
  const [mantissa, exponent] = value.toExponential(digits - 1).split("e");
  const short = String(Number(mantissa));
  return short === "1" ? power(Number(exponent)) : minus(short) + "×" + power(Number(exponent));
}

// Four digits always, for a number that changes in place.
const steady = (value) => (isNumber(value) && Math.abs(value) >= 1e-3 && Math.abs(value) < 1e4 ? minus(value.toPrecision(4)) : show(value));

// Width of a text of a drawing, and as much of a text as there is room for.
const ruler = document.createElement("canvas").getContext("2d");

function textWidth(text) {
  ruler.font = `12px ${getComputedStyle(document.body).fontFamily}`;
  return ruler.measureText(text).width;
}

function fit(text, room) {
  if (textWidth(text) <= room) return text;
  let length = text.length;
  while (length > 1 && textWidth(text.slice(0, length) + "…") > room) length--;
  return text.slice(0, length) + "…";
}

// Downloads: a copy of the drawing that carries its looks with it, as a picture needs them outside the page.
const LOOKS = [
  "fill",
  "fill-opacity",
  "stroke",
  "stroke-width",
  "stroke-opacity",
  "stroke-dasharray",
  "stroke-linecap",
  "stroke-linejoin",
  "opacity",
  "font-family",
  "font-size",
  "font-weight",
  "text-anchor",
  "visibility",
  "display",
];

const MARGIN = 14;

function pictureSize(drawing) {
  const [, , width, height] = drawing.getAttribute("viewBox").split(" ").map(Number);
  return { width: width + 2 * MARGIN, height: height + 2 * MARGIN };
}

function standalone(drawing) {
  const copy = drawing.cloneNode(true);
  const { width, height } = pictureSize(drawing);
  const originals = [drawing, ...drawing.querySelectorAll("*")];
  [copy, ...copy.querySelectorAll("*")].forEach((element, k) => {
    const style = getComputedStyle(originals[k]);
    for (const name of LOOKS) element.setAttribute(name, style.getPropertyValue(name));
    element.removeAttribute("class");
  });
  const colour = getComputedStyle(document.body).getPropertyValue("background-color");
  copy.prepend(svg("rect", { x: -MARGIN, y: -MARGIN, width, height, fill: colour }));
  fill(copy, { xmlns: SVG, width, height, viewBox: `${-MARGIN} ${-MARGIN} ${width} ${height}` }, []);
  return new XMLSerializer().serializeToString(copy);
}

function save(name, blob) {
  const link = html("a", { href: URL.createObjectURL(blob), download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

function savePng(name, drawing) {
  const { width, height } = pictureSize(drawing);
  const image = new Image();
  image.addEventListener("load", () => {
    const canvas = html("canvas", { width: 3 * width, height: 3 * height });
    canvas.getContext("2d").drawImage(image, 0, 0, 3 * width, 3 * height);
    canvas.toBlob((blob) => save(name, blob), "image/png");
  });
  image.src = "data:image/svg+xml;charset=utf-8," + encodeURIComponent(standalone(drawing));
}

const fileName = (name) => name.replace(/[^\p{L}\p{N}_-]+/gu, "-").slice(0, 80);

const saveButtons = (name, drawing) => [
  html(
    "button",
    {
      type: "button",
      class: "quiet",
      "aria-label": `Download ${name} as SVG`,
      click: () => save(fileName(name) + ".svg", new Blob([standalone(drawing())], { type: "image/svg+xml" })),
    },
    "SVG",
  ),
  html(
    "button",
    { type: "button", class: "quiet", "aria-label": `Download ${name} as PNG`, click: () => savePng(fileName(name) + ".png", drawing()) },
    "PNG",
  ),
];

// Calls back with the width of an element whenever it changes.
function onWidth(element, call) {
  let last = 0;
  new ResizeObserver(() => {
    const width = Math.round(element.clientWidth);
    if (width && width !== last) call((last = width));
  }).observe(element);
}

function startExplorer(host, sets) {
  const stage = html("div", {});
  let now = null;
  const open = (k) => {
    if (now) now.stop();
    now = new Explorer(stage, sets[k]);
    tabs.forEach((tab, j) => tab.setAttribute("aria-pressed", String(j === k)));
  };
  const tabs = sets.map((set, k) => html("button", { type: "button", click: () => open(k) }, set.name));
  if (sets.length > 1) host.append(html("div", { class: "tabs", role: "group", "aria-label": "Data sets" }, ...tabs));
  else host.append(html("h3", {}, sets[0].name));
  host.append(stage);
  open(0);
}

// What a frame shows: its own, or that of the last frame before it that has some.
function latest(frames, k) {
  for (let at = k; at >= 0; at--) if (frames[at]) return { at, held: frames[at] };
  return null;
}

// What is left of two gradients in the plane when they are added.
function cancelled(a, b) {
  if (!a || !b || ![...a, ...b].every(isNumber)) return null;
  const [first, second, sum] = [Math.hypot(...a), Math.hypot(...b), Math.hypot(a[0] + b[0], a[1] + b[1])];
  return { first, second, sum, length: first + second - sum, part: first + second > 0 ? 1 - sum / (first + second) : 0 };
}

class Explorer {
  constructor(stage, data) {
    this.data = data;
    this.frame = Math.max(0, data.frames.length - 1); // begin where training ended; playing goes back to where it began
    this.chosen = null;
    this.timer = null;
    this.panels = data.methods.map((method) => new Panel(this, method));
    this.text = html("div", { class: "pair-text", "aria-live": "polite" });
    const note = [
      data.rows.length < data.size ? `${data.rows.length} of ${data.size} rows are drawn; partners stay together.` : "",
      data.note,
    ]
      .join(" ")
      .trim();
    stage.replaceChildren(
      this.key(),
      ...(data.frames.length > 1 ? [this.controls()] : []),
      html("div", { class: "panels" }, ...this.panels.map((panel) => panel.host)),
      this.finder(),
      this.text,
      html("p", { class: "note" }, note),
    );
    onWidth(this.panels[0].plot, (width) => {
      for (const panel of this.panels) panel.draw(width);
      this.choose(this.chosen);
      this.go(this.frame);
    });
    this.choose(this.opening());
  }

  // Begin with the pair whose gradients cancel most in the plane, so that there is something to see.
  opening() {
    const held = latest(this.data.methods[0].gradients, this.frame);
    if (!held) return this.data.rows.length ? 0 : null;
    let best = 0;
    let most = 0;
    this.data.partner.forEach((j, i) => {
      const saved = cancelled(held.held[i], held.held[j]);
      if (saved && saved.length > most) [best, most] = [i, saved.length];
    });
    return best;
  }

  key() {
    const { data } = this;
    const item = (label, name) =>
      html("span", {}, svg("svg", { viewBox: "0 0 14 12", width: 14, height: 12, "aria-hidden": "true" }, sample(label, 7, 6, 4)), name);
    const line = (kind, name) =>
      html(
        "span",
        {},
        svg(
          "svg",
          { viewBox: "0 0 28 12", width: 28, height: 12, "aria-hidden": "true" },
          svg("line", { class: kind, x1: 1, x2: 27, y1: 6, y2: 6 }),
        ),
        name,
      );
    return html(
      "div",
      { class: "key" },
      item(1, "label +1"),
      item(-1, "label −1"),
      line("boundary", "decision now"),
      line("boundary ghost", "before"),
      data.optimum ? line("optimum", "decision at the optimum") : null,
      line("arrow", "gradients of the pair"),
      line("arrow sum", "their sum"),
    );
  }

  controls() {
    const { data } = this;
    const step = (by, name, label) =>
      html(
        "button",
        {
          type: "button",
          "aria-label": label,
          click: () => {
            this.stop();
            this.go(clamp(this.frame + by, 0, data.frames.length - 1));
          },
        },
        name,
      );
    this.slider = html("input", {
      type: "range",
      min: 0,
      max: data.frames.length - 1,
      value: 0,
      "aria-label": "epoch",
      input: () => {
        this.stop();
        this.go(Number(this.slider.value));
      },
    });
    this.playing = html("button", { type: "button", class: "play", click: () => (this.timer ? this.stop() : this.play()) }, "Play");
    this.counter = html("output", {});
    return html(
      "div",
      { class: "player" },
      this.playing,
      step(-1, "‹", "One frame back"),
      this.slider,
      step(1, "›", "One frame on"),
      this.counter,
    );
  }

  finder() {
    const { data } = this;
    this.number = html("input", {
      type: "number",
      min: 0,
      max: data.size - 1,
      inputmode: "numeric",
      change: () => {
        const i = data.rows.indexOf(Number(this.number.value));
        if (i >= 0) this.choose(i);
        else this.text.replaceChildren(html("p", {}, `Row ${this.number.value} is not drawn.`));
      },
    });
    return html(
      "div",
      { class: "finder" },
      html("label", {}, "Row ", this.number),
      html("button", { type: "button", click: () => this.swap() }, "Go to its partner"),
      html("span", { class: "note" }, "Point at a sample, or focus a panel and use the arrow keys; Enter goes to the partner."),
    );
  }

  play() {
    if (this.frame >= this.data.frames.length - 1) this.go(0);
    this.playing.textContent = "Pause";
    const next = () => {
      this.go(this.frame + 1);
      if (this.frame >= this.data.frames.length - 1) this.stop();
    };
    this.timer = setInterval(next, PAUSE);
  }

  stop() {
    clearInterval(this.timer);
    this.timer = null;
    if (this.playing) this.playing.textContent = "Play";
  }

  go(k) {
    const from = this.frame;
    this.frame = k;
    if (this.slider) {
      const name = `epoch ${show(this.data.frames[k])}`;
      this.slider.value = k;
      this.slider.setAttribute("aria-valuetext", name);
      this.counter.textContent = name;
    }
    for (const panel of this.panels) panel.go(from, k);
    if (from !== k) this.choose(this.chosen);
  }

  swap() {
    if (this.chosen !== null && this.data.partner[this.chosen] >= 0) this.choose(this.data.partner[this.chosen]);
  }

  choose(i) {
    this.chosen = i;
    for (const panel of this.panels) panel.choose(i);
    if (i === null) this.text.replaceChildren(html("p", {}, "No pair chosen."));
    else this.describe(i);
  }

  describe(i) {
    const { data } = this;
    const name = (label) => (label > 0 ? "+1" : "−1");
    const j = data.partner[i];
    if (document.activeElement !== this.number) this.number.value = data.rows[i];
    const other =
      data.partnerRows[i] === data.rows[i]
        ? "It is its own partner."
        : j < 0
          ? `Its partner is row ${data.partnerRows[i]}, which is not drawn.`
          : null;
    const sentence = html("p", {}, "Row ", html("strong", { class: "row" }, String(data.rows[i])), ` (label ${name(data.labels[i])}) `);
    if (other) sentence.append(". " + other);
    else
      sentence.append(
        "travels with row ",
        html("strong", { class: "partner" }, String(data.partnerRows[i])),
        ` (label ${name(data.labels[j])}).`,
      );
    this.text.replaceChildren(sentence);
    const heads = ["Weights of", "Product of gradients", "Lengths in this plane", "Length of their sum"];
    const cells = heads.map((head, k) => html("th", { scope: "col", class: k ? "number" : null }, head));
    const rows = data.methods.map((method) => this.figures(method, i, j));
    const table = html("table", {}, html("thead", {}, html("tr", {}, ...cells)), html("tbody", {}, ...rows));
    this.text.append(html("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Gradients of the pair" }, table));
  }

  figures(method, i, j) {
    const product = latest(method.product, this.frame);
    const held = latest(method.gradients, this.frame);
    const saved = held && j >= 0 ? cancelled(held.held[i], held.held[j]) : null;
    const when = product && product.at !== this.frame ? ` at epoch ${show(this.data.frames[product.at])}` : "";
    return html(
      "tr",
      {},
      html("th", { scope: "row" }, method.name),
      html("td", { class: "number product" }, (product ? show(product.held[i]) : "–") + when),
      html("td", { class: "number" }, saved ? `${show(saved.first, 3)} and ${show(saved.second, 3)}` : "–"),
      html("td", { class: "number" }, saved ? `${show(saved.sum, 3)}: ${Math.round(100 * saved.part)} % cancels` : "–"),
    );
  }
}

const diamond = (x, y, r) => `M${x} ${y - 1.4 * r}L${x + 1.4 * r} ${y}L${x} ${y + 1.4 * r}L${x - 1.4 * r} ${y}z`;
const sample = (label, x, y, r) =>
  label > 0 ? svg("circle", { cx: x, cy: y, r, class: "plus" }) : svg("path", { class: "minus", d: diamond(x, y, 0.9 * r) });

class Panel {
  constructor(explorer, method) {
    this.explorer = explorer;
    this.method = method;
    this.now = null; // the line as drawn, on its way from one frame to the next
    this.objective = html("span", { class: "objective" });
    this.plot = html("div", {
      class: "plot",
      tabindex: 0,
      role: "application",
      "aria-roledescription": "scatter plot",
      "data-method": method.name,
      "aria-label": `${method.name}: samples and their partners; arrow keys go from sample to sample, Enter to the partner`,
      keydown: (event) => this.key(event),
      pointermove: (event) => this.point(event),
      pointerdown: (event) => this.point(event),
    });
    this.host = html(
      "div",
      { class: "panel" },
      html(
        "div",
        { class: "panel-head" },
        html("h4", {}, method.name),
        this.objective,
        html("span", { class: "tools" }, ...saveButtons(`pairs ${method.name}`, () => this.drawing)),
      ),
      this.plot,
    );
  }

  draw(width) {
    const { data } = this.explorer;
    const height = Math.round(clamp(width * 0.72, 240, 440));
    const box = { left: 1, right: width - 1, top: 24, bottom: height - 24 };
    const [xs, ys] = [data.points.map((p) => p[0]), data.points.map((p) => p[1])];
    const span = (values) => (values.length ? [values.reduce((a, b) => Math.min(a, b)), values.reduce((a, b) => Math.max(a, b))] : [0, 1]);
    const [x0, x1] = span(xs);
    const [y0, y1] = span(ys);
    // one unit is as long in x as in y: angles between gradients and decisions are what there is to see
    const unit = 0.84 * Math.min((box.right - box.left) / (x1 - x0 || 1), (box.bottom - box.top) / (y1 - y0 || 1));
    const centre = [(x0 + x1) / 2, (y0 + y1) / 2];
    Object.assign(this, { width, height, box, unit });
    this.pixel = ([x, y]) => [(box.left + box.right) / 2 + (x - centre[0]) * unit, (box.top + box.bottom) / 2 - (y - centre[1]) * unit];
    this.value = ([px, py]) => [centre[0] + (px - (box.left + box.right) / 2) / unit, centre[1] - (py - (box.top + box.bottom) / 2) / unit];
    this.places = data.points.map(this.pixel);
    const dots = svg(
      "g",
      { class: "samples" },
      ...this.places.map(([x, y], i) => sample(data.labels[i], round(x), round(y), data.rows.length > 600 ? 2.6 : 3.4)),
    );
    this.side = svg("polygon", { class: "side" });
    this.ghosts = svg("g", {});
    this.line = svg("line", { class: "boundary" });
    this.pair = svg("g", { class: "pair" });
    const optimum = data.optimum ? this.segment(data.optimum) : null;
    this.drawing = svg(
      "svg",
      { viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true", focusable: "false" },
      svg("rect", { class: "frame", x: box.left, y: box.top, width: box.right - box.left, height: box.bottom - box.top }),
      this.side,
      dots,
      optimum ? svg("line", { class: "optimum", ...optimum }) : null,
      this.ghosts,
      this.line,
      this.pair,
      svg("text", { class: "label", x: box.right, y: height - 7, "text-anchor": "end" }, `${fit(data.axisLabels[0], width - 20)} →`),
      svg("text", { class: "label", x: box.left, y: 14 }, `↑ ${fit(data.axisLabels[1], width - 20)}`),
    );
    this.plot.replaceChildren(this.drawing);
  }

  corners() {
    const { left, right, top, bottom } = this.box;
    return [
      [left, top],
      [right, top],
      [right, bottom],
      [left, bottom],
    ];
  }

  // The frame's part on the positive side of a line, by cutting its corners off one after another.
  positive(line) {
    const height = (corner) => {
      const [x, y] = this.value(corner);
      return line[0] * x + line[1] * y + line[2];
    };
    const corners = this.corners();
    const kept = [];
    const cuts = [];
    corners.forEach((corner, k) => {
      const next = corners[(k + 1) % 4];
      const [a, b] = [height(corner), height(next)];
      if (a >= 0) kept.push(corner);
      if (a >= 0 !== b >= 0) {
        const part = a / (a - b);
        const cut = [corner[0] + part * (next[0] - corner[0]), corner[1] + part * (next[1] - corner[1])];
        kept.push(cut);
        cuts.push(cut);
      }
    });
    return { kept, cuts };
  }

  segment(line) {
    const { cuts } = this.positive(line);
    return cuts.length === 2 ? { x1: round(cuts[0][0]), y1: round(cuts[0][1]), x2: round(cuts[1][0]), y2: round(cuts[1][1]) } : null;
  }

  go(from, k) {
    const { objective, boundaries } = this.method;
    this.objective.textContent = `objective ${steady(objective[k])}`;
    if (!this.drawing) return;
    this.ghosts.replaceChildren();
    for (let back = Math.min(GHOSTS, k); back >= 1; back--) {
      const old = boundaries[k - back] && this.segment(boundaries[k - back]);
      if (old) this.ghosts.append(svg("line", { class: "boundary ghost", opacity: 0.5 * (1 - back / (GHOSTS + 1)), ...old }));
    }
    cancelAnimationFrame(this.moving);
    const [start, end] = [this.now, boundaries[k] || null];
    if (!start || !end || from === k || calm()) return this.put(end);
    const began = performance.now();
    const length = Math.min(260, PAUSE * 0.6);
    const tick = (time) => {
      const part = clamp((time - began) / length, 0, 1);
      const eased = part * (2 - part);
      this.put(part === 1 ? end : start.map((value, m) => value + eased * (end[m] - value)));
      if (part < 1) this.moving = requestAnimationFrame(tick);
    };
    this.moving = requestAnimationFrame(tick);
    return undefined;
  }

  put(line) {
    this.now = line;
    const ends = line && this.segment(line);
    this.line.setAttribute("visibility", ends ? "visible" : "hidden");
    for (const [name, value] of Object.entries(ends || {})) this.line.setAttribute(name, value);
    this.side.setAttribute(
      "points",
      line
        ? this.positive(line)
            .kept.map((corner) => corner.map(round).join(","))
            .join(" ")
        : "",
    );
  }

  choose(i) {
    if (!this.drawing) return;
    this.pair.replaceChildren();
    if (i === null) return;
    const { data } = this.explorer;
    const j = data.partner[i];
    const [a, b] = [this.places[i], this.places[j]];
    const ring = (k, kind) =>
      svg(
        "g",
        { class: kind, "data-row": data.rows[k] },
        svg("circle", { cx: this.places[k][0], cy: this.places[k][1], r: 8 }),
        sample(data.labels[k], ...this.places[k], 4.6),
      );
    if (j >= 0 && j !== i) this.pair.append(svg("line", { class: "link", x1: a[0], y1: a[1], x2: b[0], y2: b[1] }));
    this.pair.append(ring(i, "chosen"));
    if (j < 0) return;
    if (j !== i) this.pair.append(ring(j, "partner"));
    const held = latest(this.method.gradients, this.explorer.frame);
    if (held) this.arrows(a, b, held.held[i], held.held[j]);
  }

  // Gradients where they act, their sum between them; the longer one always as long, so that cancelling is seen at any scale.
  arrows(a, b, g, h) {
    if (![...g, ...h].every(isNumber)) return;
    const longest = Math.max(Math.hypot(...g), Math.hypot(...h));
    if (!longest) return;
    const drawn = [
      [a, g, "arrow"],
      [b, h, "arrow"],
      [[(a[0] + b[0]) / 2, (a[1] + b[1]) / 2], [g[0] + h[0], g[1] + h[1]], "arrow sum"],
    ];
    const usual = (0.2 * Math.min(this.width, 420)) / longest;
    const by = Math.max(usual / 3, Math.min(usual, ...drawn.map(([from, vector]) => this.room(from, vector))));
    for (const [from, vector, kind] of drawn) this.pair.append(...arrow(from, [from[0] + vector[0] * by, from[1] - vector[1] * by], kind));
  }

  // How many times a vector fits between a place and the edge.
  room([x, y], [dx, dy]) {
    const across = (dx > 0 ? this.box.right - x : x - this.box.left) / Math.abs(dx || 1e-300);
    return Math.min(across, (dy > 0 ? y : this.height - y) / Math.abs(dy || 1e-300));
  }

  point(event) {
    const rect = this.drawing.getBoundingClientRect();
    const ratio = this.width / rect.width;
    const [x, y] = [(event.clientX - rect.left) * ratio, (event.clientY - rect.top) * ratio];
    let best = null;
    let least = event.pointerType === "mouse" ? 18 : 40;
    this.places.forEach((p, i) => {
      const distance = Math.hypot(p[0] - x, p[1] - y);
      if (distance < least) [best, least] = [i, distance];
    });
    if (best !== null && best !== this.explorer.chosen) this.explorer.choose(best);
  }

  key(event) {
    const { explorer, places } = this;
    const way = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
    const known = way || ["Enter", "Home", "End"].includes(event.key);
    if (!known || !places.length) return;
    event.preventDefault();
    if (event.key === "Enter") return void explorer.swap();
    if (event.key === "Home" || explorer.chosen === null) return void explorer.choose(0);
    if (event.key === "End") return void explorer.choose(places.length - 1);
    const here = places[explorer.chosen];
    let best = null;
    let least = Infinity;
    places.forEach((p, i) => {
      const along = (p[0] - here[0]) * way[0] + (p[1] - here[1]) * way[1];
      const across = Math.abs((p[0] - here[0]) * way[1]) + Math.abs((p[1] - here[1]) * way[0]);
      if (along > 0.5 && along >= across && along + 2 * across < least) [best, least] = [i, along + 2 * across];
    });
    if (best !== null) explorer.choose(best);
  }
}

function arrow(from, to, kind) {
  const [dx, dy] = [to[0] - from[0], to[1] - from[1]];
  const length = Math.hypot(dx, dy);
  if (length < 0.5) return [svg("circle", { class: kind + " head", cx: from[0], cy: from[1], r: 2.5 })];
  const size = Math.min(8, length);
  const [ux, uy] = [dx / length, dy / length];
  const base = [to[0] - ux * size, to[1] - uy * size];
  const wing = size * 0.5;
  return [
    svg("line", { class: kind, x1: round(from[0]), y1: round(from[1]), x2: round(base[0]), y2: round(base[1]) }),
    svg("path", {
      class: kind + " head",
      d:
        "M" +
        [to, [base[0] - uy * wing, base[1] + ux * wing], [base[0] + uy * wing, base[1] - ux * wing]]
          .map((p) => p.map(round).join(" "))
          .join("L") +
        "z",
    }),
  ];
}

function theme() {
  const root = document.documentElement;
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  const dark = () => (root.dataset.theme ? root.dataset.theme === "dark" : system.matches);
  const button = html("button", {
    type: "button",
    class: "quiet",
    click: () => {
      root.dataset.theme = dark() ? "light" : "dark";
      label();
    },
  });
  const label = () => {
    button.textContent = dark() ? "Light" : "Dark";
    button.setAttribute("aria-label", `Change to ${dark() ? "light" : "dark"} colours`);
  };
  system.addEventListener("change", label);
  label();
  return button;
}

const sets = JSON.parse(document.getElementById("data").textContent);
document.getElementById("tools").append(theme());
if (sets.length) startExplorer(document.getElementById("explorer"), sets);
document.documentElement.classList.add("alive");
