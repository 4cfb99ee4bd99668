// Brings the page to life: theme, figures, explorer, download.

const data = JSON.parse(document.getElementById("data").textContent);

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

// On a phone, one group of figures at a time; the style sheet decides what is a phone.
function menuOfFigures(section) {
  const groups = section ? [...section.querySelectorAll(".group")].filter((group) => group.querySelector("h3")) : [];
  if (groups.length < 2) return;
  const select = html(
    "select",
    { change: () => groups.forEach((group, place) => group.classList.toggle("chosen", place === select.selectedIndex)) },
    ...groups.map((group) => html("option", {}, group.querySelector("h3").textContent)),
  );
  groups[0].classList.add("chosen");
  groups[0].before(html("label", { class: "menu" }, "Figures of", select));
  // Figures without a group are no part of the menu and stay.
  for (const group of section.querySelectorAll(".group")) if (!groups.includes(group)) group.classList.add("chosen");
  section.classList.add("behind-menu");
}

const download = () => save("report.json", new Blob([JSON.stringify(data, null, 1)], { type: "application/json" }));

document
  .getElementById("tools")
  .append(
    html(
      "button",
      { type: "button", class: "quiet", id: "download", "aria-label": "Download all numbers as JSON", click: download },
      "JSON",
    ),
    theme(),
  );
for (const host of document.querySelectorAll("figure[data-figure]")) new Chart(host, data.figures[Number(host.dataset.figure)]);
if (data.explorer.length) startExplorer(document.getElementById("explorer"), data.explorer);
menuOfFigures(document.getElementById("figures"));
document.documentElement.classList.add("alive");
