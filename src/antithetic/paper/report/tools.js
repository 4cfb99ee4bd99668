// Elements, numbers, scales and ticks. Text enters the page as text nodes only, never as markup.

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

function textWidth(text, weight = 400) {
  ruler.font = `${weight} 12px ${getComputedStyle(document.body).fontFamily}`;
  return ruler.measureText(text).width;
}

function fit(text, room, weight = 400) {
  if (textWidth(text, weight) <= room) return text;
  let length = text.length;
  while (length > 1 && textWidth(text.slice(0, length) + "…", weight) > room) length--;
  return text.slice(0, length) + "…";
}

// A scale takes a value to a pixel, or to null where the value has no place on it.
function scale(values, log, from, to) {
  const held = values.filter((value) => isNumber(value) && (!log || value > 0));
  if (!held.length) return null;
  let low = held.reduce((a, b) => Math.min(a, b));
  let high = held.reduce((a, b) => Math.max(a, b));
  if (log) [low, high] = [Math.log10(low), Math.log10(high)];
  if (high - low < 1e-12 * Math.max(1, Math.abs(high)))
    [low, high] = [low - (log ? 0.5 : Math.abs(low) / 2 || 0.5), high + (log ? 0.5 : Math.abs(high) / 2 || 0.5)];
  return { log, low, high, from, to };
}

// Room above and below; from zero where that is asked for or costs little, since lengths above zero are what the eye compares.
function widen(s, part, asked = false) {
  const fromZero = !s.log && s.low >= 0 && (asked || s.low < 0.5 * s.high);
  return { ...s, low: fromZero ? 0 : s.low - part * (s.high - s.low), high: s.high + part * (s.high - s.low) };
}

function place(s, value) {
  if (!isNumber(value) || (s.log && value <= 0)) return null;
  return s.from + (((s.log ? Math.log10(value) : value) - s.low) / (s.high - s.low)) * (s.to - s.from);
}

function niceStep(span, count) {
  const rough = span / Math.max(1, count);
  const base = 10 ** Math.floor(Math.log10(rough));
  return base * ([1, 2, 5, 10].find((step) => step * base >= rough * 0.999) || 10);
}

function linearTicks(low, high, count) {
  const step = niceStep(high - low, count);
  const ticks = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + 1e-9 * step; k++) ticks.push(k * step);
  const decimals = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
  const plain = decimals <= 4 && Math.max(Math.abs(low), Math.abs(high)) < 1e6;
  return ticks.map((value) => ({
    value,
    text: Math.abs(value) < 1e-9 * step ? "0" : plain ? minus(value.toFixed(decimals)) : show(value, 3),
  }));
}

// Powers of ten; in between, 2 and 5 where there are fewer than two powers; even steps within a fraction of a decade.
function logTicks(low, high, count) {
  const first = Math.ceil(low - 1e-9);
  const last = Math.floor(high + 1e-9);
  if (last - first >= 1) {
    const step = Math.max(1, Math.ceil((last - first + 1) / count));
    const ticks = [];
    for (let k = Math.ceil(first / step) * step; k <= last; k += step) ticks.push({ value: 10 ** k, text: power(k) });
    return ticks;
  }
  const ticks = [];
  for (let k = Math.floor(low); k <= Math.ceil(high); k++) for (const m of [1, 2, 5]) ticks.push(m * 10 ** k);
  const inside = ticks.filter((value) => Math.log10(value) >= low - 1e-9 && Math.log10(value) <= high + 1e-9);
  if (inside.length >= 3) return inside.map((value) => ({ value, text: show(value, 2) }));
  return linearTicks(10 ** low, 10 ** high, count).filter((tick) => tick.value > 0);
}

const ticksOf = (s, count) => (s.log ? logTicks : linearTicks)(s.low, s.high, count);

// Looks of a name, the same all over the page: a colour, dashes and a marker, none of which is told apart by colour alone.
const DASHES = [null, "8 5", "2 4", "10 5 1 5", "16 6", "6 4 1 4 1 4"];
const MARKERS = ["circle", "square", "triangle", "diamond", "cross", "down"];
const looks = new Map();

function lookOf(name) {
  if (!looks.has(name)) {
    const k = looks.size;
    looks.set(name, { colour: "c" + (k % 7), dash: DASHES[(k + Math.floor(k / 7)) % 6], marker: MARKERS[(k + Math.floor(k / 7)) % 6] });
  }
  return looks.get(name);
}

function marker(kind, x, y, size, attributes) {
  const r = size;
  const path = {
    square: `M${x - r} ${y - r}h${2 * r}v${2 * r}h${-2 * r}z`,
    triangle: `M${x} ${y - 1.25 * r}L${x + 1.2 * r} ${y + r}L${x - 1.2 * r} ${y + r}z`,
    down: `M${x} ${y + 1.25 * r}L${x + 1.2 * r} ${y - r}L${x - 1.2 * r} ${y - r}z`,
    diamond: `M${x} ${y - 1.4 * r}L${x + 1.4 * r} ${y}L${x} ${y + 1.4 * r}L${x - 1.4 * r} ${y}z`,
    cross: `M${x - r} ${y - r}L${x + r} ${y + r}M${x + r} ${y - r}L${x - r} ${y + r}`,
  }[kind];
  return path ? svg("path", { d: path, ...attributes }) : svg("circle", { cx: x, cy: y, r, ...attributes });
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
